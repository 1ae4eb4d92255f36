"""The gradients that a layout goes down are those of the terms, in blocks of any size."""

from __future__ import annotations

import pytest
import torch

from horoball import PoincareBall
from horoball.vae import DistanceTerm, NeighborTerm, PlaceTerm, descent
from horoball.vae.distances import ChordPoints, chord_distance

CURVATURES = (0.0, 0.5, 2.0)
NEAR = torch.tensor([3, 0, 1, 2, 6, 4, 5])


def drawn(n: int, seed: int, d: int = 3) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("c", CURVATURES)
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (0.3, 0.7)])
@pytest.mark.parametrize("block", [6, 1 << 17])
def test_gradients_are_those_of_the_terms(
    c: float, weights: tuple[float, float], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descent, "_BLOCK", block)
    monkeypatch.setattr(descent, "_LEAST", 1e-30)  # as the terms have it
    ball, z, marks, far = PoincareBall(c), drawn(7, 0).requires_grad_(), torch.tensor([1, 4]), torch.tensor([0, 2, 5])
    g = (2 + drawn(2, 1, 7).square()).masked_fill(torch.arange(7) == marks.unsqueeze(1), 0.0)
    distances, neighbors = DistanceTerm(z[marks].detach()).double(), NeighborTerm(9.0).double()
    with torch.no_grad():
        distances.log_scale.fill_(0.3)
        neighbors.log_scale.fill_(-0.2)
    points = ChordPoints(ball, z)
    loss = weights[0] * distances(chord_distance(ball, points.take(marks).between(points)), g).mean()
    loss = loss + weights[1] * neighbors(points.paired(points.take(NEAR)), points.take(far).between(points).mT).mean()
    wanted = torch.autograd.grad(loss, (z, distances.log_scale, neighbors.log_scale))
    terms = descent.Terms(marks, g, weights[0], NEAR, far, 9.0, weights[1])
    found = descent.Descent(ball, z.detach()).pull(terms, 0.3, -0.2)
    torch.testing.assert_close(found.z, wanted[0], rtol=1e-6, atol=1e-6)
    assert found.distances == pytest.approx(float(wanted[1]), abs=1e-4)
    assert found.kernel == pytest.approx(float(wanted[2]), abs=1e-8)


@pytest.mark.parametrize("c", CURVATURES)
def test_slopes_of_paired_chords_are_their_gradients(c: float) -> None:
    z, y = drawn(9, 0).requires_grad_(), drawn(9, 1)
    points, others = ChordPoints(PoincareBall(c), z), ChordPoints(PoincareBall(c), y)
    (wanted,) = torch.autograd.grad(points.paired(others).sum(), z)
    torch.testing.assert_close(points.slope(others).detach(), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("c", [0.5, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-3, 1.0, 8.0, 400.0])
def test_the_place_term_is_the_distance_near_and_far(c: float, dtype: torch.dtype, size: float) -> None:
    ball, places = PoincareBall(c), (size * drawn(20, 1)).to(dtype)
    z = (size * drawn(20, 0)).to(dtype)
    z[0], z[1] = places[0], 0.0
    found, wanted = (each.requires_grad_() for each in (z.clone(), z.clone()))
    value, distance = PlaceTerm()(ball, found, places), ball.dist(wanted, places)
    close = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-11}
    torch.testing.assert_close(value, distance, **close)
    value.sum().backward()
    distance.sum().backward()
    torch.testing.assert_close(found.grad, wanted.grad, **close)
