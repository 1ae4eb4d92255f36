"""Every distribution of the package by its name, for the tests of what they all do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution

from horoball.distributions import HyperbolicRadius, HypersphericalUniform, RiemannianNormal, WrappedNormal
from horoball.geometry import PoincareBall

D = 3
DTYPES = (torch.float64, torch.float32)
NORMALS = ("wrapped isotropic", "wrapped diagonal", "wrapped full", "riemannian")
LAWS = (*NORMALS, "radius", "direction")
Shape = tuple[int, ...]

distributions = pytest.mark.parametrize("name", LAWS)
normals = pytest.mark.parametrize("name", NORMALS)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def parameters(name: str, batch: Shape = (4,), dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)

    def numbers(*shape: int) -> Tensor:
        return torch.rand((*batch, *shape), generator=generator, dtype=torch.float64).to(dtype)

    if name == "direction":
        return {}
    if name == "radius":
        return {"scale": 0.3 + numbers()}
    if name == "wrapped full":
        tril = numbers(D, D).tril(-1) + torch.diag_embed(0.3 + numbers(D))
        return {"loc": numbers(D) - 0.3, "scale_tril": tril}
    return {"loc": numbers(D) - 0.3, "scale": 0.3 + numbers(D if name == "wrapped diagonal" else 1)}


def build(name: str, given: dict[str, Tensor], c: float | Tensor = 0.8, **keywords: object) -> Distribution:
    ball = PoincareBall(c)
    if name == "radius":
        return HyperbolicRadius(D, ball=ball, **given, **keywords)
    return (RiemannianNormal if name == "riemannian" else WrappedNormal)(ball=ball, **given, **keywords)


def make(name: str, batch: Shape = (4,), dtype: torch.dtype = torch.float64, **keywords: object) -> Distribution:
    if name == "direction":
        return HypersphericalUniform(D, batch, dtype=dtype, **keywords)
    return build(name, parameters(name, batch, dtype), **keywords)


def with_gradients(name: str, dtype: torch.dtype = torch.float64, c: float = 0.8) -> tuple[Distribution, list[Tensor]]:
    """A distribution, and its parameters and c as leaves."""
    given = {key: value.requires_grad_() for key, value in parameters(name, dtype=dtype).items()}
    curvature = torch.tensor(c, dtype=dtype, requires_grad=True)
    return build(name, given, curvature), [*given.values(), curvature]
