"""Rules of one line that score pairs of nodes from the train graph alone: what a model of links has to beat.

The first four look for pairs that are close. The last two look for nodes that miss an edge: they read what a split
gives away, see Note [Leak] in `horoball.graphs.evaluation`, and know nothing of which node belongs to which.

PyTorch Geometric's own variational graph auto-encoder, Euclidean and with an inner product for edges, is another one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.special import gammaln, logsumexp
from torch import Tensor, nn

from horoball.geometry.random import global_seed
from horoball.graphs.graph import Graph
from horoball.hierarchy.space import Space
from horoball.plugins import required

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

    Example:
        >>> preferential_attachment(Graph.of([(0, 1), (1, 2), (2, 3)]), torch.tensor([[1, 2], [0, 3]]))
        tensor([4., 1.], dtype=torch.float64)
    """
    return _of_nodes(train, pairs, train.degrees()).prod(1)


def shortest_path(train: Graph, pairs: Tensor) -> Tensor:
    """Minus the length of the shortest path; pairs that no path joins have the lowest score, −n.

    Costs one search of the graph for each node that stands in one column of the pairs, so it is for thousands of pairs.

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


_BLOCK = 1_000_000  # pairs scored at a time


def vgae_scores(train: Graph, pairs: Tensor, d: int = 16, hidden: int = 32, epochs: int = 200, seed: int = 0) -> Tensor:
    """Scores of pairs by `torch_geometric.nn.VGAE`, fitted to the train graph.

    Kipf & Welling's model without features: two graph convolutions, inner products of posterior means as scores. The
    loss is the library's, with as many sampled non-edges as edges and the KL divergence over the number of nodes;
    Adam at 0.01.

    Args:
        train: The graph without the edges that were held out.
        pairs: Node numbers, shape (k, 2).
        d: Dimension of the latent space.
        hidden: Units of the first convolution.
        epochs: Steps, each over all edges.
        seed: Seed of the weights, the noise and the non-edges.

    Returns:
        Scores in float32, shape (k,).

    Example:
        >>> ring = Graph.of([(i, (i + 1) % 12) for i in range(12)])
        >>> score = vgae_scores(ring, torch.tensor([[0, 1], [0, 6]]), epochs=50)
        >>> bool(score[0] > score[1])
        True
    """
    if not len(train.edges):
        raise ValueError(f"vgae_scores needs edges to fit, got a graph of {train.nodes} nodes without any.")
    both_ways = torch.cat([train.edges, train.edges.flip(1)]).T
    with _seeded(seed):
        model = _model(both_ways, train.nodes, hidden, d)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(epochs):
            optimizer.zero_grad()
            loss = model.recon_loss(model.encode(), both_ways) + model.kl_loss() / train.nodes
            loss.backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        z = model.encode()  # the posterior mean, now that training is over
        return torch.cat([model.decode(z, block.T, sigmoid=False) for block in pairs.split(_BLOCK)])


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's generator, and Python's, from which the library draws non-edges; both are then put back."""
    with global_seed(seed):
        before = random.getstate()
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(before)


def _model(edges: Tensor, nodes: int, hidden: int, d: int) -> Any:
    GCNConv = required("torch_geometric.nn").GCNConv
    gcn_norm = required("torch_geometric.nn.conv.gcn_conv").gcn_norm

    class Encoder(nn.Module):
        """Two convolutions of one unit vector a node, which are not formed: their product with weights is a lookup."""

        def __init__(self) -> None:
            super().__init__()
            self.first = GCNConv(1, hidden, normalize=False)
            self.first.lin = nn.Embedding(nodes, hidden)
            self.mean = GCNConv(hidden, d, normalize=False)
            self.log_scale = GCNConv(hidden, d, normalize=False)
            self.graph = gcn_norm(edges, num_nodes=nodes)

        def forward(self) -> tuple[Tensor, Tensor]:
            h = self.first(torch.arange(nodes), *self.graph).relu()
            return self.mean(h, *self.graph), self.log_scale(h, *self.graph)

    model = required("torch_geometric.nn").VGAE(Encoder())
    required("torch_geometric.nn.inits").glorot(
        model.encoder.first.lin.weight
    )  # as in a linear layer; an embedding starts far larger
    return model
