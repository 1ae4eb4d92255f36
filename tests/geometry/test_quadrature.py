from __future__ import annotations

import mpmath as mp
import pytest
import torch
from torch import Tensor

from horoball.geometry import kernels as numerics
from horoball.geometry import quadrature

dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)


@pytest.mark.parametrize("order", [1, 2, 5, 36])
def test_gauss_legendre_is_exact_to_degree_twice_the_order_less_one(order: int) -> None:
    x, w = quadrature.gauss_legendre(order)
    for degree in range(2 * order):
        exact = 2 / (degree + 1) if degree % 2 == 0 else 0.0
        assert (w * x**degree).sum().item() == pytest.approx(exact, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("d", [2, 3, 10])
def test_gauss_gegenbauer_has_the_moments_of_a_coordinate_on_the_sphere(d: int) -> None:
    order = 12
    x, w = quadrature._gegenbauer(order, d)
    for degree in range(2 * order):
        # E[x^{2k}] = Γ(k + 1/2)Γ(d/2)/(Γ(1/2)Γ(k + d/2))
        even = mp.gammaprod([(degree + 1) / 2, d / 2], [0.5, (degree + d) / 2])
        exact = float(even) if degree % 2 == 0 else 0.0
        assert (w * x**degree).sum().item() == pytest.approx(exact, rel=1e-12, abs=1e-15)


@dtypes
def test_a_rule_has_the_dtype_asked_for(dtype: torch.dtype) -> None:
    for tensor in quadrature.gauss_legendre(5, dtype=dtype):
        assert (tensor.shape, tensor.dtype) == ((5,), dtype)


# Dynamo itself instantiates the autograd.Function that it traces.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_a_rule_is_a_constant_of_a_compiled_graph() -> None:
    def integral(scale: Tensor) -> Tensor:
        x, w = quadrature.gauss_legendre(11, scale.dtype)
        y, v = quadrature.sphere_rule(3)
        return (w * torch.exp(scale * x)).sum() + (v * numerics.asinh(scale * y).square()).sum()

    scale = torch.tensor(0.7, dtype=torch.float64)
    compiled = torch.compile(integral, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(scale), integral(scale), rtol=1e-14, atol=0)


def test_a_rule_first_made_in_inference_mode_serves_in_training() -> None:
    with torch.inference_mode():
        quadrature.gauss_legendre(13)
        quadrature.sphere_rule(9)
    for _, weight in (quadrature.gauss_legendre(13), quadrature.sphere_rule(9)):
        f = torch.ones_like(weight, requires_grad=True)
        (grad,) = torch.autograd.grad((weight * f).sum(), f)
        assert torch.equal(grad, weight)


def test_a_rule_first_made_under_a_default_device_is_not_bound_to_it() -> None:
    with torch.device("meta"):
        quadrature.gauss_legendre(14)
    assert quadrature.gauss_legendre(14)[0].device.type == "cpu"


@pytest.mark.parametrize("d", [2, 3, 5, 8, 9, 20])
def test_sphere_rule_holds_a_logarithm_at_the_antipode(d: int) -> None:
    # E[log cos²(φ/2)] = ψ(n/2) − ψ(n) with n = d − 1, since cos²(φ/2) has the Beta(n/2, n/2) law
    P, w = quadrature.sphere_rule(d)
    n = torch.tensor(float(d - 1), dtype=torch.float64)
    truth = torch.special.digamma(n / 2) - torch.special.digamma(n)
    assert abs((w * P.log()).sum() - truth) < 1e-8
