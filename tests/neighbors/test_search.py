"""Neighbors against all distances in float64: exact without partitions, at the recall that was asked for with them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import horoball as hb
from horoball.neighbors import Index
from horoball.neighbors.lift import Lift
from horoball.neighbors.partitions import Probe, train
from horoball.neighbors.search import Engine, Search
from tests.neighbors.clouds import clusters, deep_tree, prior, recall, shell, true_neighbors


@pytest.mark.parametrize("c", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("radius", [0.01, 1.0, 6.0, 12.0, 20.0])
@pytest.mark.parametrize("kind", ["shell", "clusters"])
def test_neighbors_are_exact_at_any_radius(c: float, d: int, radius: float, kind: str) -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(c)
    points = (shell if kind == "shell" else clusters)(3040, d, ball, radius)
    z, q = points[40:], torch.cat((points[:40], points[40:50]))  # ten of the queries are in the index
    distances, ids = Index(ball).add(z).search(q, 10)
    true, expected = true_neighbors(ball, z, q, 10)
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
    true = true_neighbors(ball, z, z[:100], 10)[1]
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


SIZE = 12_000  # an index is made of partitions from here on in these tests, and not only from 50,000 points


def partitioned(z: torch.Tensor, ball: hb.PoincareBall, **options: float) -> Index:
    index = Index(ball, exact_up_to=SIZE - 1, **options).add(z)  # type: ignore[arg-type]
    assert index._ready().partitions is not None
    return index


@pytest.fixture(scope="module")
def filled() -> Index:
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    return partitioned(prior(SIZE, 10, ball).float(), ball)


def test_partitions_find_their_share_of_a_ball_that_is_filled(filled: Index) -> None:
    torch.manual_seed(1)
    q = prior(200, 10, filled.ball)
    distances, ids = filled.search(q, 10)
    true, expected = true_neighbors(filled.ball, filled.points, q, 10)
    assert recall(ids, expected) > 0.985  # 2000 neighbors of new queries
    torch.testing.assert_close(distances[ids == expected], true[ids == expected])
    assert filled._probes is not None
    assert filled._probes.share < 0.25


def half_way(z: torch.Tensor, ball: hb.PoincareBall, apart: torch.Tensor, part: float) -> torch.Tensor:
    """Near-duplicates: points that are moved a part of the distance to their nearest neighbor, somewhere."""
    v = torch.nn.functional.normalize(torch.randn(z.shape, dtype=torch.float64), dim=-1)
    return ball.exp(z.double(), part * apart.unsqueeze(-1) * v)


CLOUDS = {
    "normal in the tangent chart, d = 20": lambda ball: torch.randn(SIZE + 300, 20),
    "normal in the tangent chart, d = 10": lambda ball: torch.randn(SIZE + 300, 10),
    "filled ball, d = 5": lambda ball: prior(SIZE + 300, 5, ball).float(),
    "clusters, d = 10": lambda ball: clusters(SIZE + 300, 10, ball, 4.0).float(),
    "shell, d = 2": lambda ball: shell(SIZE + 300, 2, ball, 6.0),
}


@pytest.mark.parametrize("name", CLOUDS)
def test_members_near_duplicates_and_fresh_queries_find_their_neighbors(name: str) -> None:
    """The first cloud found 0.3 of its own points where the numbers of partitions were measured on others alone."""
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    both = CLOUDS[name](ball)
    fresh, z = both[:300], both[300:]
    index, everything = partitioned(z, ball), Index(ball, recall=1.0).add(z)
    distances, ids = index.search(z, 1)  # every point finds itself
    assert (distances == 0).all()
    assert torch.equal(ids[:, 0], torch.arange(SIZE))
    apart = everything.search(z[:300], 2)[0][:, 1]
    for part in (0.0, 1e-3, 0.1, 0.5):
        q = half_way(z[:300], ball, apart, part)
        assert (index.search(q, 1)[1][:, 0] == torch.arange(300)).double().mean() >= 0.99
        assert recall(index.search(q, 10)[1], everything.search(q, 10)[1]) >= 0.985
    for k in (1, 10, 100):
        assert recall(index.search(fresh, k)[1], everything.search(fresh, k)[1]) >= 0.985


def test_points_find_themselves_one_by_one_as_in_a_block() -> None:
    """FAISS rounds otherwise for few queries than for many, and far out that decides which center is nearest."""
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    for z in (clusters(SIZE, 3, ball, 15.0), clusters(SIZE, 10, ball, 6.0)):
        index = partitioned(z, ball)
        alone = torch.cat([index.search(z[i : i + 1], 1)[1] for i in range(200)])
        assert (alone[:, 0] == torch.arange(200)).double().mean() >= 0.99


def test_partitions_keep_their_promise_in_a_deep_tree_of_many_dimensions() -> None:
    """0.93 of the points found themselves while rounding in float32 decided which partition they belong to."""
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    both = deep_tree(SIZE + 200, 20, ball).float()  # many of them are at one place: distances are compared, not ids
    fresh, z = both[:200], both[200:]
    index, everything = partitioned(z, ball), Index(ball, recall=1.0).add(z)
    assert (index.search(z[:300], 1)[0] == 0).all()
    found, last = index.search(fresh, 10)[0], everything.search(fresh, 10)[0][:, -1:]
    assert (found <= last).double().mean() >= 0.985
    assert index._probes is not None
    assert index._probes.share < 0.05


def test_points_that_were_added_late_find_themselves_whatever_their_distribution() -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    index = partitioned(torch.randn(SIZE, 20), ball)
    late = 0.5 * torch.randn(SIZE // 4, 20) + 1.0
    index.add(late)
    assert torch.equal(index.search(late, 1)[1][:, 0], torch.arange(SIZE, len(index)))


def test_a_higher_recall_is_confirmed_by_more_queries() -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    both = torch.randn(SIZE + 500, 5)
    q, z = both[:500], both[500:]
    index = partitioned(z, ball, recall=0.998)
    assert recall(index.search(q, 10)[1], Index(ball, recall=1.0).add(z).search(q, 10)[1]) >= 0.996


def test_a_recall_that_no_sample_confirms_looks_at_everything() -> None:
    torch.manual_seed(0)
    index = Index(hb.PoincareBall(1.0), exact_up_to=1000, recall=0.99999).add(torch.randn(2000, 3))
    assert index._ready().partitions is None


def test_points_at_one_place_are_partitioned_too() -> None:
    index = Index(hb.PoincareBall(1.0), exact_up_to=1000).add(torch.ones(1500, 2))
    distances, ids = index.search(torch.ones(3, 2), 10)
    assert (distances == 0).all()
    assert ids.shape == (3, 10)


def test_partitions_find_their_share_of_clusters_that_float32_cannot_resolve() -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    points = clusters(SIZE + 200, 3, ball, 15.0)
    z, q = points[200:], points[:200]
    assert recall(partitioned(z, ball).search(q, 10)[1], true_neighbors(ball, z, q, 10)[1]) > 0.98


def test_partitions_serve_the_plane() -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(0.0)
    z = 1e-6 * torch.randn(SIZE, 3) + torch.tensor([1e-5, 0.0, 0.0])
    ids = partitioned(z, ball).search(z[:100], 10)[1]
    assert recall(ids, true_neighbors(ball, z, z[:100], 10)[1]) > 0.985


def test_more_neighbors_than_the_partitions_hold_are_found_in_further_ones(filled: Index) -> None:
    distances, ids = filled.search(filled.points[:2], SIZE // 2)
    assert len(set(ids[0].tolist())) == SIZE // 2
    assert (distances.diff(dim=-1) >= 0).all()
    assert recall(ids, true_neighbors(filled.ball, filled.points, filled.points[:2], SIZE // 2)[1]) > 0.9


@pytest.mark.parametrize("own", [1, 3, 200])
@pytest.mark.parametrize("best", [1, 7, 200])
@pytest.mark.parametrize("curved", [False, True])
def test_no_partition_is_looked_through_twice(own: int, best: int, curved: bool) -> None:
    z = torch.randn(500, 3, generator=torch.Generator().manual_seed(0))
    lift = Lift.of(z, 1.0)
    partitions = replace(train(z, lift, 40, width=1.0, seed=0), curved=curved)
    for lists in partitions.probed(z, Probe(own, best)):
        kept = lists[lists >= 0]
        assert len(set(kept.tolist())) == len(kept) <= 40
    firsts = partitions.probed(z, Probe(own, best))
    assert (firsts == partitions.assign(z)[:, None]).any(1).all()


def test_a_recall_of_one_looks_at_everything() -> None:
    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    z = prior(52_000, 10, ball).float()
    ids = Index(ball, recall=1.0).add(z).search(z[:20], 10)[1]
    assert torch.equal(ids, true_neighbors(ball, z, z[:20], 10)[1])


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
