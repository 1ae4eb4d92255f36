"""The laws of an edge against their definitions in many digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import torch
from torch import Tensor

from horoball.graphs.model import EDGES, FermiDiracEdges, TanhEdges
from tests import oracle

KINDS = [torch.float32, torch.float64]
RADIUS, TEMPERATURE = 1.25, 0.5


def distances(dtype: torch.dtype, most: float = 300.0) -> Tensor:
    return torch.logspace(-12, math.log10(most), 121, dtype=torch.float64).to(dtype)


def law(name: str, dtype: torch.dtype) -> Any:
    return TanhEdges() if name == "tanh" else FermiDiracEdges(RADIUS, TEMPERATURE).to(dtype)


def defined(name: str, edges: Any) -> Callable[[Any], Any]:
    """log p and log(1 − p), as they are defined, of the law's own parameters."""
    if name == "tanh":
        return lambda d: (mp.log(1 - mp.tanh(d)), mp.log(mp.tanh(d)))
    r, t = mp.mpf(edges.radius.item()), mp.exp(mp.mpf(edges.log_temperature.item()))
    return lambda d: (-mp.log(mp.exp((d - r) / t) + 1), -mp.log(mp.exp((r - d) / t) + 1))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", EDGES)
def test_both_logarithms_keep_all_digits(name: str, dtype: torch.dtype) -> None:
    d, edges = distances(dtype), law(name, dtype)
    with mp.workdps(400):  # 1 − tanh 300 loses 261 digits
        expected = [oracle.floats(side) for side in zip(*map(defined(name, edges), oracle.array(d)), strict=True)]
    info = torch.finfo(dtype)
    # (d − r)/t is rounded where it is formed, and exp of a large number feels that.
    condition = 1.0 if name == "tanh" else 1 + np.abs(d.double().numpy() - RADIUS) / TEMPERATURE
    for found, exact in zip((edges.log_edge(d), edges.log_no_edge(d)), expected, strict=True):
        error = np.abs(found.detach().double().numpy() - exact)
        assert (error <= 2 * info.eps * condition * np.abs(exact) + 2 * info.tiny).all()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", EDGES)
def test_the_probabilities_add_up_to_one(name: str, dtype: torch.dtype) -> None:
    d, edges = distances(dtype), law(name, dtype)
    total = edges.log_edge(d).exp() + edges.log_no_edge(d).exp()
    torch.testing.assert_close(total, torch.ones_like(d), rtol=0, atol=4 * torch.finfo(dtype).eps)


def test_the_papers_law_has_exact_rates() -> None:
    for dtype in KINDS:
        d = distances(dtype, 40.0).requires_grad_()
        edge, no_edge = (
            torch.autograd.grad(f(d).sum(), d)[0].double() for f in (TanhEdges().log_edge, TanhEdges().log_no_edge)
        )
        with mp.workdps(100):
            x = oracle.array(d.detach())
            expected = [[-1 - mp.tanh(v) for v in x], [2 / mp.sinh(2 * v) for v in x]]
        for found, exact in zip((edge, no_edge), expected, strict=True):
            np.testing.assert_allclose(found.numpy(), oracle.floats(exact), rtol=8 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("side", ["log_edge", "log_no_edge"])
def test_gradients_are_those_of_differences(name: str, side: str) -> None:
    edges = law(name, torch.float64)
    d = torch.tensor([0.05, 0.4, 0.49, 0.51, 1.0, 4.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(getattr(edges, side), (d,))
    assert torch.autograd.gradgradcheck(getattr(edges, side), (d,))


@pytest.mark.parametrize("side", ["log_edge", "log_no_edge"])
def test_radius_and_temperature_have_gradients(side: str) -> None:
    edges = FermiDiracEdges(RADIUS, TEMPERATURE).double()
    d = torch.tensor([0.0, 0.3, 1.25, 2.0, 30.0], dtype=torch.float64)

    def value(radius: Tensor, log_temperature: Tensor) -> Tensor:
        learned = {"radius": radius, "log_temperature": log_temperature}
        return torch.func.functional_call(_Side(edges, side), {f"edges.{k}": v for k, v in learned.items()}, (d,))

    assert torch.autograd.gradcheck(value, tuple(edges.parameters()))
    getattr(edges, side)(d).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.item() != 0 for parameter in edges.parameters())


class _Side(torch.nn.Module):
    def __init__(self, edges: FermiDiracEdges, side: str) -> None:
        super().__init__()
        self.edges, self.side = edges, side

    def forward(self, d: Tensor) -> Tensor:
        return getattr(self.edges, self.side)(d)


def test_points_that_touch_are_joined() -> None:
    d = torch.zeros(1)
    assert float(TanhEdges().log_edge(d)) == 0.0
    assert float(TanhEdges().log_no_edge(d)) == -math.inf
    assert FermiDiracEdges(radius=2.0, temperature=1.0).log_edge(d).item() == pytest.approx(-math.log1p(math.exp(-2.0)))
