"""The radius distribution as functions of tensors: gradients, batches, order, dtypes."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from horoball.distributions import HyperbolicRadius
from horoball.distributions import radius as radius_autograd
from horoball.geometry import PoincareBall
from tests.distributions.radii import ROOTS, SIGMA, dimensions, dtypes, law_of


@pytest.mark.parametrize("d", [2, 20])
@pytest.mark.parametrize("c", [0.0, 0.9])
def test_cdf_icdf_and_log_prob_pass_gradcheck(d: int, c: float) -> None:
    sigma = torch.tensor([0.4, 1.3], dtype=torch.float64, requires_grad=True)
    curvature = torch.tensor(c, dtype=torch.float64, requires_grad=True)
    value = torch.tensor([[0.2], [0.8]], dtype=torch.float64, requires_grad=True)

    def method(name: str, x: Tensor, sigma: Tensor, c: Tensor) -> Tensor:
        return getattr(HyperbolicRadius(d, sigma, PoincareBall(c)), name)(x)

    for name in ("cdf", "log_prob", "icdf"):
        # At c = 0 a numerical difference would leave the domain of c.
        inputs = (value, sigma, curvature) if c else (value, sigma, curvature.detach())
        assert torch.autograd.gradcheck(lambda *x, name=name: method(name, *x), inputs, eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["mean", "variance", "entropy", "log_normalizer"])
@pytest.mark.parametrize("d", [2, 20])
def test_moments_and_entropy_pass_gradcheck(name: str, d: int) -> None:
    def moment(sigma: Tensor, c: Tensor) -> Tensor:
        value = getattr(HyperbolicRadius(d, sigma, PoincareBall(c)), name)
        return value() if callable(value) else value

    inputs = (torch.tensor([0.4, 1.3], dtype=torch.float64), torch.tensor(0.9, dtype=torch.float64))
    assert torch.autograd.gradcheck(moment, tuple(x.requires_grad_() for x in inputs), eps=1e-6, atol=1e-7)


@dtypes
def test_chunks_change_no_radius(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    sigma = torch.linspace(0.1, 3, 7, dtype=dtype)
    epsilon = torch.linspace(-5, 5, 35, dtype=torch.float64).reshape(5, 7)
    c = torch.tensor(0.8, dtype=dtype, requires_grad=True)
    whole = radius_autograd.quantile(sigma, c, epsilon, 3)
    (slope,) = torch.autograd.grad(whole.sum(), c)
    monkeypatch.setattr(radius_autograd, "_CHUNK", 4)
    parts = radius_autograd.quantile(sigma, c, epsilon, 3)
    assert torch.equal(parts, whole)
    assert torch.equal(torch.autograd.grad(parts.sum(), c)[0], slope)


@dtypes
def test_a_quantile_does_not_depend_on_its_batch(dtype: torch.dtype) -> None:
    sigma, u = torch.tensor([[0.2], [1.0], [9.0]], dtype=dtype), torch.tensor([1e-4, 0.3, 0.99], dtype=dtype)
    ball = PoincareBall(1.3)
    together = HyperbolicRadius(4, sigma, ball)
    r = together.icdf(u)
    assert r.shape == together.cdf(r).shape == together.log_prob(r).shape == (3, 3)
    for i, j in product(range(3), range(3)):
        alone = HyperbolicRadius(4, sigma[i, 0], ball)
        torch.testing.assert_close(alone.icdf(u[j]), r[i, j], rtol=1e-14 if dtype == torch.float64 else 2e-7, atol=0)
        torch.testing.assert_close(alone.cdf(r[i, j]), together.cdf(r)[i, j])


@dtypes
@dimensions
def test_quantiles_rise_with_the_probability(d: int, dtype: torch.dtype) -> None:
    u = torch.linspace(0.001, 0.999, 999, dtype=dtype)
    for root in ROOTS:
        r = law_of(d, root, dtype)[0].icdf(u)
        assert (r.diff() >= 0).all()
        assert (r[::20].diff() > 0).all()  # neighbors may round to one float32


def test_the_law_of_the_scaled_radius_depends_on_c_times_the_variance_alone() -> None:
    sigma = torch.tensor(SIGMA, dtype=torch.float64)
    for d, zoom in product((2, 20), (1e-4, 1e4)):
        one = HyperbolicRadius(d, sigma, PoincareBall(0.7))
        other = HyperbolicRadius(d, sigma * zoom, PoincareBall(0.7 / zoom**2))
        torch.testing.assert_close(other.mean, one.mean * zoom, rtol=1e-13, atol=0)
        torch.testing.assert_close(other.log_normalizer, one.log_normalizer + d * math.log(zoom), rtol=1e-13, atol=0)


def test_the_ends_of_the_unit_interval_have_finite_gradients() -> None:
    u = torch.tensor([0.0, 0.3, 1.0], requires_grad=True)
    HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(1.0)).icdf(u)[1].backward()
    assert u.grad is not None
    assert u.grad.isfinite().all()
    assert u.grad[1] > 0


def test_cdf_answers_in_the_wider_dtype() -> None:
    numbers = HyperbolicRadius(2, torch.tensor(1.0, dtype=torch.float64), PoincareBall(1.0))
    assert numbers.cdf(torch.tensor(1.0)).dtype == torch.float64
    whole = HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(1.0), validate_args=False)
    torch.testing.assert_close(whole.cdf(torch.tensor(1)), whole.cdf(torch.tensor(1.0)))
