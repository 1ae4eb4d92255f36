"""The neighbor term: its formula, its chords, the neighbors it is given, and what it does to a map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from horoball import PoincareBall, PoincareVAE
from horoball.tables import ArrayTable
from horoball.tables.geodesics import Neighborhood, neighbor_graph
from horoball.training import TrainConfig
from horoball.vae import NeighborTerm
from horoball.vae.distances import ChordPoints, chord_distance
from horoball.vae.train import train

CURVATURES = (0.0, 0.5, 2.0)


def points(n: int, seed: int) -> torch.Tensor:
    return 2 * torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("c", CURVATURES)
def test_chords_are_those_of_distances(c: float) -> None:
    ball, z, y = PoincareBall(c), points(6, 0), points(4, 1)
    mine, others = ChordPoints(ball, z), ChordPoints(ball, y)
    square = mine.between(others)
    torch.testing.assert_close(chord_distance(ball, square), ball.cdist(z, y), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(mine.take(torch.arange(4)).paired(others), square.diagonal(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("c", CURVATURES)
def test_chords_of_near_pairs_far_out_are_exact(c: float) -> None:
    ball, z = PoincareBall(c), torch.tensor([[6.0, 0.0], [0.0, 8.0]])
    y = z + torch.tensor([[1e-3, 1e-4], [1e-4, -1e-3]])
    found = chord_distance(ball, ChordPoints(ball, z).paired(ChordPoints(ball, y)))
    torch.testing.assert_close(found.double(), ball.dist(z.double(), y.double()), rtol=1e-2, atol=0)


@pytest.mark.parametrize("c", CURVATURES)
def test_chords_of_a_point_to_itself_have_finite_gradients(c: float) -> None:
    ball = PoincareBall(c)
    z = torch.tensor([[0.0, 0.0], [1.5, 0.2]], requires_grad=True)
    points = ChordPoints(ball, z)
    (chord_distance(ball, points.between(points)).sum() + points.paired(points).sum()).backward()
    assert z.grad is not None
    assert bool(z.grad.isfinite().all())


@pytest.mark.parametrize("c", CURVATURES)
def test_the_term_is_its_formula(c: float) -> None:
    ball, term = PoincareBall(c), NeighborTerm(7.0)
    with torch.no_grad():
        term.log_scale.fill_(0.3)
    near, far = np.array([0.5, 1.0]), np.array([[2.0, 3.0, 1.0], [0.1, 4.0, 2.0]])
    chord = (lambda d: d**2) if c == 0 else (lambda d: 4 * np.sinh(c**0.5 * d / 2) ** 2 / c)
    kernel = lambda d: 1 / (1 + chord(d) / np.exp(0.6))  # noqa: E731
    expected = -np.log(kernel(near) / (kernel(near) + 7 * kernel(far).mean(1)))
    z = torch.tensor([[0.5, 0.0], [1.0, 0.0]], dtype=torch.float64)
    near_chords = ChordPoints(ball, z).paired(ChordPoints(ball, torch.zeros_like(z)))
    got = term(near_chords, torch.from_numpy(chord(far)))
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-5)


def test_neighbors_are_drawn_the_nearest_most_often() -> None:
    x = torch.randn(80, 3, generator=torch.Generator().manual_seed(0)).numpy()
    graph = neighbor_graph(x, 5)
    near, rng = Neighborhood.of_graph(graph), np.random.default_rng(0)
    drawn = np.stack([near.drawn(rng) for _ in range(400)])
    assert (graph.toarray()[np.arange(80), drawn] > 0).all()
    length = np.linalg.norm(x - x[drawn], axis=-1)
    assert length.mean() < np.mean([row.data.mean() for row in graph])


def test_a_row_without_neighbors_is_its_own() -> None:
    near = Neighborhood.of_graph(csr_matrix([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    assert near.drawn(np.random.default_rng(0)).tolist() == [1, 0, 2]


@pytest.mark.whole_maps
def test_a_local_map_keeps_neighbors_together() -> None:
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(8), 25)
    x = 4 * rng.normal(size=(8, 10))[label] + 0.5 * rng.normal(size=(200, 10))
    options: dict[str, Any] = {"max_epochs": 40, "hidden": (32,), "random_state": 0}
    neighbor = [PoincareVAE(locality=part, **options).fit(x) for part in (0.0, 1.0)]
    ball, right = PoincareBall(1.0), []
    for model in neighbor:
        d = ball.cdist(*2 * [ball.from_ball(torch.from_numpy(model.transform(x)))])
        nearest = (d + torch.eye(200) * 1e9).argmin(1).numpy()
        right.append((label[nearest] == label).mean())
    assert right[1] >= right[0]
    assert right[1] > 0.9
    assert "place" in neighbor[1].history_[-1]
    assert "distance" in neighbor[0].history_[-1]


def test_without_a_distance_weight_it_is_the_papers_objective() -> None:
    table = ArrayTable(torch.randn(60, 4, generator=torch.Generator().manual_seed(0)))
    plain, local = (
        train(table, {"hidden": (8,)}, TrainConfig(max_epochs=2, locality=part)).history for part in (0.0, 0.7)
    )
    assert plain == local
