"""Sums over pairs, and their gradients, against autograd over the ball's own distances."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from horoball.datasets import preferential_attachment
from horoball.geometry import PoincareBall
from horoball.graphs import Graph
from horoball.graphs import pairs as pair_blocks
from horoball.graphs import pairs as pair_tiles
from horoball.graphs.model import EDGES
from horoball.graphs.pair_sums import log_prob_of_blocks, log_prob_of_non_edges, log_prob_of_pairs, log_prob_of_tiles
from horoball.graphs.pairs import blocks_of_pairs, blocks_of_tiles, draw_tiles

NODES = 200  # a whole block of rows and a part of one
RADII = {"small": 0.05, "moderate": 2.0, "large": 13.0, "far": 25.0, "farther": 50.0, "beyond": 350.0}  # of √c z
LARGEST_ERROR = {torch.float32: 2e-6, torch.float64: 1e-7}
NOTHING = 1e-30  # less than float32 holds with all its digits


class Found(NamedTuple):
    value: float
    of_z: Tensor
    of_learned: list[Tensor]
    of_c: Tensor


def points(c: float, radius: float, n: int = NODES) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    direction = torch.nn.functional.normalize(torch.randn(n, 3, generator=generator, dtype=torch.float64), dim=-1)
    spread = torch.rand(n, 1, generator=generator, dtype=torch.float64) ** 0.3
    return radius / math.sqrt(c or 1.0) * spread * direction


def all_pairs(n: int) -> Tensor:
    return torch.triu_indices(n, n, 1).T


def found(total: Any, law: str, z: Tensor, c: float) -> Found:
    """A sum and its gradients, in the type of the points; total(edges, z, ball)."""
    z = z.clone().requires_grad_()
    edges, ball = EDGES[law]().to(z.dtype), PoincareBall(c, learnable=c > 0).to(z.dtype)
    learned, raw = list(edges.parameters()), [ball.raw_c] if c else []
    value = total(edges, z, ball)
    of_z, *rest = (part.double() for part in torch.autograd.grad(value, [z, *learned, *raw]))
    return Found(value.item(), of_z, rest[: len(learned)], rest[-1] if c else torch.zeros(()))


def plain(pairs: Tensor, *, joined: bool) -> Any:
    def total(edges: Any, z: Tensor, ball: PoincareBall) -> Tensor:
        d = ball.dist(z[pairs[:, 0]], z[pairs[:, 1]])
        return (edges.log_edge(d) if joined else edges.log_no_edge(d)).sum()

    return total


def blocked(pairs: Tensor, *, joined: bool) -> Any:
    return lambda edges, z, ball: log_prob_of_pairs(edges, z, ball, pairs, joined=joined)


def matrix(graph: Graph, rank: int = 0, ranks: int = 1) -> Any:
    adjacency = graph.adjacency()
    return lambda edges, z, ball: log_prob_of_non_edges(edges, z, ball, adjacency, rank, ranks)


def assert_alike(ours: Found, plain: Found, z: Tensor, tolerance: float) -> None:
    assert ours.value == pytest.approx(plain.value, rel=tolerance, abs=NOTHING)
    assert (ours.of_z - plain.of_z).norm() <= tolerance * plain.of_z.norm() + NOTHING
    for ours_of, plain_of in zip(ours.of_learned, plain.of_learned, strict=True):
        torch.testing.assert_close(ours_of, plain_of, rtol=tolerance, atol=NOTHING)
    # The rate in c is what √c z gains over 1/√c, and near the origin the two are almost the same.
    scale = abs((z.double() * plain.of_z).sum())
    assert abs(ours.of_c - plain.of_c) <= tolerance * (scale + abs(plain.of_c)) + NOTHING


@pytest.mark.parametrize("dtype", LARGEST_ERROR)
@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("law", EDGES)
@pytest.mark.parametrize("c", [0.0, 0.3, 1.0])
def test_values_and_gradients_are_those_of_a_plain_sum(c: float, law: str, radius: str, dtype: torch.dtype) -> None:
    graph = preferential_attachment(NODES, 3, seed=0)
    z = points(c, RADII[radius]).to(dtype)
    pairs = all_pairs(NODES)
    non_edges = pairs[~graph.holds(pairs)]
    both_ways = torch.cat((non_edges, non_edges.flip(1)))
    for ours, theirs in (
        (blocked(graph.edges, joined=True), plain(graph.edges, joined=True)),
        (blocked(non_edges, joined=False), plain(non_edges, joined=False)),
        (matrix(graph), plain(both_ways, joined=False)),
    ):
        expected = found(theirs, law, z.double(), c)
        assert_alike(found(ours, law, z, c), expected, z, LARGEST_ERROR[dtype])


@pytest.mark.parametrize("radius", ["moderate", "large", "beyond"])
@pytest.mark.parametrize("c", [0.0, 1.0])
def test_edges_and_other_pairs_in_one_sum_count_by_their_weights(c: float, radius: str) -> None:
    graph, z = preferential_attachment(NODES, 3, seed=0), points(c, RADII[radius])
    tiles = draw_tiles(graph, 1000, np.random.default_rng(0))

    def together(edges: Any, z: Tensor, ball: PoincareBall) -> Tensor:
        joined = blocks_of_pairs(graph.edges, joined=True, weight=2.0)
        return log_prob_of_blocks(edges, z, ball, chain(joined, blocks_of_tiles(tiles, weight=0.5)))

    def apart(edges: Any, z: Tensor, ball: PoincareBall) -> Tensor:
        joined = log_prob_of_pairs(edges, z, ball, graph.edges, joined=True)
        return 2 * joined + log_prob_of_tiles(edges, z, ball, tiles) / 2

    ours, theirs = (found(total, "fermi_dirac", z, c) for total in (together, apart))
    assert_alike(ours, theirs, z, LARGEST_ERROR[z.dtype])


@pytest.mark.parametrize("drawn", [50, 1000, 10_000])
@pytest.mark.parametrize("radius", ["moderate", "large", "beyond"])
@pytest.mark.parametrize("c", [0.0, 1.0])
def test_tiles_are_the_pairs_that_they_list(monkeypatch: pytest.MonkeyPatch, c: float, radius: str, drawn: int) -> None:
    monkeypatch.setattr(pair_tiles, "_SIDE", 16)
    graph, z = preferential_attachment(NODES, 3, seed=0), points(c, RADII[radius])
    tiles = draw_tiles(graph, drawn, np.random.default_rng(0))
    assert (len(tiles.rows.unique()) < tiles.rows.numel()) == (drawn == 10_000)  # nodes in the rows of several tiles
    expected = found(plain(tiles.pairs(), joined=False), "fermi_dirac", z, c)
    ours = found(lambda edges, z, ball: log_prob_of_tiles(edges, z, ball, tiles), "fermi_dirac", z, c)
    assert_alike(ours, expected, z, 1e-7)


EMPTY = Graph.of(torch.empty(0, 2, dtype=torch.int64), nodes=3)


@pytest.mark.parametrize("law", EDGES)
@pytest.mark.parametrize("radius", [5.0, 10.0, 15.0, 20.0])
@pytest.mark.parametrize("apart", [1e-9, 1e-5, 1e-2])
def test_two_points_far_out_and_almost_the_same(apart: float, radius: float, law: str) -> None:
    angle = torch.tensor(0.7, dtype=torch.float64)
    ends = [(radius, angle), (radius + apart / 2, angle + apart * math.exp(-radius)), (3.0, angle + 2)]
    z = torch.stack([r * torch.stack((a.cos(), a.sin())) for r, a in ends])
    pairs = all_pairs(3)
    # The points are 16 digits of numbers that differ in the last few of them; one radian is sinh(radius) long.
    tolerance = 1e-7 + 8 * torch.finfo(torch.float64).eps * math.sinh(radius) / apart
    if tolerance < 0.1:
        expected = found(plain(pairs, joined=False), law, z, 1.0)
        assert_alike(found(blocked(pairs, joined=False), law, z, 1.0), expected, z, tolerance)
        expected = found(plain(torch.cat((pairs, pairs.flip(1))), joined=False), law, z, 1.0)
        assert_alike(found(matrix(EMPTY), law, z, 1.0), expected, z, tolerance)


@pytest.mark.parametrize("dtype", LARGEST_ERROR)
@pytest.mark.parametrize("radius", [0.0, 1.0, 25.0, 50.0, 350.0])
@pytest.mark.parametrize("law", EDGES)
@pytest.mark.parametrize("c", [0.0, 1.0])
def test_points_in_one_place_do_no_harm(c: float, law: str, radius: float, dtype: torch.dtype) -> None:
    z = torch.tensor([[radius, 0.0], [radius, 0.0], [0.0, 1.0]], dtype=dtype)
    pairs = all_pairs(3)
    apart = pairs[1:]  # the first pair has no direction in which to part, and is to give no gradient in z
    for joined in (True, False):
        result = found(blocked(pairs, joined=joined), law, z, c)
        assert math.isfinite(result.value)
        assert all(bool(part.isfinite().all()) for part in (*result.of_learned, result.of_c))
        expected = found(plain(apart, joined=joined), law, z, c)
        torch.testing.assert_close(result.of_z, expected.of_z, rtol=1e-5, atol=1e-7)
    result = found(matrix(EMPTY), law, z, c)
    assert math.isfinite(result.value)
    assert all(bool(part.isfinite().all()) for part in (*result.of_learned, result.of_c))
    torch.testing.assert_close(result.of_z, 2 * expected.of_z, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("c", [0.0, 1.0])
@pytest.mark.parametrize("n", [2, pair_blocks._ROWS, pair_blocks._ROWS + 1])
def test_every_pair_counts_twice_whatever_the_number_of_points(n: int, c: float) -> None:
    z, pairs = points(c, 2.0, n), all_pairs(n)
    graph = Graph.of(pairs[:-1], n)
    expected = found(plain(torch.cat((pairs[-1:], pairs[-1:].flip(1))), joined=False), "tanh", z, c)
    assert_alike(found(matrix(graph), "tanh", z, c), expected, z, 1e-7)


@pytest.mark.parametrize("c", [0.0, 1.0])
def test_the_shares_of_ranks_add_up(c: float) -> None:
    graph, z = preferential_attachment(NODES, 3, seed=0), points(c, 2.0)
    whole = found(matrix(graph), "fermi_dirac", z, c)
    for ranks in (2, 3, 5):  # the last of them have no rows
        shares = [found(matrix(graph, rank, ranks), "fermi_dirac", z, c) for rank in range(ranks)]
        assert sum(share.value for share in shares) == pytest.approx(whole.value, rel=1e-12)
        torch.testing.assert_close(sum(share.of_z for share in shares), whole.of_z)
        for i, of_learned in enumerate(whole.of_learned):
            torch.testing.assert_close(sum(share.of_learned[i] for share in shares), of_learned)


@pytest.mark.parametrize("radius", ["moderate", "beyond"])
def test_no_pairs_give_nothing(radius: str) -> None:
    z = points(1.0, RADII[radius], 3).requires_grad_()
    for joined in (True, False):
        total = log_prob_of_pairs(EDGES["tanh"](), z, PoincareBall(1.0), all_pairs(1), joined=joined)
        assert total.item() == 0
        if total.requires_grad:
            assert not torch.autograd.grad(total, z)[0].any()


def test_more_pairs_than_a_block_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    z, pairs = points(1.0, 2.0, 20), all_pairs(20)
    whole = found(blocked(pairs, joined=True), "fermi_dirac", z, 1.0)
    monkeypatch.setattr(pair_blocks, "_LISTED", 7)
    assert_alike(found(blocked(pairs, joined=True), "fermi_dirac", z, 1.0), whole, z, 1e-12)


MEMORY = """
import resource, torch
from horoball.datasets import random_tree
from horoball.geometry import PoincareBall
from horoball.graphs.model import TanhEdges
from horoball.graphs.pair_sums import log_prob_of_non_edges, log_prob_of_pairs

