from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp
import pytest
import torch
from torch import Tensor

from horoball.geometry import kernels as numerics
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
