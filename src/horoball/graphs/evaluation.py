"""How well a model tells edges from non-edges, and how much of a graph an embedding holds.

For the first, edges are held out, with as many non-edges; for the second nothing is, so that no split can leak.

Note [Leak]: a graph without isolated nodes tells, by the nodes that a split isolates, where edges were taken away.

Mean average precision and mean rank tell whether the nodes that a node is related to are the nearest ones, both as
Nickel & Kiela (2017) define them. For a node u with related nodes N(u), all other nodes stand in the order of their
distance from u.

- The rank of v in N(u) is one more than the number of unrelated nodes nearer to u; a node at the very distance counts
  half. Other related nodes are not counted.
- The average precision of u is the mean over v in N(u) of the share of N(u) among the nodes not farther than v.

So equal distances gain nothing: an embedding with all points in one place has the mean rank of a random order, and
|N(u)|/(n − 1) as the precision of u.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.graphs.graph import Graph
from horoball.hierarchy.delta import fixed_sample
from horoball.hierarchy.metrics import Distortion, distortion
from horoball.hierarchy.space import Space


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
    """Pairs of nodes, and whether each is an edge of the full graph."""

    pairs: Tensor  # int64, (k, 2)
    is_edge: Tensor  # bool, (k,)


class LinkSplit(NamedTuple):
    """A graph with fewer edges, and what was held out."""

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


_ELEMENTS = 1_000_000  # distances held at a time, 8 MB: larger blocks leave the cache
_FAR = 20.0  # √c·radius up to which ball coordinates in float64 keep distances to 1e-8


class Ranking(NamedTuple):
    """How near related nodes are."""

    map: float  # mean over nodes of their average precision, at most 1
    mean_rank: float  # mean over related pairs, at least 1
    nodes: int  # whose neighbors were ranked


def ranking(
    neighbors: Any,
    z: Tensor,
    ball: PoincareBall | None = None,
    *,
    offset: Tensor | None = None,
    sources: int | None = None,
    seed: int = 0,
) -> Ranking:
    """Mean average precision and mean rank of a relation, from distances between points.

    Takes O(n log n) for each node that is related to another, in memory O(n + pairs): 1.4 ms a node for n = 82,115 and
    d = 5, and five times as long if points lie beyond √c|z| = 20.

    Args:
        neighbors: Which nodes each node is related to: a sparse matrix of shape (n, n), nonzero where row u is
            related to column v. It may be directed: each node's ancestors, say. A node is no relation of itself.
        z: Points, in the tangent chart of the ball, shape (n, d).
        ball: Where the points lie; flat space if not given.
        offset: Added to the distance from any node to each node, shape (n,); a directed model ranks possible parents
            by d(u, v) + γ|v|.
        sources: Rank the neighbors of so many nodes, a fixed sample of those that have any; all if not given.
        seed: Seed of the sample.

    Example:
        >>> star = csr_array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
        >>> ranking(star, torch.tensor([[0.0, 0.0], [5.0, 0.0], [-5.0, 0.0]]), PoincareBall(1.0))
        Ranking(map=1.0, mean_rank=1.0, nodes=3)
    """
    relation = _relation(neighbors)
    n = relation.shape[0]
    key_of = _keys(z, ball, n) if offset is None else _offset_keys(z, ball or PoincareBall(0.0), offset, n)
    degree = np.diff(relation.indptr)
    nodes = np.flatnonzero(degree)
    if not len(nodes):
        raise ValueError(f"ranking needs related nodes, got {n} nodes and no pair of two different ones.")
    nodes = nodes if sources is None else nodes[fixed_sample(len(nodes), sources, seed)]
    nodes = nodes[np.argsort(degree[nodes], kind="stable")]  # blocks of like degrees waste no room
    size = max(1, _ELEMENTS // n)
    precision = ranks = 0.0
    for first in range(0, len(nodes), size):
        rows = nodes[first : first + size]
        with torch.no_grad():
            found = _block(key_of(rows), rows, relation[rows].indices, degree[rows])
        precision += found[0]
        ranks += found[1]
    return Ranking(precision / len(nodes), ranks / int(degree[nodes].sum()), len(nodes))


def _block(key: np.ndarray, rows: np.ndarray, related: np.ndarray, degree: np.ndarray) -> tuple[float, float]:
    """Sums of average precisions and of ranks over some nodes; key holds their distances to all, and is overwritten."""
    here = np.arange(len(rows))
    used = np.arange(degree.max()) < degree[:, None]
    near = np.full(used.shape, np.inf)
    near[used] = key[np.repeat(here, degree), related]
    key[here, rows] = np.inf  # no node is ranked against itself
    near.sort(1)
    key.sort(1)
    ordered, asked = torch.from_numpy(key), torch.from_numpy(near)
    nearer, within = (torch.searchsorted(ordered, asked, right=right).numpy()[used] for right in (False, True))
    related_nearer, related_within = (
        torch.searchsorted(asked, asked, right=right).numpy()[used] for right in (False, True)
    )
    rank = 1 + (nearer - related_nearer + within - related_within) / 2
    average = np.add.reduceat(related_within / within, np.cumsum(degree) - degree) / degree
    return float(average.sum()), float(rank.sum())


def _relation(neighbors: Any) -> csr_array:
    """The related pairs (u, v), u ≠ v, each once."""
    given = csr_array(neighbors).tocoo()
    if given.shape[0] != given.shape[1]:
        raise ValueError(f"ranking expects a square matrix of related nodes, got shape {given.shape}.")
    u, v = given.coords
    kept = (given.data != 0) & (u != v)
    relation = csr_array((np.ones(int(kept.sum()), bool), (u[kept], v[kept])), shape=given.shape)
    relation.sum_duplicates()
    return relation


def _keys(z: Tensor, ball: PoincareBall | None, n: int) -> Callable[[np.ndarray], np.ndarray]:
    """Numbers in the order of the distances from a node to all, in float64: rows -> (rows, n).

    With ball coordinates x, sinh(√c d(u, v)/2) = √c |x_u − x_v| cosh(√c|z_u|/2) cosh(√c|z_v|/2). The factor of u does
    not change u's order, and the rest costs a tenth of the distance.
    """
    points = _points(z, n)
    scale = points.new_ones(n)
    if ball is not None and not ball.is_euclidean:
        with torch.no_grad():  # c may be learned
            radius = math.sqrt(ball.c_value) * torch.linalg.vector_norm(points, dim=-1)
            if float(radius.max()) > _FAR:
                return lambda rows: ball.cdist(points[rows], points).numpy()
            points, scale = ball.to_ball(points), torch.cosh(radius / 2)
    flat = PoincareBall(0.0)
    return lambda rows: flat.cdist(points[rows], points).mul_(scale).numpy()


def _offset_keys(z: Tensor, ball: PoincareBall, offset: Tensor, n: int) -> Callable[[np.ndarray], np.ndarray]:
    """Distances from a node to all, each with the offset of its end: rows -> (rows, n)."""
    points = _points(z, n)
    if offset.shape != (n,) or not bool(torch.isfinite(offset).all()):
        raise ValueError(f"ranking expects a finite offset for each of {n} nodes, got shape {tuple(offset.shape)}.")
    added = offset.detach().to("cpu", torch.float64)
    return lambda rows: ball.cdist(points[rows], points).add_(added).numpy()


def _points(z: Tensor, n: int) -> Tensor:
    if z.dim() != 2 or len(z) != n:
        raise ValueError(f"ranking expects one point for each of {n} nodes, shape ({n}, d), got {tuple(z.shape)}.")
    points = z.detach().to("cpu", torch.float64)
    if not bool(torch.isfinite(points).all()):
        raise ValueError("ranking expects finite points, got NaN or infinity.")
    return points


class LinkScores(NamedTuple):
    """Area under the ROC curve and average precision, both from 0 to 1."""

    auc: float  # chance that an edge scores above a non-edge; ties count half
    ap: float  # mean over the edges of the precision at the edge's score


def link_scores(score: ArrayLike | Tensor, is_edge: ArrayLike | Tensor) -> LinkScores:
    """AUC and AP of scores; higher ones say that a pair is an edge.

    Pairs of one score are taken together: in the AUC a tie counts half, and the precision at a score is that of all
    pairs with this score or a higher one. Equal scores for all pairs give the AUC ½ and the AP of the share of edges.

    Args:
        score: One number a pair, shape (k,).
        is_edge: Whether each pair is an edge, shape (k,); both kinds have to be there.

    Example:
        >>> link_scores([2.0, 1.0, 1.0, 0.0], [True, True, False, False])
        LinkScores(auc=0.875, ap=0.8333333333333333)
    """
    s, edge = _vector(score), _vector(is_edge)
    if s.shape != edge.shape or s.ndim != 1:
        raise ValueError(f"link_scores expects one score and one truth a pair, got shapes {s.shape} and {edge.shape}.")
    if not np.isin(edge, (0, 1)).all():
        raise ValueError("link_scores expects is_edge to hold True and False only. Pass the scores first.")
    edge = edge.astype(bool)
    s = s.astype(np.float64)
    if np.isnan(s).any():
        raise ValueError(
            f"link_scores expects numbers, got {int(np.isnan(s).sum())} NaN of {len(s)}. A NaN has no place in an "
            "order; find the pairs that have it first."
        )
    edges, others = int(edge.sum()), int((~edge).sum())
    if not edges or not others:
        raise ValueError(
            f"link_scores needs edges and non-edges, got {edges} and {others}. Hold out a larger part of the edges."
        )
    from sklearn.metrics import average_precision_score, roc_auc_score

    rank = np.unique(s, return_inverse=True)[1]  # scikit-learn refuses what is infinite
    return LinkScores(float(roc_auc_score(edge, rank)), float(average_precision_score(edge, rank)))


def _vector(x: ArrayLike | Tensor) -> np.ndarray:
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)


_POINTS = 2000  # nodes up to which all pairs are measured; among as many of a larger graph
_SEARCHES = 200  # of a larger graph, which cost the most: 0.7 s each on 10⁶ nodes with 5 edges a node


@dataclass(frozen=True)
class Reconstruction:
    """What is left of a graph in the distances between its nodes' points."""

    map: float  # mean average precision of nodes' neighbors, at most 1
    mean_rank: float  # of a neighbor among the nodes that are none, at least 1
    distortion: Distortion  # of shortest-path lengths; pairs that no path joins are left out
    nodes: int  # whose neighbors were ranked


