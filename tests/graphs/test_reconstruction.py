"""Ranking and reconstruction against loops over the definition, and embeddings whose figures are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.metrics import average_precision_score
from torch import Tensor

from horoball.geometry import PoincareBall
from horoball.graphs import Ranking, ranking, reconstruction
from horoball.graphs.graph import Graph
from tests.late import late

nx = late("networkx")

RNG = np.random.default_rng(0)


def by_definition(relation: np.ndarray, d: np.ndarray) -> Ranking:
    """Loops; d are distances between all nodes."""
    n = len(d)
    precisions, ranks = [], []
    for u in range(n):
        related = [v for v in range(n) if relation[u, v] and v != u]
        unrelated = [v for v in range(n) if not relation[u, v] and v != u]
        for v in related:
            nearer = sum(d[u, w] < d[u, v] for w in unrelated)
            ranks.append(1 + nearer + sum(d[u, w] == d[u, v] for w in unrelated) / 2)
        if related:
            others = related + unrelated
            precisions.append(average_precision_score([v in related for v in others], [-d[u, v] for v in others]))
    return Ranking(float(np.mean(precisions)), float(np.mean(ranks)), len(precisions))


@pytest.mark.parametrize("c", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("density", [0.02, 0.3, 0.95])
def test_ranking_equals_its_definition_for_directed_relations(c: float, density: float) -> None:
    relation = RNG.random((40, 40)) < density
    z = 2 * torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ball = PoincareBall(c)
    d = ball.cdist(z, z).numpy()
    assert ranking(csr_array(relation), z, ball) == pytest.approx(by_definition(relation, d), rel=1e-12)


def test_ties_are_counted_as_the_definition_says() -> None:
    relation = RNG.random((30, 30)) < 0.3
    z = torch.from_numpy(RNG.integers(0, 3, (30, 1))).double()
    d = (z - z.T).abs().numpy()
    assert ranking(csr_array(relation), z) == pytest.approx(by_definition(relation, d), rel=1e-12)


@pytest.mark.parametrize("elements", [1, 100, 10**6])
def test_blocks_change_nothing(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    relation, z = csr_array(RNG.random((50, 50)) < 0.1), torch.randn(50, 2)
    whole = ranking(relation, z, PoincareBall())
    monkeypatch.setitem(ranking.__globals__, "_ELEMENTS", elements)
    assert ranking(relation, z, PoincareBall()) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("radius", [0.0, 3.0, 100.0])
@pytest.mark.parametrize("c", [0.0, 1.0])
def test_a_collapsed_embedding_scores_like_chance(c: float, radius: float) -> None:
    n, k = 60, 4
    ring = nx.circulant_graph(n, [1, 2])
    z = radius * torch.tensor([[0.6, 0.8]]).expand(n, 2)
    found = ranking(nx.to_scipy_sparse_array(ring), z, PoincareBall(c))
    assert found.map == pytest.approx(k / (n - 1))
    assert found.mean_rank == pytest.approx(1 + (n - 1 - k) / 2)


@pytest.mark.parametrize("c", [0.0, 0.01, 1.0])
def test_a_collapsed_embedding_has_no_distortion_to_speak_of(c: float) -> None:
    z = torch.tensor([[0.6, 0.8]]).expand(6, 2)
    found = reconstruction(Graph.of(np.array(nx.path_graph(6).edges)), z, PoincareBall(c)).distortion
    assert found.worst == math.inf
    assert math.isnan(found.mean)
    z = torch.tensor([[0.6, 0.8], [0.6, 0.8], [0.0, 1.0]])  # two of three points in one place
    assert reconstruction(Graph.of([(0, 1), (1, 2)]), z, PoincareBall(c)).distortion.worst == math.inf


def star(leaves: int, radius: float) -> tuple[Graph, Tensor]:
    angle = 2 * math.pi * torch.arange(leaves, dtype=torch.float64) / leaves
    z = torch.cat([torch.zeros(1, 2, dtype=torch.float64), radius * torch.stack([angle.cos(), angle.sin()], 1)])
    return Graph.of([(0, i) for i in range(1, leaves + 1)]), z


def test_a_star_is_held_by_the_ball_and_not_by_the_plane() -> None:
    graph, z = star(40, radius=10.0)
    curved, flat = (reconstruction(graph, z, PoincareBall(c)) for c in (1.0, 0.0))
    assert (curved.map, curved.mean_rank) == (1.0, 1.0)
    assert flat.map < 0.5
    assert flat.mean_rank > 5
    assert curved.distortion.worst < flat.distortion.worst / 4
    assert curved.nodes == graph.nodes


@pytest.mark.parametrize("radius", [15.0, 25.0])
def test_points_far_out_are_ranked_as_by_their_distances(radius: float) -> None:
    """On both sides of the radius up to which ball coordinates are used."""
    graph, z = star(40, radius)
    tree = z + 0.5 * torch.randn(z.shape, dtype=z.dtype, generator=torch.Generator().manual_seed(0))
    ball = PoincareBall(1.0)
    relation = RNG.random((41, 41)) < 0.2
    d = ball.dist(tree.unsqueeze(1), tree).numpy()
    assert ranking(csr_array(relation), tree, ball) == pytest.approx(by_definition(relation, d), rel=1e-12)
    assert ranking(graph.adjacency(), z, ball).map == 1.0


def test_a_tree_embedded_edge_by_edge_has_perfect_ranks_and_little_distortion() -> None:
    """Sarkar's way: children at equal angles around their parent, far enough out."""
    tree = nx.balanced_tree(3, 4)
    ball, length = PoincareBall(1.0), 5.0
    z = torch.zeros(len(tree), 2, dtype=torch.float64)
    for parent, children in nx.bfs_successors(tree, 0):
        start = 0.0
        if parent:
            back = ball.log(z[parent], z[next(v for v in tree[parent] if v < parent)])
            start = math.atan2(back[1].item(), back[0].item())
        around = len(children) + (parent > 0)
        for place, child in enumerate(children, start=int(parent > 0)):
            angle = start + 2 * math.pi * place / around
            step = length * torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
            z[child] = ball.exp(z[parent], step)
    found = reconstruction(Graph.of(np.array(tree.edges)), z, ball)
    assert (found.map, found.mean_rank) == (1.0, 1.0)
    assert found.distortion.mean < 0.05
    assert found.distortion.scale == pytest.approx(1 / length, rel=0.1)


