"""Second derivatives of the geometry, the densities and the layer, against mpmath; `torch.func` as autograd."""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian

from horoball import PoincareBall, RiemannianNormal, WrappedNormal
from horoball.nn import Gyroplane
from tests import oracle

# Relative to the larger of the Hessian's norm and 1. Derivatives of float32 points are float64, and rounded once.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}
WEIGHTS = [0.75, -0.5, 1.25]

# torch loads its decompositions for forward mode, which are scripts, at the first call.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def exact_hessian(f: Callable[[np.ndarray], object], x: Tensor) -> np.ndarray:
    """By central differences: a step of 1e-18 leaves an error of 1e-36, and takes 36 of the digits."""
    with mp.workdps(150):
        at, step, d = oracle.array(x), mp.mpf(10) ** -18, len(x)
        axes = [step * oracle.array(row) for row in np.eye(d)]
        rows = [
            [(f(at + a + b) - f(at + a - b) - f(at - a + b) + f(at - a - b)) / (4 * step * step) for b in axes]  # type: ignore[operator]
            for a in axes
        ]
        return oracle.floats(rows)


def points(radius: float, other: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    z, y = torch.tensor([0.6, -0.64, 0.48]), torch.tensor([0.48, 0.6, -0.64])
    return (radius * z).to(dtype), (other * y).to(dtype)


def near(hessian: Tensor, truth: np.ndarray) -> bool:
    gap, size = np.linalg.norm(hessian.double().numpy() - truth), np.linalg.norm(truth)
    return bool(gap <= TOLERANCE[hessian.dtype] * max(1.0, size))


@dtypes
@pytest.mark.parametrize("name", ["dist", "exp", "log"])
@pytest.mark.parametrize(("radius", "other"), [(0.01, 0.3), (1.0, 2.0), (4.0, 5.0), (16.0, 0.5), (30.0, 40.0)])
def test_hessians_are_those_of_the_definition(name: str, radius: float, other: float, dtype: torch.dtype) -> None:
    z, y = points(radius, other, dtype)
    weights = torch.tensor(WEIGHTS, dtype=dtype)

    def ours(at: Tensor) -> Tensor:
        value = getattr(PoincareBall(1.0), name)(at, y)
        return value if name == "dist" else (value * weights).sum()

    def truth(at: np.ndarray) -> object:
        value = getattr(oracle, name)(at, y, 1.0)
        return value if name == "dist" else (value * oracle.array(WEIGHTS)).sum()

    expected = exact_hessian(truth, z)
    assert near(hessian(ours, z), expected)
    assert near(torch.func.hessian(ours)(z), expected)


def test_near_pairs_far_out_keep_the_digits_of_a_hessian() -> None:
    z = torch.tensor([10.0, 0.0, 0.0], dtype=torch.float64)
    y = torch.tensor([10.25, 2e-5, 0.0], dtype=torch.float64)
    expected = exact_hessian(lambda at: oracle.dist(at, y, 1.0), z)
    got = hessian(lambda at: PoincareBall(1.0).dist(at, y), z)
    assert np.linalg.norm(got.numpy() - expected) <= 1e-9 * np.linalg.norm(expected)


@pytest.mark.parametrize("kind", [WrappedNormal, RiemannianNormal])
def test_densities_have_the_hessians_of_finite_differences(kind: type) -> None:
    z, loc = torch.tensor([0.5, 0.3], dtype=torch.float64), torch.tensor([0.1, -0.4], dtype=torch.float64)
    scale, c = torch.tensor([0.7], dtype=torch.float64), torch.tensor(0.8, dtype=torch.float64)

    def log_prob(loc: Tensor, scale: Tensor, c: Tensor) -> Tensor:
        return kind(loc, scale, PoincareBall(c), validate_args=False).log_prob(z)

    inputs = tuple(x.requires_grad_() for x in (loc, scale, c))
    assert torch.autograd.gradgradcheck(log_prob, inputs)


@pytest.mark.parametrize("kind", [WrappedNormal, RiemannianNormal])
def test_the_hessian_at_the_mean_is_that_of_a_normal(kind: type) -> None:
    origin, scale = torch.zeros(2, dtype=torch.float64), torch.full((1,), 0.5, dtype=torch.float64)
    curve = hessian(kind(origin, scale, PoincareBall(1.0)).log_prob, origin)
    shrink = 1 / 3 if kind is WrappedNormal else 0.0  # of the volume element, (d − 1) c/3
    torch.testing.assert_close(curve, -(4 + shrink) * torch.eye(2, dtype=torch.float64))


def test_the_layer_has_the_hessian_of_finite_differences() -> None:
    layer = Gyroplane(2, 5, PoincareBall(1.0)).double()
    z = torch.tensor([[0.5, 0.3], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(layer, (z,))
    assert torch.autograd.gradgradcheck(lambda w: torch.func.functional_call(layer, {"weight": w}, z), layer.weight)


def test_torch_func_agrees_with_autograd() -> None:
    ball, z = PoincareBall(1.0), torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y, scale, layer = z.flip(0), torch.full((1,), 0.7, dtype=torch.float64), Gyroplane(3, 2, ball).double()
    for f in (
        lambda a, b: ball.dist(a, b),
        lambda a, b: ball.exp(a, b),
        lambda a, b: ball.log(a, b),
        lambda a, b: ball.geodesic(a, b, 0.3),
        lambda a, b: WrappedNormal(a, scale, ball, validate_args=False).log_prob(b),
        lambda a, b: RiemannianNormal(a, scale, ball, validate_args=False).log_prob(b),
        lambda a, b: layer(a),
    ):
        torch.testing.assert_close(torch.func.vmap(f)(z, y), f(z, y))
        jacobian = torch.func.vmap(torch.func.jacrev(f))(z, y)
        expected = torch.stack([torch.autograd.functional.jacobian(lambda p, q=b: f(p, q), a) for a, b in zip(z, y)])  # noqa: B023, B905
        torch.testing.assert_close(jacobian, expected)
