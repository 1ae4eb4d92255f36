"""Robustness: damaged files, faults, mutants, tables larger than memory; see README.md."""