def test_pairs_that_no_path_joins_are_left_out_of_the_distortion() -> None:
    graph = Graph.of([(0, 1), (1, 2), (3, 4), (4, 5)], nodes=7)  # two paths and a node alone
    z = torch.tensor([[0.0], [1.0], [2.0], [50.0], [51.0], [52.0], [99.0]])
    found = reconstruction(graph, z, PoincareBall(0.0))
    assert (found.map, found.mean_rank, found.nodes) == (1.0, 1.0, 6)
    assert found.distortion.worst == pytest.approx(1.0)
    assert found.distortion.mean == pytest.approx(0.0, abs=1e-12)


def test_a_sample_of_the_nodes_estimates_the_whole() -> None:
    graph = Graph.of(np.array(nx.barabasi_albert_graph(2500, 3, seed=0).edges))
    z = torch.randn(2500, 4, generator=torch.Generator().manual_seed(0))
    z /= graph.degrees()[:, None].sqrt()  # hubs in the middle
    ball = PoincareBall(1.0)
    whole, some = reconstruction(graph, z, ball), reconstruction(graph, z, ball, sources=300, seed=1)
    assert some == reconstruction(graph, z, ball, sources=300, seed=1)
    assert (whole.nodes, some.nodes) == (2500, 300)
    assert some.map == pytest.approx(whole.map, rel=0.2)
    assert some.mean_rank == pytest.approx(whole.mean_rank, rel=0.1)
    assert some.distortion.mean == pytest.approx(whole.distortion.mean, rel=0.05)


def test_a_complete_graph_has_no_order_of_distances() -> None:
    found = reconstruction(Graph.of(np.array(nx.complete_graph(5).edges)), torch.randn(5, 2), PoincareBall())
    assert (found.map, found.mean_rank) == (1.0, 1.0)
    assert math.isnan(found.distortion.rank_correlation)


def test_self_pairs_stored_zeros_and_repeated_pairs_are_no_relations() -> None:
    z = torch.randn(6, 2)
    plain = csr_array((np.ones(2), ([0, 1], [1, 5])), shape=(6, 6))
    messy = csr_array((np.array([1, 0, 2, 1, 1.0]), ([0, 0, 1, 1, 3], [1, 2, 5, 5, 3])), shape=(6, 6))
    assert ranking(messy, z) == ranking(plain, z)


def test_gradients_and_a_learnable_curvature_are_no_hindrance() -> None:
    z = torch.randn(10, 2, requires_grad=True)
    ring = nx.to_scipy_sparse_array(nx.cycle_graph(10))
    for scale in (1.0, 30.0):
        learned = ranking(ring, scale * z, PoincareBall(0.5, learnable=True))
        assert learned == pytest.approx(ranking(ring, scale * z.detach(), PoincareBall(0.5)), rel=1e-6)


@pytest.mark.parametrize(
    ("relation", "z", "message"),
    [
        (np.zeros((3, 3)), torch.zeros(3, 2), "3 nodes and no pair"),
        (np.eye(1), torch.zeros(1, 2), "1 nodes and no pair"),
        (np.ones((3, 3)), torch.zeros(4, 2), r"shape \(3, d\), got \(4, 2\)"),
        (np.ones((3, 2)), torch.zeros(3, 2), r"square matrix .* got shape \(3, 2\)"),
        (np.ones((3, 3)), torch.full((3, 2), math.nan), "finite points"),
    ],
)
def test_what_cannot_be_ranked_is_refused(relation: np.ndarray, z: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ranking(csr_array(relation), z)
