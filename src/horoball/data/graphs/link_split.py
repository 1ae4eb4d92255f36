"""Edges held out, with as many non-edges, to test whether a model tells them apart.

Note [Leak]: a graph without isolated nodes tells, by the nodes that a split isolates, where edges were taken away.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.data.graphs.graph import Graph

__all__ = ["LeakWarning", "LinkSplit", "Pairs", "split_links"]


class LeakWarning(UserWarning):
    """The split isolates nodes, so that some held-out edges can be told without any model.

    Example:
        >>> with warnings.catch_warnings(record=True) as said:
        ...     warnings.simplefilter("always")
        ...     split = split_links(Graph.of([(0, i) for i in range(1, 21)]))  # a star: every edge has a leaf
        >>> said[0].category.__name__, split.isolated
        ('LeakWarning', 3)
    """


class Pairs(NamedTuple):
    """Pairs of nodes, and whether each is an edge of the full graph.

    Example:
        >>> Pairs(torch.tensor([[0, 1]]), torch.tensor([True])).is_edge
        tensor([True])
    """

    pairs: Tensor  # int64, (k, 2)
    is_edge: Tensor  # bool, (k,)


class LinkSplit(NamedTuple):
    """A graph with fewer edges, and what was held out.

    Example:
        >>> graph = Graph.of([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5), (5, 3)])
        >>> split = split_links(graph, validation=0, test=0.2)
        >>> split.train, split.test.pairs.shape, split.isolated
        (Graph(nodes=6, edges=6), torch.Size([2, 2]), 0)
    """

    train: Graph
    validation: Pairs
    test: Pairs
    isolated: int  # nodes with an edge in the full graph and none in train


def split_links(graph: Graph, validation: float = 0.05, test: float = 0.1, seed: int = 0) -> LinkSplit:
    """The split of Kipf & Welling (2016): random edges, and as many random non-edges, for validation and for test.

    Non-edges are pairs that the full graph does not join; none is drawn twice, and validation and test share none.
    See Note [Leak]: a split that isolates nodes warns.

    Args:
        graph: The full graph.
        validation: Part of the edges to choose a model by, rounded down to whole edges.
        test: Part of the edges to judge it by, rounded down.
        seed: Seed of the draw.

    Example:
        >>> graph = Graph.of([(i, j) for i in range(20) for j in range(i + 1, 20) if (i + j) % 3])
        >>> split = split_links(graph)
        >>> len(graph.edges), len(split.train.edges), int(split.test.is_edge.sum())
        (127, 109, 12)
    """
    m = len(graph.edges)
    held = _sizes(graph, validation, test)
    generator = np.random.default_rng((seed, 0x11A2))
    order = torch.from_numpy(generator.permutation(m))
    non_edges = _non_edges(graph, sum(held), generator)
    parts = []
    start = 0
    for size in held:
        edges = graph.edges[order[start : start + size]]
        is_edge = torch.arange(2 * size) < size
        parts.append(Pairs(torch.cat([edges, non_edges[start : start + size]]), is_edge))
        start += size
    train = graph.with_edges(graph.edges[order[start:].sort().values])
    isolated = int(((graph.degrees() > 0) & (train.degrees() == 0)).sum())
    if isolated:
        warnings.warn(
            f"The split left {isolated} node{'' if isolated == 1 else 's'} without any edge. The full graph had given "
            "each of them one, so 'an isolated node has a missing edge' predicts held-out edges without any model. "
            "Compare with the baselines; see docs/graphs.md.",
            LeakWarning,
            stacklevel=2,
        )
    return LinkSplit(train, parts[0], parts[1], isolated)


def _sizes(graph: Graph, validation: float, test: float) -> tuple[int, int]:
    """Held-out edges of validation and test, if the graph has as many, and as many non-edges."""
    for name, part in (("validation", validation), ("test", test)):
        if not 0 <= part < 1:
            raise ValueError(f"Expected {name} as a part of the edges, from 0 to below 1, got {part}.")
    if validation + test >= 1:
        raise ValueError(f"validation and test take {validation} + {test} of the edges, and leave none to train on.")
    if graph.nodes < 2:
        raise ValueError(f"A graph of {graph.nodes} node{'s' * (graph.nodes != 1)} has no links to split.")
    m = len(graph.edges)
    # 0.1 · 30 is 3.0000000000000004 and 0.29 · 100 is 28.999999999999996: neither is a reason for another edge
    held = int(m * validation + 1e-9), int(m * test + 1e-9)
    for name, part, size in (("validation", validation, held[0]), ("test", test, held[1])):
        if part and not size:
            raise ValueError(
                f"The graph has {m} edges, too few to hold out a part of {part} for {name}. Pass a larger part, or "
                f"{name}=0."
            )
    free = graph.nodes * (graph.nodes - 1) // (1 if graph.directed else 2) - m
    if sum(held) > free:
        raise ValueError(
            f"The split needs {sum(held)} pairs that are no edges, but the graph has {free}. It is too dense; hold out "
            "fewer edges."
        )
    return held


def _non_edges(graph: Graph, size: int, generator: np.random.Generator) -> Tensor:
    """Pairs that are no edges, i < j unless directed, drawn uniformly and without repetition, in random order."""
    n, m = graph.nodes, len(graph.edges)
    pairs = n * (n - 1) // (1 if graph.directed else 2)
    if pairs < 4 * (m + size):  # rejection would be slow, and listing all pairs costs no more than the edges do
        everything = torch.triu_indices(n, n, 1).T
        everything = torch.cat((everything, everything.flip(1))) if graph.directed else everything
        free = everything[~graph.holds(everything)]
        return free[torch.from_numpy(generator.permutation(len(free))[:size])]
    found = np.empty(0, np.int64)
    while len(found) < size:
        # At most a quarter of all pairs are edges or drawn before, so that a few rounds are enough.
        i, j = generator.integers(0, n, (2, 2 * (size - len(found)) + 16))
        ends = (i, j) if graph.directed else (np.minimum(i, j), np.maximum(i, j))
        drawn = torch.from_numpy(np.stack(ends, 1)[i != j])
        drawn = drawn[~graph.holds(drawn)]
        keys = np.concatenate([found, (drawn[:, 0] * n + drawn[:, 1]).numpy()])
        _, first = np.unique(keys, return_index=True)
        found = keys[np.sort(first)][:size]  # in the order of their draw, which is random
    kept = torch.from_numpy(found)
    return torch.stack([kept // n, kept % n], 1)
