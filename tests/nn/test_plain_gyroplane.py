"""The gyroplane layer next to mpmath and to the plain formula in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from horoball.nn import gyroplane as module
from horoball.nn.gyroplane import gyroplane, plain_gyroplane
from tests import oracle


def drawn(d: int, radius: float, length: float, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points, normals, offsets and a gradient."""
    generator = torch.Generator().manual_seed(d)
    z, w = torch.randn(70, d, generator=generator), torch.randn(30, d, generator=generator)
    z = z / z.norm(dim=-1, keepdim=True) * radius * torch.rand(70, 1, generator=generator)
    w = w * length / d**0.5
    b, g = torch.randn(30, generator=generator) * length, torch.randn(70, 30, generator=generator)
    return *(x.to(dtype).requires_grad_() for x in (z, w, b)), g.to(dtype)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("c", [0.05, 1.0, 4.0])
@pytest.mark.parametrize(("radius", "length"), [(0.0, 1.0), (1e-5, 0.3), (1.0, 1.0), (8.0, 0.3), (3.0, 40.0)])
@pytest.mark.parametrize(("dtype", "bar"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_values_and_gradients_are_those_of_the_plain_formula(
    dtype: torch.dtype, bar: float, radius: float, length: float, c: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kept:
        monkeypatch.setattr(module, "_KEPT", 0)
    *inputs, g = drawn(5, radius, length, dtype)
    f = gyroplane(*inputs, c)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    truth = plain_gyroplane(*wide, c)
    assert float((f - truth).detach().abs().max()) <= bar / 5 * max(1.0, float(truth.detach().abs().max()))
    gradients = torch.autograd.grad(f, inputs, g)
    for got, true in zip(gradients, torch.autograd.grad(truth, wide, g.double()), strict=True):
        assert float((got - true).abs().max()) <= bar * max(1.0, float(true.abs().max()))


def test_values_agree_with_mpmath() -> None:
    z, w, b, _ = drawn(3, 6.0, 1.0, torch.float32)
    f = gyroplane(z, w, b, 0.7)
    truth = oracle.gyroplane(*(oracle.array(x.detach().double().numpy()) for x in (z, w, b)), 0.7)
    assert float((f.detach().double() - torch.as_tensor(oracle.floats(truth))).abs().max()) <= 1e-5


def test_second_derivatives_are_those_of_the_plain_formula() -> None:
    z, w, b, _ = drawn(3, 1.0, 1.0, torch.float64)

    def curvature(f: Tensor) -> Tensor:
        (slope,) = torch.autograd.grad(f.sum(), z, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), w)[0]

    f = gyroplane(z, w, b, 1.0)
    assert torch.allclose(curvature(f), curvature(plain_gyroplane(z, w, b, 1.0)), rtol=1e-10)


@pytest.mark.parametrize("offset", [0.5, 300.0])
def test_far_points_and_hyperplanes_are_the_same_for_torch_func(offset: float) -> None:
    z, w, b, _ = drawn(3, 250.0, 1.0, torch.float64)
    b = b.detach() + offset * w.detach().norm(dim=-1)
    ours, plain = gyroplane(z, w, b, 1.0), torch.func.vmap(lambda point: gyroplane(point, w, b, 1.0))(z)
    torch.testing.assert_close(plain, ours, rtol=1e-12, atol=1e-10)
    slopes = torch.func.grad(lambda point: gyroplane(point, w, b, 1.0).sum())(z)
    torch.testing.assert_close(slopes, torch.autograd.grad(ours.sum(), z)[0], rtol=1e-9, atol=1e-9)
