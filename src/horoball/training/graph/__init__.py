"""Fits of graphs: from edges to a run, with its objective."""

__all__: list[str] = []
