"""The means of a layout's terms are those of the terms, and so are their gradients."""

from __future__ import annotations

import pytest
import torch

from horoball import PoincareBall
from horoball.vae import DistanceTerm, NeighborTerm
from horoball.vae.distances import ChordPoints, chord_distance, mean_distance_term, mean_neighbor_term

CURVATURES = (0.0, 0.5, 2.0)


def drawn(n: int, seed: int) -> torch.Tensor:
    z = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return z.requires_grad_()


def gradients(value: torch.Tensor, *of: torch.Tensor) -> list[torch.Tensor]:
    torch.autograd.grad(value, of, retain_graph=True)  # asked twice, they are the same
    return [value.detach(), *torch.autograd.grad(value, of, retain_graph=True)]


@pytest.mark.parametrize("c", CURVATURES)
def test_mean_distance_term(c: float) -> None:
    ball, z, y = PoincareBall(c), drawn(7, 0), drawn(5, 1)
    g = torch.rand(5, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    term = DistanceTerm(y).double()
    with torch.no_grad():
        term.log_scale.fill_(0.3)
    square = ChordPoints(ball, y).between(ChordPoints(ball, z))
    found = mean_distance_term(square, g, term.log_scale, c)
    expected = term(chord_distance(ball, square), g).mean()
    for mine, theirs in zip(
        gradients(found, z, y, term.log_scale), gradients(expected, z, y, term.log_scale), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("c", CURVATURES)
def test_mean_neighbor_term(c: float) -> None:
    ball, z, y, w = PoincareBall(c), drawn(7, 0), drawn(5, 1), drawn(7, 2)
    term = NeighborTerm(9.0).double()
    with torch.no_grad():
        term.log_scale.fill_(-0.2)
    points = ChordPoints(ball, z)
    near, far = points.paired(ChordPoints(ball, w)), ChordPoints(ball, y).between(points)
    found = mean_neighbor_term(near, far, term.log_scale, term.crowd)
    expected = term(near, far.mT).mean()
    of = (z, y, w, term.log_scale)
    for mine, theirs in zip(gradients(found, *of), gradients(expected, *of), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)
