"""What the property tests are given: curvatures, dimensions, shapes and points, extreme ones among them."""

from __future__ import annotations

import math

import torch
from hypothesis import strategies as st
from torch import Tensor

__all__ = ["curvatures", "dimensions", "directions", "dtypes", "lengths", "points", "shapes"]

dtypes = st.sampled_from([torch.float64, torch.float32])
curvatures = st.one_of(st.sampled_from([1e-8, 0.3, 1.0, 100.0]), st.floats(1e-6, 1e3))
dimensions = st.integers(1, 6)
shapes = st.lists(st.integers(1, 3), max_size=2).map(tuple)


def lengths(largest: float) -> st.SearchStrategy[float]:
    """Lengths √c·|z| of 0 and from 1e-12 to the largest, small ones as often as large."""
    powers = st.floats(-12.0, math.log10(largest)).map(lambda power: 10.0**power)
    return st.one_of(st.just(0.0), powers, st.floats(1e-3, largest))


def directions(d: int) -> st.SearchStrategy[Tensor]:
    """Unit vectors: along the axes, and any."""
    axes = st.integers(0, d - 1).flatmap(
        lambda axis: st.sampled_from([1.0, -1.0]).map(
            lambda sign: sign * torch.nn.functional.one_hot(torch.tensor(axis), d).double()
        )
    )
    return st.one_of(axes, st.integers(0, 2**31).map(lambda seed: _direction(d, seed)))


def _direction(d: int, seed: int) -> Tensor:
    x = torch.randn(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x / x.norm()


@st.composite
def points(draw: st.DrawFn, d: int, c: float, largest: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """A point with √c·d(0, z) up to the largest."""
    return (draw(directions(d)) * draw(lengths(largest)) / math.sqrt(c or 1.0)).to(dtype)
