"""Rules of one line that score pairs of nodes from the train graph alone: what a model of links has to beat.

The first four look for pairs that are close. The last two look for nodes that miss an edge: they read what a split
gives away, see Note [Leak] in `horoball.data.graphs.link_split`, and know nothing of which node belongs to which.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from scipy.special import gammaln, logsumexp
from torch import Tensor

from horoball.data.graphs.graph import Graph
from horoball.hierarchy.space import Space

__all__ = [
    "BASELINES",
    "adamic_adar",
    "common_neighbors",
    "degree_deficit",
    "isolated_end",
    "preferential_attachment",
    "rules_for",
    "shortest_path",
]

_ENTRIES = 4_000_000  # neighbors held at a time, 50 MB


def common_neighbors(train: Graph, pairs: Tensor) -> Tensor:
    """|N(i) ∩ N(j)|.

    Args:
        train: The graph without the edges that were held out.
        pairs: Node numbers, shape (k, 2).

    Returns:
        Scores in float64, shape (k,); a likely edge has a high one.

    Example:
        >>> common_neighbors(Graph.of([(0, 1), (1, 2), (2, 3)]), torch.tensor([[0, 2], [0, 3]]))
        tensor([1., 0.], dtype=torch.float64)
    """
    return _sum_over_shared(train, pairs, np.ones(train.nodes))


def adamic_adar(train: Graph, pairs: Tensor) -> Tensor:
    """Σ 1/log |N(w)| over common neighbors w: those that few nodes share count more.

    Args:
        train: The graph without the edges that were held out.
        pairs: Node numbers, shape (k, 2).

    Returns:
        Scores in float64, shape (k,).

    Example:
        >>> adamic_adar(Graph.of([(0, 1), (1, 2), (2, 3)]), torch.tensor([[0, 2], [0, 3]]))
        tensor([1.4427, 0.0000], dtype=torch.float64)
    """
    degree = train.degrees().numpy()
    weight = np.zeros(train.nodes)  # who is shared by two has two neighbors: log 1 = 0 is not divided by
    np.divide(1.0, np.log(np.maximum(degree, 1)), out=weight, where=degree > 1)
    return _sum_over_shared(train, pairs, weight)


def preferential_attachment(train: Graph, pairs: Tensor) -> Tensor:
    """|N(i)|·|N(j)|.

    Args:
        train: The graph without the edges that were held out.
        pairs: Node numbers, shape (k, 2).

    Returns:
        Scores in float64, shape (k,).

    Example:
        >>> preferential_attachment(Graph.of([(0, 1), (1, 2), (2, 3)]), torch.tensor([[1, 2], [0, 3]]))
        tensor([4., 1.], dtype=torch.float64)
    """
    return _of_nodes(train, pairs, train.degrees()).prod(1)


def shortest_path(train: Graph, pairs: Tensor) -> Tensor:
    """Minus the length of the shortest path; pairs that no path joins have the lowest score, −n.

    Costs one search of the graph for each node that stands in one column of the pairs, so it is for thousands of pairs.

    Args:
        train: The graph without the edges that were held out.
        pairs: Node numbers, shape (k, 2).

    Returns:
        Scores in float64, shape (k,).

    Example:
        >>> shortest_path(Graph.of([(0, 1), (1, 2), (3, 4)]), torch.tensor([[0, 2], [0, 3]]))
        tensor([-2., -5.], dtype=torch.float64)
    """
    i, j = _checked(train, pairs).numpy().T
    if len(np.unique(j)) < len(np.unique(i)):
        i, j = j, i
    sources, place = np.unique(i, return_inverse=True)
    space = Space.of_graph(train.adjacency(), allow_parts=True)
    everything = np.arange(train.nodes)
    length = np.empty(len(i))
    first = 0
    for rows in space.row_blocks(sources):
        here = (place >= first) & (place < first + len(rows))
        length[here] = space.between(rows, everything)[place[here] - first, j[here]]
        first += len(rows)
    length[np.isinf(length)] = train.nodes  # one more than any path has
    return torch.from_numpy(-length)


def isolated_end(train: Graph, pairs: Tensor) -> Tensor:
    """Pairs with exactly one isolated end first, then by |N(i)| + |N(j)|.

    In a graph that was connected, a node without an edge misses one; its other end is likely to have many.

    Args:
        train: The graph without the edges that were held out.
        pairs: Node numbers, shape (k, 2).

    Returns:
        Scores in float64, shape (k,).

    Example:
        >>> isolated_end(Graph.of([(0, 1), (1, 2)], nodes=5), torch.tensor([[1, 4], [0, 2], [3, 4]]))
        tensor([12.,  2.,  0.], dtype=torch.float64)
    """
    degree = _of_nodes(train, pairs, train.degrees())
    one = (degree == 0).sum(1) == 1
    return degree.sum(1) + one * float(2 * train.nodes)  # more than two degrees can add up to


def degree_deficit(train: Graph, pairs: Tensor, hidden: float = 0.15) -> Tensor:
    r"""Product of both ends' expected number of missing edges, told by their degrees.

    If D is a node's degree before a part p of all edges was hidden, and k what is left of it, the deficit of a node
    with k edges is E[D − k | k] with k ~ Binomial(D, 1 − p). The degrees of the train graph stand for those before;
    isolated nodes are left out of them, as in a graph that was connected.

    Args:
        train: The graph without the edges that were held out.
        pairs: Node numbers, shape (k, 2).
        hidden: p; the split of Kipf & Welling hides 5 % for validation and 10 % for test.

    Returns:
        Scores in float64, shape (k,).

    Example:
        >>> degree_deficit(Graph.of([(0, 1), (1, 2)], nodes=4), torch.tensor([[3, 0], [0, 2], [0, 1]]))
        tensor([0.1395, 0.0170, 0.0000], dtype=torch.float64)
    """
    if not 0 < hidden < 1:
        raise ValueError(f"degree_deficit expects the part of hidden edges between 0 and 1, got {hidden}.")
    # A graph of m edges has at most 2√m different degrees: their square is O(m).
    k, place, count = np.unique(train.degrees().numpy(), return_inverse=True, return_counts=True)
    before = k > 0
    D, left = k[before], k[:, None]
    if not len(D):
        return _of_nodes(train, pairs, torch.zeros(train.nodes)).prod(1)
    lost = np.maximum(D - left, 0)
    log_choose = gammaln(D + 1) - gammaln(left + 1) - gammaln(lost + 1)
    log_weight = np.log(count[before]) + log_choose + left * np.log1p(-hidden) + lost * np.log(hidden)
    log_weight = np.where(left <= D, log_weight, -np.inf)
    deficit = (np.exp(log_weight - logsumexp(log_weight, 1, keepdims=True)) * lost).sum(1)
    return _of_nodes(train, pairs, torch.from_numpy(deficit[place])).prod(1)


def rules_for(hidden: float = 0.15) -> dict[str, Callable[[Graph, Tensor], Tensor]]:
    """The rules by the names that tables print; each takes the train graph and the pairs.

    Args:
        hidden: Part of the edges that was held out, which `degree_deficit` counts with.

    Example:
        >>> len(rules_for(hidden=0.1))
        6
    """
    return {
        "common neighbors": common_neighbors,
        "Adamic–Adar": adamic_adar,
        "preferential attachment": preferential_attachment,
        "shortest path": shortest_path,
        "one isolated end, then degree sum": isolated_end,
        "degree-deficit product": partial(degree_deficit, hidden=hidden),
    }


BASELINES = rules_for()
"""The rules for the split of Kipf & Welling, which hides 15 % of the edges."""


def _sum_over_shared(train: Graph, pairs: Tensor, weight: np.ndarray) -> Tensor:
    """Sums over common neighbors, in blocks of pairs that have a bounded number of neighbors."""
    i, j = _checked(train, pairs).numpy().T
    graph, degree = train.adjacency(), train.degrees().numpy()
    total = np.cumsum(degree[i] + degree[j])
    cuts = np.searchsorted(total, np.arange(_ENTRIES, total[-1] if len(total) else 0, _ENTRIES))
    score = np.empty(len(i))
    for first, last in pairwise(np.unique([0, *cuts, len(i)])):
        score[first:last] = graph[i[first:last]].multiply(graph[j[first:last]]) @ weight
    return torch.from_numpy(score)


def _of_nodes(train: Graph, pairs: Tensor, value: Tensor) -> Tensor:
    """What both ends of each pair have, in float64, shape (k, 2)."""
    return value.to(torch.float64)[_checked(train, pairs)]


def _checked(train: Graph, pairs: Tensor) -> Tensor:
    if pairs.dim() != 2 or pairs.shape[1] != 2 or pairs.dtype != torch.int64:
        raise ValueError(
            f"Expected pairs of node numbers, int64 of shape (k, 2), got {pairs.dtype} of shape {tuple(pairs.shape)}."
        )
    if len(pairs) and not 0 <= int(pairs.min()) <= int(pairs.max()) < train.nodes:
        raise ValueError(
            f"Expected node numbers from 0 to {train.nodes - 1}, got {int(pairs.min())} to {int(pairs.max())}. Are the "
            "pairs of another graph?"
        )
    return pairs
