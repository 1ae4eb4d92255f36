"""Gyroplane layer: signed distances to learned hyperplanes of the ball, at the price of one matrix product."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from horoball.manifolds import PoincareBall
from horoball.manifolds.fused_exponential import is_fused
from horoball.nn.fused_gyroplane import fused_gyroplane
from horoball.nn.gyroplane_function import REACH, gyroplane
from horoball.nn.linear import linear
from horoball.nn.near_gyroplane import near_gyroplane
from horoball.numerics.curvature import Curvature, positive_root
from horoball.numerics.kernels import looks_ahead, wide

__all__ = ["Gyroplane"]


class Gyroplane(nn.Module):
    r"""Signed, scaled distances from points to hyperplanes of the ball [eq:gyroplane].

    Output k of a point z is |w_k|·d(z, H_k), signed, where H_k is the hyperplane with normal w_k at distance b_k/|w_k|
    from the origin. With the hyperboloid's coordinates (h₀, h) of z, a matrix product and an asinh give it,

        f_k(z) = |w_k|/√c · asinh(√c/|w_k| · (⟨w_k, h⟩ cosh(√c ρ_k) + h₀ |w_k| sinh(√c ρ_k)/√c)),    ρ_k = b_k/|w_k|,

    which equals the paper's formula with p_k = exp₀(−ρ_k w_k/|w_k|) and ‖a_k‖_p = |w_k| [errata:14]. For c = 0 it is
    `torch.nn.Linear`, whose parameters and initialization it shares.

    Args:
        in_features: d, the dimension of the ball.
        out_features: Number of hyperplanes.
        ball: The ball.
        bias: Whether the hyperplanes may miss the origin.
        generator: Where the initial weights come from; torch's global generator if not given.

    Example:
        >>> layer = Gyroplane(2, 5, PoincareBall(1.0))
        >>> layer(torch.zeros(3, 2)).shape
        torch.Size([3, 5])
        >>> torch.allclose(layer(torch.zeros(2)), layer.bias, atol=1e-6)  # at the origin it is the bias
        True
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        ball: PoincareBall,
        bias: bool = True,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features, self.ball = in_features, out_features, ball.view()
        layer = linear(in_features, out_features, bias, generator=generator)
        self.weight: Tensor = layer.weight
        self.bias: Tensor | None
        self.register_parameter("bias", layer.bias)

    def extra_repr(self) -> str:
        """The part of repr between parentheses."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"

    def forward(self, z: Tensor) -> Tensor:
        """Signed distances of points of shape (*batch, in_features), shape (*batch, out_features)."""
        if z.dim() == 0 or z.shape[-1] != self.in_features:
            raise ValueError(
                f"Gyroplane({self.in_features}, {self.out_features}) expects points of shape "
                f"(*, {self.in_features}), got {tuple(z.shape)}."
            )
        if self.ball.is_euclidean:
            return nn.functional.linear(z, self.weight, self.bias)
        c, weight = self.ball.c, self.weight
        bias = self.bias if self.bias is not None else weight.new_zeros(self.out_features)
        kind = torch.promote_types(z.dtype, weight.dtype)
        work = kind if kind in REACH else torch.float32  # half precision has no digits to spare, nor have its products
        z, weight, bias = z.to(work), weight.to(work), bias.to(work)
        if is_fused(z, self.ball, in_float64=False, compiled=True):
            return fused_gyroplane(z, weight, bias, c).to(kind)
        # A CPU is asked whether a point is far out; other devices are not waited for.
        f = near_gyroplane(z, weight, bias, c)
        if f is None and looks_ahead(z):
            f = gyroplane(z, weight, bias, c)
        return (self._with_far_points(z, weight, bias, c) if f is None else f).to(kind)

    @staticmethod
    def _with_far_points(z: Tensor, weight: Tensor, bias: Tensor, c: Curvature) -> Tensor:
        """Points beyond reach are put there; f goes on with slope ±|w| along the ray to them."""
        reach = REACH[z.dtype] / positive_root(c)
        radius = torch.linalg.vector_norm(wide(z), dim=-1, keepdim=True)
        inside = z * (reach / torch.maximum(radius, reach + 0 * radius)).to(z.dtype)
        f = cast(Tensor, gyroplane(inside, weight, bias, c))
        excess = (radius - reach).relu() * torch.linalg.vector_norm(wide(weight), dim=-1)
        return f + (torch.sign(f.detach()) * excess).to(f.dtype)