torch.set_num_threads(1)
ball, edges = PoincareBall(1.0), TanhEdges()
tree = random_tree(5000).adjacency()
pairs = torch.randint(0, 20_000, (4_000_000, 2))
z = torch.randn(20_000, 5, requires_grad=True)
log_prob_of_pairs(edges, z, ball, pairs[:200_000], joined=False).backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
log_prob_of_pairs(edges, z, ball, pairs, joined=False).backward()
listed = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
log_prob_of_non_edges(edges, z[:5000], ball, tree).backward()
print((listed - before) // 1024, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - listed) // 1024)
"""


def test_memory_does_not_grow_with_the_pairs() -> None:
    # One number for each of the pairs would take 32 MB of the list in float64, and 200 MB of the matrix.
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, timeout=120)
    listed, square = map(int, done.stdout.split())
    assert listed < 30
    assert square < 100


@pytest.mark.parametrize("c", [torch.tensor(0.0), 1e-30, 1e-33, 1e-13])
def test_as_little_curvature_as_none_is_none(c: Any) -> None:
    z = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    pairs = torch.tensor([[0, 1], [1, 2]])
    curved, flat = (
        log_prob_of_pairs(EDGES["tanh"](), z, PoincareBall(given), pairs, joined=True) for given in (c, 0.0)
    )
    torch.testing.assert_close(curved, flat)
    torch.testing.assert_close(*(torch.autograd.grad(value, z)[0] for value in (curved, flat)))


def test_a_law_that_is_frozen_is_not_differentiated() -> None:
    edges, z = EDGES["fermi_dirac"](), torch.randn(3, 2, requires_grad=True)
    pairs = torch.tensor([[0, 1], [1, 2]])
    ball = PoincareBall(1.0)
    (expected,) = torch.autograd.grad(log_prob_of_pairs(edges, z, ball, pairs, joined=True), z)
    for parameter in edges.parameters():
        parameter.requires_grad_(False)
        (found,) = torch.autograd.grad(log_prob_of_pairs(edges, z, ball, pairs, joined=True), z)
        assert torch.equal(found, expected)


def test_no_points_have_no_pairs() -> None:
    none = torch.empty(0, 2, dtype=torch.int64)
    assert log_prob_of_pairs(EDGES["tanh"](), torch.empty(0, 2), PoincareBall(1.0), none, joined=True) == 0


def test_a_second_derivative_is_refused() -> None:
    z = points(1.0, 1.0, 10).requires_grad_()
    ball = PoincareBall(1.0, learnable=True).double()
    total = log_prob_of_pairs(EDGES["tanh"]().double(), z, ball, all_pairs(10), joined=True)
    (of_z,) = torch.autograd.grad(total, z, create_graph=True)
    with pytest.raises(RuntimeError, match="Second derivatives of this operation are not implemented"):
        of_z.square().sum().backward()


@pytest.mark.parametrize("c", [0.0, 1.3])
@pytest.mark.parametrize("radius", ["moderate", "beyond"])
def test_directed_sums_are_those_of_distances_with_offsets(c: float, radius: str) -> None:
    z, graph = points(c, RADII[radius], 150), Graph.of(preferential_attachment(150, 2, seed=0).edges, directed=True)
    n = graph.nodes
    apart = ~torch.eye(n, dtype=torch.bool)
    apart[tuple(graph.edges.T)] = False
    pairs = apart.nonzero()

    def lifted(z: Tensor) -> Tensor:
        return 0.8 * torch.linalg.vector_norm(z, dim=-1)

    def expected(edges: Any, z: Tensor, ball: PoincareBall) -> Tensor:
        i, j = pairs.T
        return edges.log_no_edge(ball.dist(z[i], z[j]) + lifted(z)[j] - lifted(z)[i]).sum()

    def summed(edges: Any, z: Tensor, ball: PoincareBall) -> Tensor:
        return log_prob_of_non_edges(edges, z, ball, graph.relation(), offset=lifted(z))

    def listed(edges: Any, z: Tensor, ball: PoincareBall) -> Tensor:
        return log_prob_of_pairs(edges, z, ball, pairs, joined=False, offset=lifted(z))

    wanted = found(expected, "fermi_dirac", z, c)
    for total in (summed, listed):
        assert_alike(found(total, "fermi_dirac", z, c), wanted, z, 1e-7)


def test_directed_tiles_leave_out_edges_one_way() -> None:
    graph = Graph.of(preferential_attachment(60, 4, seed=0).edges, directed=True)
    tiles = draw_tiles(graph, 900, np.random.default_rng(0))
    pairs = tiles.pairs()
    assert not graph.holds(pairs).any()
    assert graph.holds(pairs.flip(1)).any()  # from parent to child is no edge
    z = points(1.0, 2.0, 60)
    offset = torch.linalg.vector_norm(z, dim=-1)
    edges, ball = EDGES["fermi_dirac"](), PoincareBall(1.0)
    both = [
        log_prob_of_tiles(edges, z, ball, tiles, offset=offset),
        log_prob_of_pairs(edges, z, ball, pairs, joined=False, offset=offset),
    ]
    torch.testing.assert_close(*both)
