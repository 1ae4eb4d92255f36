"""Points and comparisons for the tests of the ball in normal coordinates."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests import oracle

DTYPES = (torch.float64, torch.float32)
CURVATURES = (1e-6, 0.1, 1.0, 10.0)
RADII = (1e-6, 1e-3, 0.1, 1.0, 4.0, 16.0, 80.0)  # √c·d(0, z)

# Values are relative to their norm. A "law" passes through points that are rounded to the dtype, 6e-8·sinh 6 in
# float32, relative to 1/√c; a "chart" is a round trip at √cR ≤ 5, where ball coordinates lose e⁵. The
# dist, exp and log of points at every radius are held against mpmath in test_triangle.
TOLERANCE = {
    "value": {torch.float64: 1e-13, torch.float32: 3e-7},
    "law": {torch.float64: 1e-12, torch.float32: 1e-4},
    "chart": {torch.float64: 1e-13, torch.float32: 3e-5},
}

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
curvatures = pytest.mark.parametrize("c", CURVATURES)
curvatures_and_zero = pytest.mark.parametrize("c", [0.0, *CURVATURES])


def vectors(seed: int, lengths: Tensor, *, dtype: torch.dtype = torch.float64) -> Tensor:
    """One vector of random direction per length."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(*lengths.shape, 3, generator=generator, dtype=torch.float64)
    return (direction / direction.norm(dim=-1, keepdim=True) * lengths.unsqueeze(-1)).to(dtype)


def points(seed: int, *, c: float, largest: float = 3.0, dtype: torch.dtype = torch.float64, n: int = 30) -> Tensor:
    """Points up to √cR = largest, in no order of radius; the first is 0."""
    lengths = torch.linspace(0, largest, n, dtype=torch.float64) / math.sqrt(c or 1.0)
    order = torch.randperm(n - 1, generator=torch.Generator().manual_seed(seed)) + 1
    return vectors(seed, torch.cat([lengths[:1], lengths[order]]), dtype=dtype)


def assert_close(got: Tensor, expected: object, tolerance: float, scale: object = 0.0) -> None:
    """In norm along the last axis of vectors, relative to the larger of the expected norm and the scale."""
    expected = torch.as_tensor(oracle.floats(expected)) if not isinstance(expected, Tensor) else expected.double()
    assert got.shape == expected.shape
    error, size = ((x.norm(dim=-1) if x.dim() else x.abs()) for x in (got.detach().double() - expected, expected))
    excess = error - tolerance * torch.maximum(size, torch.as_tensor(scale, dtype=torch.float64))
    assert (excess <= 0).all(), f"off by {float(error.max()):.2g}: got {got.tolist()}, expected {expected.tolist()}"


def one_of_each(z: Tensor) -> dict[str, tuple[Tensor, ...]]:
    """Arguments of every method, from small points z."""
    y, s = z.flip(-1), torch.full(z.shape[:-1], 0.3)
    one, two = ("log_volume", "to_ball", "from_ball", "to_lorentz"), ("dist", "exp", "log")
    return dict.fromkeys(one, (z,)) | dict.fromkeys(two, (z, y)) | {"geodesic": (z, y, s)}
