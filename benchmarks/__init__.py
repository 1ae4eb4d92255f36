"""How accurate, stable and fast horoball is, measured: `python -m benchmarks.accuracy`, `.stability`; see README.md.

Accuracy is against definitions in `oracle`, in as many digits as they need, and beside geoopt where it has the
operation. Each command prints tables and ends with code 1 if a bar is missed.
"""
