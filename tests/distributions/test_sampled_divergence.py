"""A point and its divergence in one function, next to the general way in float64 with the same noise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from horoball import PoincareBall, RiemannianNormal, WrappedNormal
from horoball.distributions import sampled as function
from horoball.vae.encoder import Prior

FAMILIES: dict[str, Any] = {"wrapped": WrappedNormal, "riemannian": RiemannianNormal}
families = pytest.mark.parametrize("family", FAMILIES)
ROWS = 64


def inputs(d: int, size: float, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Locations, scales, and gradients in the points and in the divergences."""
    generator = torch.Generator().manual_seed(d)
    loc = size * torch.randn(ROWS, d, generator=generator)
    scale = 0.05 + 2 * torch.rand(ROWS, 1, generator=generator) * min(1, 10 / d)
    g, h = torch.randn(1, ROWS, d, generator=generator), torch.randn(1, ROWS, generator=generator)
    return loc.to(dtype).requires_grad_(), scale.to(dtype).requires_grad_(), g.to(dtype), h.to(dtype)


def drawn(family: str, ball: PoincareBall, loc: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    prior = Prior(loc.shape[-1], ball, 1.3, family)()
    return FAMILIES[family](loc, scale, ball, validate_args=False).rsample_and_divergence(
        prior, (1,), torch.Generator().manual_seed(1)
    )


def in_float64(family: str, ball: PoincareBall, loc: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """log q(z) − log p(z) in float64, of the noise that float32 draws."""
    d = loc.shape[-1]
    generator = torch.Generator().manual_seed(1)
    q = FAMILIES[family](loc, scale, ball)
    prior = Prior(d, ball, 1.3, family).double()()
    if isinstance(q, RiemannianNormal):
        epsilon = torch.randn(1, ROWS, dtype=torch.float64, generator=generator)
        v, log_q = q._from_noise(epsilon, torch.randn(1, ROWS, d, generator=generator).double())
    else:
        epsilon = torch.randn(1, ROWS, d, generator=generator).double()
        v = scale * epsilon
        log_q = q._log_normal(epsilon) - ball.log_volume(v)
    z = ball.exp(loc, v)
    return z, log_q - prior.log_prob(z)


def gap(got: Tensor, truth: Tensor) -> float:
    """The largest error of a row, relative to its size or 1."""
    got, truth = (x.detach().double().reshape(ROWS, -1) for x in (got, truth))
    return float(((got - truth).norm(dim=-1) / truth.norm(dim=-1).clamp_min(1)).max())


@families
@pytest.mark.parametrize("d", [2, 3, 10, 50])
@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-4, 1.0, 5.0])
@pytest.mark.parametrize("c", [0.01, 1.0, 3.0])
def test_values_and_gradients_are_those_of_the_general_way(family: str, d: int, size: float, c: float) -> None:
    ball = PoincareBall(c)
    loc, scale, g, h = inputs(d, size)
    z, divergence = drawn(family, ball, loc, scale)
    gradients = torch.autograd.grad((z, divergence), (loc, scale), (g, h))
    wide = [x.detach().double().requires_grad_() for x in (loc, scale)]
    truths = in_float64(family, ball, *wide)
    slopes = torch.autograd.grad(truths, wide, (g.double(), h.double()))
    assert gap(z, truths[0]) < 2e-7
    assert gap(divergence, truths[1]) < 5e-7
    for got, truth in zip(gradients, slopes, strict=True):
        assert gap(got, truth) < 5e-7


def followed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call found its point."""
    found: list[bool] = []
    follow = function.follow

    def noted(*arguments: Any) -> Any:
        ray = follow(*arguments)
        found.append(ray is not None)
        return ray

    monkeypatch.setattr(function, "follow", noted)
    return found


@families
@pytest.mark.parametrize("size", [1.0, 3e4, float("nan")])
def test_points_far_out_go_the_general_way(family: str, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    found = followed(monkeypatch)
    loc, scale, *_ = inputs(3, size)
    z, divergence = drawn(family, PoincareBall(1.0), loc, scale)
    (z.sum() + divergence.sum()).backward()
    assert found == [size == 1.0]
    assert loc.grad is not None
    assert bool(loc.grad.isfinite().all()) == (size == size)


def test_a_vector_that_undoes_its_location_goes_the_general_way(monkeypatch: pytest.MonkeyPatch) -> None:
    found = followed(monkeypatch)
    epsilon = torch.randn(1, 1, 3, generator=torch.Generator().manual_seed(1))
    z, divergence = drawn("wrapped", PoincareBall(1.0), -9 * epsilon[0], torch.full((1, 1), 9.0))
    assert found == [False]
    assert float(z.norm()) < 1e-5
    assert bool(divergence.isfinite())


@families
def test_what_is_not_usual_goes_the_general_way(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = followed(monkeypatch)
    loc, scale, *_ = inputs(3, 1.0)
    drawn(family, PoincareBall(0.0), loc, scale)
    drawn(family, PoincareBall(1.0, learnable=True), loc, scale)
    ball = PoincareBall(1.0)
    q = FAMILIES[family](loc, scale, ball)
    assert q.rsample_and_divergence(Prior(3, ball, kind=family)(), (2,))[0].shape == (2, ROWS, 3)  # two samples
    q.rsample_and_divergence(Prior(3, ball, kind=family, learn_scale=True)())
    q.rsample_and_divergence(FAMILIES[family](torch.ones(3), torch.ones(1), ball))  # not around the origin
    drawn(family, ball, loc.double(), scale.double())
    assert found == []
    drawn(family, ball, loc, scale)
    assert found == [True]


def test_second_derivatives_are_those_of_the_general_way() -> None:
    ball = PoincareBall(1.0)
    loc, scale, g, h = inputs(3, 1.0)

    def penalty(outputs: tuple[Tensor, Tensor], at: list[Tensor], kind: torch.dtype) -> list[Tensor]:
        slopes = torch.autograd.grad(outputs, at, (g.to(kind), h.to(kind)), create_graph=True)
        return list(torch.autograd.grad(sum(slope.square().sum() for slope in slopes), at))

    wide = [x.detach().double().requires_grad_() for x in (loc, scale)]
    got = penalty(drawn("wrapped", ball, loc, scale), [loc, scale], torch.float32)
    truths = penalty(in_float64("wrapped", ball, *wide), wide, torch.float64)
    for x, truth in zip(got, truths, strict=True):
        assert gap(x, truth) < 1e-5
