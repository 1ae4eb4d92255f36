"""Neighbours against all distances in float64: exact without cells, at the recall that was asked for with them."""

from __future__ import annotations

import math

import pytest
import torch

import horoball as hb
from horoball.neighbors import Index
from horoball.neighbors.engine import Engine
from horoball.neighbors.lift import Lift
from horoball.neighbors.search import Search
from tests.neighbors.clouds import clusters, prior, recall, shell, true_neighbours


@pytest.mark.parametrize("c", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("radius", [0.01, 1.0, 6.0, 12.0, 20.0])
@pytest.mark.parametrize("kind", ["shell", "clusters"])
def test_neighbours_are_exact_at_any_radius(c: float, d: int, radius: float, kind: str) -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(c)
    points = (shell if kind == "shell" else clusters)(3040, d, ball, radius)
    z, q = points[40:], torch.cat((points[:40], points[40:50]))  # ten of the queries are in the index
    distances, ids = Index(ball).add(z).search(q, 10)
    true, expected = true_neighbours(ball, z, q, 10)
    assert distances.dtype == torch.float64
    assert ids.dtype == torch.int64
    assert torch.equal(ids, expected)
    torch.testing.assert_close(distances, true, rtol=1e-12, atol=1e-12 * max(1.0, radius) / math.sqrt(c or 1.0))
    assert (distances[40:, 0] == 0).all()


def test_float32_alone_would_be_wrong_there() -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    z = clusters(3000, 10, ball, 12.0)
    engine = Engine(Lift.of(z, 1.0), 10)
    engine.add(z)
    bare = torch.from_numpy(engine.search(engine.lift.queries(z[:100]).rows, 10)[1])
    found = Search(engine, ball, z).nearest(z[:100], 10)
    true = true_neighbours(ball, z, z[:100], 10)[1]
    assert recall(bare, true) < 0.7
    assert torch.equal(found.ids, true)
    assert found.unsettled > 50


def test_float32_settles_nearly_all_near_the_origin() -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    z = hb.WrappedNormal(torch.zeros(10), torch.ones(1), ball).sample((5000,))
    engine = Engine(Lift.of(z, 1.0), 10)
    engine.add(z)
    assert Search(engine, ball, z).nearest(z[:500], 10).unsettled < 5


@pytest.fixture(scope="module")
def filled() -> Index:
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    return Index(ball).add(prior(60_000, 10, ball).float())


def test_cells_find_their_share_of_a_ball_that_is_filled(filled: Index) -> None:
    torch.manual_seed(1)
    q = prior(200, 10, filled.ball)
    distances, ids = filled.search(q, 10)
    true, expected = true_neighbours(filled.ball, filled.points, q, 10)
    assert recall(ids, expected) > 0.985  # 2000 neighbours of new queries
    torch.testing.assert_close(distances[ids == expected], true[ids == expected])
    assert filled._engine is not None
    assert filled._probes is not None
    assert filled._probes.of(10) < filled._engine.faiss.nlist / 20


def test_cells_find_their_share_of_clusters_that_float32_cannot_resolve() -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    points = clusters(60_000, 3, ball, 15.0)
    index = Index(ball).add(points[200:])
    assert recall(index.search(points[:200], 10)[1], true_neighbours(ball, points[200:], points[:200], 10)[1]) > 0.98


def test_cells_serve_the_plane() -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(0.0)
    z = 1e-6 * torch.randn(52_000, 3) + torch.tensor([1e-5, 0.0, 0.0])
    ids = Index(ball).add(z).search(z[:100], 10)[1]
    assert recall(ids, true_neighbours(ball, z, z[:100], 10)[1]) > 0.985


def test_more_neighbours_than_the_cells_hold_are_found_in_further_cells(filled: Index) -> None:
    distances, ids = filled.search(filled.points[:2], 30_000)
    assert len(set(ids[0].tolist())) == 30_000
    assert (distances.diff(dim=-1) >= 0).all()
    assert recall(ids, true_neighbours(filled.ball, filled.points, filled.points[:2], 30_000)[1]) > 0.9


def test_a_recall_of_one_looks_at_everything() -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    z = prior(52_000, 10, ball).float()
    ids = Index(ball, recall=1.0).add(z).search(z[:20], 10)[1]
    assert torch.equal(ids, true_neighbours(ball, z, z[:20], 10)[1])


def test_the_bound_of_rounding_holds() -> None:
    torch.manual_seed(0)
    for c, d, radius in ((1.0, 10, 12.0), (1.0, 2, 4.0), (0.0, 5, 1.0), (0.3, 40, 8.0)):
        ball = hb.PoincareBall(c)
        z, q = shell(2000, d, ball, radius), shell(50, d, ball, radius)
        lift = Lift.of(z, c)
        queries = lift.queries(q)
        rounded = -torch.from_numpy(queries.rows @ lift.points(z).T).double()
        for i in range(len(q)):
            distance = ball.dist(q[i], z)
            one = queries._replace(**{name: getattr(queries, name)[i] for name in ("radius", "B", "cosh", "length")})
            error = (rounded[i] - lift.score(one, distance)).abs()
            assert (error <= lift.error(one, distance, d)).all()
            assert error.max() > 0  # it is float32


def test_points_at_the_same_place_come_in_their_order() -> None:
    z = torch.zeros(300, 3)
    z[200:] = 1.0
    distances, ids = Index(hb.PoincareBall(1.0)).add(z).search(z[:1], 250)
    assert ids[0].tolist() == list(range(250))
    assert (distances[0, :200] == 0).all()


def test_all_points_at_the_origin() -> None:
    for c in (0.0, 1.0):
        distances, _ = Index(hb.PoincareBall(c)).add(torch.zeros(20, 2)).search(torch.ones(1, 2), 5)
        torch.testing.assert_close(distances, torch.full((1, 5), math.sqrt(2)).double())
