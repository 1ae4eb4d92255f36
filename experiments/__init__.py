"""One command for each table and figure of the paper, and beyond: `python -m experiments NAME`; see README.md."""
