"""Points, tangent vectors and comparisons for the tests of gyrovector spaces."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from horoball.geometry import gyrovector
from tests import oracle

DTYPES = (torch.float64, torch.float32)
CURVATURES = (0.0, 1e-9, 0.3, 1.0, 1.4)

# Relative to the size of a point or of a scalar. A formula is compared with the oracle on the very same numbers:
# float32 is computed in float64 and rounded once, float64 loses 1/(1 − c|x|²), which is e⁸/4 at the largest radius
# used. A law passes through a point that is rounded to the dtype.
TOLERANCE = {
    "formula": {torch.float64: 1e-12, torch.float32: 1e-7},
    "law": {torch.float64: 1e-12, torch.float32: 1e-4},
}
LARGEST_RADIUS = {torch.float64: 8.0, torch.float32: 14.0}  # √c·d(0, x) of a formula's points; a law's is 3

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
curvatures = pytest.mark.parametrize("c", CURVATURES)

# Name → function of two vectors, for properties that all share. The second argument of exp is a tangent vector.
BINARY: dict[str, Callable[..., Tensor]] = {
    "mobius_add": gyrovector.mobius_add,
    "dist": gyrovector.dist,
    "log": gyrovector.log,
    "exp": gyrovector.exp,
    "log0": lambda x, y, c: gyrovector.log0(x, c=c) + y,
    "exp0": lambda x, y, c: gyrovector.exp0(x, c=c) + y,
    "conformal_factor": lambda x, y, c: gyrovector.conformal_factor(x, c=c) + 0 * y.sum(-1),
    "gyroplane_dist": lambda x, y, c: gyrovector.gyroplane_dist(x, point=y, normal=NORMAL.to(x), c=c),
    "gyroplane": lambda x, y, c: gyrovector.gyroplane(x, point=y, normal=NORMAL.to(x), c=c),
}
NORMAL = torch.tensor([0.3, -1.2, 0.5])
binary = pytest.mark.parametrize("f", BINARY.values(), ids=BINARY.keys())


def vectors(seed: int, *, largest: float, dtype: torch.dtype = torch.float64, n: int = 40, d: int = 3) -> Tensor:
    """Vectors of random direction whose lengths go from tiny to the largest; the first is 0."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(n, d, generator=generator, dtype=torch.float64)
    length = torch.cat([torch.tensor([1e-12, 1e-6, 1e-3]), torch.linspace(0.05, 1.0, n - 4)]) * largest
    length = torch.cat([torch.zeros(1), length[torch.randperm(n - 1, generator=generator)]])
    return (direction / direction.norm(dim=-1, keepdim=True) * length[:, None]).to(dtype)


def points(seed: int, *, c: float, largest: float = 3.0, dtype: torch.dtype = torch.float64, n: int = 40) -> Tensor:
    """Points whose distance to the origin goes up to largest/√c, or to largest at c < 1."""
    t = vectors(seed, largest=largest / math.sqrt(max(c, 1.0)), n=n)
    return gyrovector.exp0(t / 2, c=c).to(dtype)


def assert_points_close(got: Tensor, expected: Tensor | np.ndarray, tolerance: float) -> None:
    """In norm, relative to the norm of each point."""
    if isinstance(expected, np.ndarray):
        expected = torch.from_numpy(oracle.floats(expected))
    got, expected = torch.broadcast_tensors(got.double(), expected.double())
    excess = (got - expected).norm(dim=-1) - tolerance * expected.norm(dim=-1)
    worst = int(excess.argmax())
    assert (excess <= 0).all(), f"at {worst}: got {got[worst].tolist()}, expected {expected[worst].tolist()}"


def assert_scalars_close(got: Tensor, expected: Tensor | np.ndarray, tolerance: float, floor: float = 0.0) -> None:
    if isinstance(expected, np.ndarray):
        expected = torch.from_numpy(oracle.floats(expected))
    torch.testing.assert_close(got.double(), expected.double(), rtol=tolerance, atol=floor)
