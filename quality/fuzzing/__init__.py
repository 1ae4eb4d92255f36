"""Damaged files for every reader: does it give a value or a typed error that names the file, and nothing else?

    python -m quality.fuzz --inputs 100000 --seed 0

Given i of a reader is made from (seed, reader, i) alone, so any of them can be made again.
"""
