"""The neighbor term: its formula, its chords, its partners, and what it does to a map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from horoball import PoincareBall, PoincareVAE
from horoball.data import ArrayTable, Order
from horoball.data.tables.array_table import held_out
from horoball.data.tables.geodesics import neighbor_graph
from horoball.objectives import NeighborTerm
from horoball.objectives.chords import chord_distance, chords_between, paired_chords
from horoball.training import TrainConfig
from horoball.training.table.landmarks import with_landmarks
from horoball.training.table.run import train

CURVATURES = (0.0, 0.5, 2.0)


def points(n: int, seed: int) -> torch.Tensor:
    return 2 * torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("c", CURVATURES)
def test_chords_are_those_of_distances(c: float) -> None:
    ball, z, y = PoincareBall(c), points(6, 0), points(4, 1)
    square = chords_between(ball, z, y)
    torch.testing.assert_close(chord_distance(ball, square), ball.cdist(z, y).double(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(paired_chords(ball, z[:4], y), square.diagonal(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("c", CURVATURES)
def test_chords_of_a_point_to_itself_have_finite_gradients(c: float) -> None:
    ball = PoincareBall(c)
    z = torch.tensor([[0.0, 0.0], [1.5, 0.2]], requires_grad=True)
    (chord_distance(ball, chords_between(ball, z, z)).sum() + paired_chords(ball, z, z).sum()).backward()
    assert z.grad is not None
    assert bool(z.grad.isfinite().all())


@pytest.mark.parametrize("c", CURVATURES)
def test_the_term_is_its_formula(c: float) -> None:
    ball, term = PoincareBall(c), NeighborTerm()
    with torch.no_grad():
        term.log_scale.fill_(0.3)
    near, far = np.array([0.5, 1.0]), np.array([[2.0, 3.0, 1.0], [0.1, 4.0, 2.0]])
    chord = (lambda d: d**2) if c == 0 else (lambda d: 4 * np.sinh(c**0.5 * d / 2) ** 2 / c)
    kernel = lambda d: 1 / (1 + chord(d) / np.exp(0.6))  # noqa: E731
    expected = -np.log(kernel(near) / (kernel(near) + 5 * kernel(far).mean(1)))
    z = torch.tensor([[0.5, 0.0], [1.0, 0.0]], dtype=torch.float64)
    got = term(paired_chords(ball, z, torch.zeros_like(z)), torch.from_numpy(chord(far)))
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-5)


def test_partners_are_neighbors_that_are_trained_on() -> None:
    x = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    held = held_out(80, 0.2)
    table, _ = with_landmarks(ArrayTable(x), candidates=np.setdiff1d(np.arange(80), held), neighbors=5, partners=True)
    graph = neighbor_graph(x.numpy(), 5).toarray() > 0
    number = {tuple(row): i for i, row in enumerate(x.tolist())}
    for part in table.split(0.2):
        assert part is not None
        for batch in part.batches(Order(16)):
            assert batch.partners is not None
            for row, partner in zip(batch.x.tolist(), batch.partners.tolist(), strict=True):
                i, j = number[tuple(row)], number[tuple(partner)]
                assert j not in held
                assert graph[i, j] or not graph[i][np.setdiff1d(np.arange(80), held)].any()


def test_a_run_draws_the_same_partners_again() -> None:
    table, _ = with_landmarks(ArrayTable(torch.randn(40, 3)), partners=True)
    first, again = ([batch.partners for batch in table.batches(Order(8, epoch=2))] for _ in range(2))
    later = [batch.partners for batch in table.batches(Order(8, epoch=2, start=3))]
    for ours, theirs in zip((*first, *first[3:]), (*again, *later), strict=True):
        assert ours is not None
        assert torch.equal(ours, theirs)


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
    assert "neighbor" in neighbor[1].history_[-1]
    assert "neighbor" not in neighbor[0].history_[-1]


def test_without_a_distance_weight_it_is_the_papers_objective() -> None:
    table = ArrayTable(torch.randn(60, 4, generator=torch.Generator().manual_seed(0)))
    plain, local = (
        train(table, {"hidden": (8,)}, TrainConfig(max_epochs=2, locality=part)).history for part in (0.0, 0.7)
    )
    assert plain == local
