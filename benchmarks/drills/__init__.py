"""Fault drills: something is broken on purpose under the real commands, and what a user sees and keeps is looked at.

    python -m benchmarks.drills              # all of them
    python -m benchmarks.drills kill         # those whose names begin so

`benchmarks.faults` kills runs at random moments and restarts ranks; here every fault is met at a named moment.
"""
