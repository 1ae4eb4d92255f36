from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp
import pytest
import torch
from torch import Tensor

from horoball import numerics
from tests.oracle import array, derivative


class Kernel(NamedTuple):
    closed: Callable[[mp.mpf], mp.mpf]  # of x = √u
    at_zero: tuple[float, float]  # value and derivative in u
    large: tuple[float, ...]
    tolerance: tuple[float, float]  # of value and derivative, in units of the dtype's epsilon


HUGE = (10.0, 1e2, 1e4, 1e8, 1e12, 1e16, 1e20)

# The derivatives of quotients such as (x coth x − 1)/x² cancel just above the switch: a few hundred epsilons.
KERNELS = {
    "sinhc": Kernel(lambda x: mp.sinh(x) / x, (1.0, 1 / 6), (10.0, 1e2, 1e3, 7e3), (64, 64)),
    "log_sinhc": Kernel(lambda x: mp.log(mp.sinh(x) / x), (0.0, 1 / 6), HUGE, (16, 16)),
    "coth_excess": Kernel(lambda x: (x * mp.coth(x) - 1) / x**2, (1 / 3, -1 / 45), HUGE, (16, 1000)),
    "tanhc": Kernel(lambda x: mp.tanh(x) / x, (1.0, -1 / 3), HUGE, (4, 16)),
    "asinhc": Kernel(lambda x: mp.asinh(x) / x, (1.0, -1 / 6), HUGE, (4, 100)),
    "atanhc": Kernel(lambda x: mp.atanh(x) / x, (1.0, 1 / 3), (0.7, 0.9, 0.95, 0.99), (16, 64)),
}
ASINH_TOLERANCE = (4, 4)
SWITCHES = (0.1, 0.25, 0.5)  # of any kernel: each is tested on both sides of all
DTYPES = (torch.float64, torch.float32)

kernels = pytest.mark.parametrize("name", KERNELS)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def arguments(kernel: Kernel, dtype: torch.dtype) -> Tensor:
    """Tiny, both sides of each switch, moderate, huge; the squares are exact in neither dtype."""
    switch = torch.tensor(SWITCHES, dtype=dtype)
    sides = [torch.nextafter(switch, torch.full_like(switch, far)) for far in (-math.inf, math.inf)]
    near = torch.tensor([1e-30, 1e-16, 1e-8, 1e-4, 0.03, *(s * f for s in SWITCHES for f in (0.9, 1.1))], dtype=dtype)
    large = torch.tensor(kernel.large, dtype=dtype)
    return torch.cat([near, *sides, switch, large])


def value_and_grad(f: Callable[[Tensor], Tensor], u: Tensor) -> tuple[list[float], list[float]]:
    u = u.clone().requires_grad_()
    value = f(u)
    (grad,) = torch.autograd.grad(value.sum(), u)
    assert value.dtype == grad.dtype == u.dtype
    return value.tolist(), grad.tolist()


def assert_close(got: list[float], expected: list[float], tolerance: float, at: Tensor) -> None:
    for g, e, u in zip(got, expected, at.tolist(), strict=True):
        assert g == pytest.approx(e, rel=tolerance * torch.finfo(at.dtype).eps, abs=0.0), f"at {u!r}"


def expected_value_and_grad(f: Callable[[mp.mpf], mp.mpf], u: Tensor) -> tuple[list[float], list[float]]:
    with mp.workdps(150):
        value = [float(f(p)) for p in array(u)]
    # Along u itself, so that the step is relative and a tiny argument stays positive.
    return value, [derivative(lambda p: f(p[0]), [p], [p]) / p for p in u.tolist()]


@kernels
@dtypes
def test_kernel_agrees_with_mpmath_in_value_and_derivative(name: str, dtype: torch.dtype) -> None:
    kernel = KERNELS[name]
    u = arguments(kernel, dtype)
    got = value_and_grad(getattr(numerics, name), u)
    expected = expected_value_and_grad(lambda p: kernel.closed(mp.sqrt(p)), u)
    for g, e, tolerance in zip(got, expected, kernel.tolerance, strict=True):
        assert_close(g, e, tolerance, u)


@kernels
@dtypes
def test_kernel_is_regular_at_zero(name: str, dtype: torch.dtype) -> None:
    (value,), (grad,) = value_and_grad(getattr(numerics, name), torch.zeros(1, dtype=dtype))
    eps = torch.finfo(dtype).eps
    assert (value, grad) == pytest.approx(KERNELS[name].at_zero, rel=eps, abs=0.0)


