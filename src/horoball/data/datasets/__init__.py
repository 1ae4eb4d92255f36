"""Data sets: the branching process, random graphs, MNIST and the graphs of the paper."""

__all__: list[str] = []
