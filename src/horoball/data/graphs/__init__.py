"""Graphs: edges, node names and features, link splits, sampled pairs."""

__all__: list[str] = []
