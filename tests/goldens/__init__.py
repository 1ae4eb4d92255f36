"""What the package does, written down: weights of fits, texts of commands, tables as read, public names, saved runs.

A change that is to leave behavior alone leaves `goldens.json` alone. One that is meant to change behavior writes it
anew with `python -m tests.goldens --write`, and the difference shows what changed. Numbers are compared with a
tolerance, because the sums of a processor are its own; `python -m tests.goldens --bits FILE` writes exact hashes, which
are the same before and after a change that only moves code, on one machine.
"""
