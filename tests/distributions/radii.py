"""Settings of the radius distribution for its tests: dimensions, and curvatures in units of the scale."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from horoball.distributions import HyperbolicRadius
from horoball.geometry import PoincareBall

DTYPES = (torch.float64, torch.float32)
SIGMA = 0.75  # a float32, as is every c below: both dtypes have the same truth
ROOTS = (1e-4, 1e-2, 0.3, 1.0, 3.0, 30.0)  # √c·σ
DIMENSIONS = (2, 3, 5, 20, 100, 1024)

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
dimensions = pytest.mark.parametrize("d", DIMENSIONS)


def curvature(root: float) -> float:
    return torch.tensor((root / SIGMA) ** 2, dtype=torch.float32).item()


def law_of(d: int, root: float, dtype: torch.dtype) -> tuple[HyperbolicRadius, Tensor, Tensor]:
    sigma = torch.tensor(SIGMA, dtype=dtype, requires_grad=True)
    c = torch.tensor(curvature(root), dtype=dtype, requires_grad=True)
    return HyperbolicRadius(d, sigma, PoincareBall(c)), sigma, c