@kernels
def test_kernel_has_a_second_derivative_on_both_sides_of_a_switch(name: str) -> None:
    u = torch.tensor([0.0, 0.01, *SWITCHES, 0.7, 0.9], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(getattr(numerics, name), u)


@dtypes
def test_kernel_keeps_the_shape_of_its_argument(dtype: torch.dtype) -> None:
    for name in KERNELS:
        for shape in ((), (0,), (2, 1, 3)):
            assert getattr(numerics, name)(torch.full(shape, 0.3, dtype=dtype)).shape == shape


def test_coth_excess_is_twice_the_derivative_of_log_sinhc() -> None:
    u = torch.tensor([0.0, 1e-3, 0.2, 0.3, 0.6, 4.0, 1e4], dtype=torch.float64)
    _, grad = value_and_grad(numerics.log_sinhc, u)
    torch.testing.assert_close(2 * torch.tensor(grad, dtype=torch.float64), numerics.coth_excess(u), rtol=1e-14, atol=0)


@dtypes
def test_asinh_agrees_with_mpmath_in_value_and_derivative(dtype: torch.dtype) -> None:
    # 1e9 is where the square is left out.
    positive = [1e-30, 1e-8, 1e-3, 0.3, 1.0, 10.0, 1e4, 0.99e9, 1e9, 1.01e9, 1e10, 1e15, 1e19, 1e30]
    y = torch.tensor([s * p for p in positive for s in (1, -1)], dtype=dtype)
    got, expected = value_and_grad(numerics.asinh, y), expected_value_and_grad(mp.asinh, y)
    for g, e, tolerance in zip(got, expected, ASINH_TOLERANCE, strict=True):
        assert_close(g, e, tolerance, y)


@dtypes
def test_asinh_at_zero_keeps_the_sign(dtype: torch.dtype) -> None:
    value, grad = value_and_grad(numerics.asinh, torch.tensor([0.0, -0.0], dtype=dtype))
    assert [math.copysign(1.0, v) for v in value] == [1.0, -1.0]
    assert (value, grad) == ([0.0, 0.0], [1.0, 1.0])


def test_asinh_has_a_gradient_where_the_square_overflows_in_float32() -> None:
    _, grad = value_and_grad(numerics.asinh, torch.tensor([1e30, -1e30]))
    assert grad == pytest.approx([1e-30, 1e-30], rel=1e-6, abs=0.0)


def test_asinh_can_be_differentiated_twice() -> None:
    y = torch.tensor([-3.0, -0.1, 0.0, 0.1, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(numerics.asinh, y)
    assert torch.autograd.gradgradcheck(numerics.asinh, y)


@pytest.mark.parametrize("order", [1, 2, 5, 36])
def test_gauss_legendre_is_exact_to_degree_twice_the_order_less_one(order: int) -> None:
    x, w = numerics.gauss_legendre(order)
    for degree in range(2 * order):
        exact = 2 / (degree + 1) if degree % 2 == 0 else 0.0
        assert (w * x**degree).sum().item() == pytest.approx(exact, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("d", [2, 3, 10])
def test_gauss_gegenbauer_has_the_moments_of_a_coordinate_on_the_sphere(d: int) -> None:
    order = 12
    x, w = numerics.gauss_gegenbauer(order, d)
    for degree in range(2 * order):
        # E[x^{2k}] = Γ(k + 1/2)Γ(d/2)/(Γ(1/2)Γ(k + d/2))
        even = mp.gammaprod([(degree + 1) / 2, d / 2], [0.5, (degree + d) / 2])
        exact = float(even) if degree % 2 == 0 else 0.0
        assert (w * x**degree).sum().item() == pytest.approx(exact, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("rule", [numerics.gauss_legendre, lambda n, **kw: numerics.gauss_gegenbauer(n, 3, **kw)])
@dtypes
def test_a_rule_has_the_dtype_asked_for(rule: Callable[..., tuple[Tensor, Tensor]], dtype: torch.dtype) -> None:
    for tensor in rule(5, dtype=dtype):
        assert (tensor.shape, tensor.dtype) == ((5,), dtype)


# Dynamo itself instantiates the autograd.Function that it traces.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_a_rule_is_a_constant_of_a_compiled_graph() -> None:
    def integral(scale: Tensor) -> Tensor:
        x, w = numerics.gauss_legendre(11, scale.dtype)
        y, v = numerics.gauss_gegenbauer(11, 3, scale.dtype)
        return (w * torch.exp(scale * x)).sum() + (v * numerics.asinh(scale * y).square()).sum()

    scale = torch.tensor(0.7, dtype=torch.float64)
    compiled = torch.compile(integral, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(scale), integral(scale), rtol=1e-14, atol=0)


def test_a_rule_first_made_in_inference_mode_serves_in_training() -> None:
    with torch.inference_mode():
        numerics.gauss_legendre(13)
        numerics.gauss_gegenbauer(13, 4)
    for _, weight in (numerics.gauss_legendre(13), numerics.gauss_gegenbauer(13, 4)):
        f = torch.ones(13, dtype=torch.float64, requires_grad=True)
        (grad,) = torch.autograd.grad((weight * f).sum(), f)
        assert torch.equal(grad, weight)


def test_a_rule_first_made_under_a_default_device_is_not_bound_to_it() -> None:
    with torch.device("meta"):
        numerics.gauss_legendre(14)
    assert numerics.gauss_legendre(14)[0].device.type == "cpu"


@dtypes
def test_wide_is_exact_and_lets_gradients_through(dtype: torch.dtype) -> None:
    x = torch.tensor([0.1, -3.0], dtype=dtype, requires_grad=True)
    y = numerics.wide(x)
    assert y.dtype == torch.float64
    assert y.tolist() == x.tolist()
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert grad.dtype == dtype
    assert grad.tolist() == [1.0, 1.0]


def test_wide_leaves_a_device_without_float64_alone() -> None:
    class Metal:  # all that `wide` asks of a tensor on such a device
        device = torch.device("mps")

    x = Metal()
    assert numerics.wide(x) is x  # type: ignore[arg-type]
