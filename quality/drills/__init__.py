"""Fault drills: something is broken on purpose under the real commands, and what a user sees and keeps is looked at.

    python -m quality.drills              # all of them
    python -m quality.drills kill         # those whose names begin so

`quality.faults` kills runs at random moments and restarts ranks; here every fault is met at a named moment.
"""