def reconstruction(
    graph: Graph,
    z: Tensor,
    ball: PoincareBall,
    *,
    offset: Tensor | None = None,
    sources: int | None = None,
    seed: int = 0,
) -> Reconstruction:
    """Mean average precision, mean rank and distortion of an embedding of a graph.

    See `horoball.graphs.ranking` for the first two; of a directed graph, parents are ranked.
    Lengths of paths are compared between all nodes, or among a fixed sample of 2000 nodes, from 200 of them, if there
    are more.

    Args:
        graph: The full graph.
        z: One point a node, in the tangent chart of the ball, shape (nodes, d).
        ball: Where the points lie; c = 0 is flat space.
        offset: Of a directed model, `model.offset(z)`: parents are ranked by distance plus offset.
        sources: Rank the neighbors of at most so many nodes, and take paths from at most so many; for large graphs.
        seed: Seed of the samples.

    Example:
        >>> import torch
        >>> star = Graph.of([(0, 1), (0, 2), (0, 3)])
        >>> z = 4 * torch.tensor([[0.0, 0.0], [0.0, 1.0], [0.87, -0.5], [-0.87, -0.5]])
        >>> found = reconstruction(star, z, PoincareBall(1.0))
        >>> print(f"{found.map:.2f} {found.mean_rank:.2f} {found.distortion.worst:.2f}")
        1.00 1.00 1.04
    """
    adjacency = graph.adjacency()
    ranked = ranking(graph.relation(), z, ball, offset=offset, sources=sources, seed=seed)
    index = fixed_sample(graph.nodes, _POINTS, seed)
    starts = len(index) if graph.nodes <= _POINTS else _SEARCHES
    stretched = distortion(
        Space.of_graph(adjacency, allow_parts=True).take(index),
        Space.of_points(z, ball).take(index),
        sources=starts if sources is None else min(starts, sources),
        seed=seed,
    )
    return Reconstruction(ranked.map, ranked.mean_rank, stretched, ranked.nodes)
