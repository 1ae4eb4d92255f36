"""Gyroplane layer: signed distances to learned hyperplanes of the ball, at the price of one matrix product.

Points and offsets are multiplied by √c and f is divided by it, so that all is done on the ball of c = 1. With
a = |z|, ℓ = |w| and x = b/ℓ,

    y = H W,   H = (cosh a, z sinh(a)/a),   W = (sinh x, w cosh(x)/ℓ),   f = asinh(y)·ℓ/√c.

H and W are small and made in float64. On a CPU the rest is done some rows at a time, so that it runs in cache.

A point or hyperplane beyond `REACH` is put there. f goes on with slope ±1 from it: what a and |x| exceed it by is added
to asinh(y), with its sign. In gradients sinh and cosh of reach stand for those beyond it, whose quotient is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from horoball.geometry.autograd import differentiated_by
from horoball.geometry.ball import PoincareBall
from horoball.geometry.curvature import Curvature, load, positive_root, root, save, value, widened
from horoball.geometry.kernels import asinhc, looks_ahead, may_hold, sinhc, transformed, wide
from horoball.nn.mlp import linear, reset_linear

# √c·radius up to which y² does not overflow for a point and a hyperplane that are both this far out
REACH = {torch.float64: 170.0, torch.float32: 21.0}
SHORTEST = 1e-25  # floor of ℓ: a hyperplane without a normal is a constant, b
_CHUNK = 1 << 16  # elements of output at a time: three buffers of float32 stay in a core's cache
_KEPT = 1 << 18  # elements of output up to which √(1 + y²) is kept for the gradients: beyond, it is cheaper made anew
_LONGEST = 16  # |w|/√c up to which the short formula of asinh errs by no more than the matrix product does
_TINY = 1e-30  # floor of √c·radius: sinh(a)/a is 1 there
_CURVED = 0.01  # of a learned c: the gradient in it is a difference that loses its digits below


def gyroplane(z: Tensor, weight: Tensor, bias: Tensor, c: Curvature) -> Tensor:
    """f for points (*batch, d), normals (out, d) and offsets (out,), shape (*batch, out) [eq:gyroplane].

    Example:
        >>> gyroplane(torch.tensor([3.0, 0.0]), torch.tensor([[1.0, 0.0]]), torch.zeros(1), 1.0)
        tensor([3.])
    """
    fixed = not isinstance(c, Tensor)
    if transformed() or not (value(c) >= _CURVED if looks_ahead(z) and not fixed else fixed and c > 0):
        return _plain_beyond(z, weight, bias, c)
    return _fast(z, weight, bias, c)


def plain_gyroplane(z: Tensor, weight: Tensor, bias: Tensor, c: Curvature) -> Tensor:
    """The same in even kernels, which autograd and `torch.func` differentiate any number of times.

    Example:
        >>> plain_gyroplane(torch.tensor([3.0, 0.0]), torch.tensor([[1.0, 0.0]]), torch.zeros(1), 1.0)
        tensor([3.])
    """
    x, w, b, curvature = wide(z), wide(weight), wide(bias), widened(c)
    square = (w * w).sum(-1).clamp_min(SHORTEST**2)  # ℓ²
    u, v = curvature * (x * x).sum(-1, keepdim=True), curvature * b * b / square
    cosh_z, cosh_w = (1 + t / 2 * sinhc(t / 4).square() for t in (u, v))
    Y = (sinhc(u) * x) @ (cosh_w.unsqueeze(-1) * w).mT + cosh_z * (b * sinhc(v))
    return (Y * asinhc(curvature * Y * Y / square)).to(z.dtype)


def _plain_beyond(z: Tensor, weight: Tensor, bias: Tensor, c: Curvature) -> Tensor:
    """The plain formula with points and hyperplanes beyond reach put there, and f continued."""
    reach = REACH[z.dtype] / positive_root(c)
    x, w, b = wide(z), wide(weight), wide(bias)
    square = (x * x).sum(-1, keepdim=True)
    far = square > reach * reach
    radius = torch.where(far, square, 1.0).sqrt()  # of near points, whose root has no second derivative at 0, any
    inside = torch.where(far, reach / radius, 1.0) * x
    length = (w * w).sum(-1).clamp_min(SHORTEST**2).sqrt()
    most = reach * length
    held = torch.maximum(torch.minimum(b, most), -most)
    f = plain_gyroplane(inside, w, held, c)
    excess = torch.where(far, radius - reach, 0.0) * length + (b - held).abs()
    return (f + torch.sign(f.detach()) * excess).to(z.dtype)


def _fast(z: Tensor, weight: Tensor, bias: Tensor, c: Curvature) -> Tensor:
    f = _Gyroplane.apply(z.reshape(-1, z.shape[-1]), weight, bias, c)
    return f.reshape(*z.shape[:-1], weight.shape[0])


class _Gyroplane(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, w: Tensor, b: Tensor, c: Curvature) -> Tensor:
        s, kind, reach = root(c), z.dtype, REACH[z.dtype]
        p, n = wide(z) * s, wide(w)
        a = torch.linalg.vector_norm(p, dim=-1, keepdim=True).clamp_min_(_TINY)
        length = torch.linalg.vector_norm(n, dim=-1).clamp_min_(SHORTEST)
        x = (wide(b) * s).div_(length)
        inside, near, beyond = a, x, None
        if not looks_ahead(z) or bool((a > reach).any()) or bool((x.abs() > reach).any()):
            inside, near = a.clamp_max(reach), x.clamp(-reach, reach)
            beyond = (a - inside, (x - near).abs_())
        cosh, sinhc = inside.cosh(), inside.sinh().div_(a)
        sinh_x, cosh_x = near.sinh(), near.cosh()
        slant = cosh_x / length
        H = torch.cat((cosh, p * sinhc), -1).to(kind)
        W = torch.cat((sinh_x.unsqueeze(-1), slant.unsqueeze(-1) * n), -1).to(kind)
        scale = (length / s).to(kind)
        f, rise = _asinh_product(H, W, scale, beyond)
        save(ctx, c, z, w, b, p, n, a, cosh, sinhc, H, length, x, sinh_x, cosh_x, slant, W, scale, f, rise)
        return f

    @staticmethod
    @differentiated_by(_plain_beyond)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, (_z, _w, _b, p, n, a, cosh, sinhc, H, length, x, sinh_x, cosh_x, slant, W, scale, f, rise) = load(ctx)
        s = root(c)
        G_H, G_W, of_f = _through_asinh(grad, f, rise, H, W, scale)
        # Points: ∂cosh a/∂z = sinhc(a) z, ∂sinhc(a)/∂z = (cosh a − sinhc a)/a² z
        to_p = G_H[:, 1:]
        pull = (cosh - sinhc).div_(a).div_(a).mul_((to_p * p).sum(-1, keepdim=True)).addcmul_(sinhc, G_H[:, :1])
        of_p = (to_p * sinhc).addcmul_(p, pull)
        # Hyperplanes: W is (sinh x, ŵ cosh x) with x = b/ℓ; and f is a multiple of ℓ
        to_n = G_W[:, 1:]
        along = (to_n * n).sum(-1)
        of_x = (G_W[:, 0] * cosh_x).addcmul_(along / length, sinh_x)
        of_length = torch.addcmul(of_f, along, slant, value=-1).addcmul_(of_x, x, value=-1)
        of_length.div_(length).div_(length)
        grad_w = (to_n * slant.unsqueeze(-1)).addcmul_(n, of_length.unsqueeze(-1)).to(grad.dtype)
        grad_c = None
        if ctx.needs_input_grad[3]:  # through √c, by which z and b were multiplied and f divided
            total = (of_p * p).sum() + torch.addcmul(-of_f, of_x, x).sum()
            grad_c = total.div_(2 * wide(c)).to(c.dtype).reshape(c.shape)
        return of_p.mul_(s).to(grad.dtype), grad_w, of_x.mul_(s).div_(length).to(grad.dtype), grad_c


def _asinh_product(H: Tensor, W: Tensor, scale: Tensor, beyond: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
    """f = (asinh(y) ± beyond)·scale with y = H Wᵀ, and √(1 + y²) if there is room for it.

    `beyond` is a column of what points exceed reach by, and a row of what hyperplanes do. Their sum is as large as f:
    it is made some rows at a time, and not at all if all points are within reach, as nearly always.

    On a CPU asinh is slow. log(|y| + √(1 + y²)) takes half the passes of the log1p form and errs by a rounding of 1,
    not of y: in float32 and for |w|/√c up to 16 that is no more than the matrix product errs by already.
    """
    if not looks_ahead(H):
        y = H @ W.mT
        f = y.asinh() if beyond is None else y.asinh().addcmul_(y.sign(), (beyond[0] + beyond[1]).to(y.dtype))
        return f.mul_(scale), (y * y).add_(1).sqrt_()
    f, one = H.new_empty(len(H), len(W)), H.new_ones(())
    rise = torch.empty_like(f) if f.numel() <= _KEPT else f.new_empty(0)
    brief = f.dtype == torch.float32 and not may_hold(scale > _LONGEST)
    rows = beyond is not None and bool(beyond[0].any())
    for part, size, work in chunks(f):
        y = torch.mm(H[part], W.mT, out=f[part])
        slope = torch.addcmul(one, y, y, out=rise[part] if len(rise) else work).sqrt_()
        torch.abs(y, out=size)
        if brief:
            size.add_(slope).log_()
        else:
            size.addcmul_(y, torch.div(y, slope + one)).log1p_()
        if beyond is not None:
            size.add_((beyond[0][part] + beyond[1] if rows else beyond[1]).to(f.dtype))
        y.sign_().mul_(size.mul_(scale))
    return f, rise


def _through_asinh(
    grad: Tensor, f: Tensor, rise: Tensor, H: Tensor, W: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """From the gradient in f to those in H, W, and Σ gf for that in the scale, in float64."""
    scaled = W * scale.unsqueeze(-1)
    if not looks_ahead(f):
        slope = grad / rise
        return wide(slope @ scaled), wide(slope.mT @ H).mul_(scale.unsqueeze(-1)), wide((grad * f).sum(0))
    # The gradient of W is gathered transposed: that product is four times faster.
    G_H, G_Wt, of_f, one = torch.empty_like(H), W.new_zeros(W.shape[::-1]), f.new_zeros(f.shape[1]), f.new_ones(())
    for part, slope, work in chunks(f):
        g, rows = grad[part], H[part]
        if len(rise):
            torch.div(g, rise[part], out=slope)
        else:
            y = torch.mm(rows, W.mT, out=slope)
            torch.div(g, torch.addcmul(one, y, y, out=work).sqrt_(), out=slope)
        torch.mm(slope, scaled, out=G_H[part])
        G_Wt.addmm_(rows.mT, slope)
        of_f += torch.mul(g, f[part], out=work).sum(0)
    return wide(G_H), wide(G_Wt).mul_(scale).mT, wide(of_f)


def chunks(f: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Rows of f, as many at a time as fit the cache, and the same working memory for each: two buffers of their shape.

    Allocating it anew would cost more than using it.

    Example:
        >>> [(part, one.shape) for part, one, two in chunks(torch.zeros(3, 2))]
        [(slice(0, 3, None), torch.Size([3, 2]))]
    """
    pieces = max(1, round(f.numel() / _CHUNK))
    size = max(1, -(-f.shape[0] // pieces))
    one, two = f.new_empty(size, f.shape[1]), f.new_empty(size, f.shape[1])
    for start in range(0, f.shape[0], size):
        count = min(size, f.shape[0] - start)
        yield slice(start, start + count), one[:count], two[:count]


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
        device: Where the weights are.
        dtype: Their dtype.

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
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features, self.ball = in_features, out_features, ball.view()
        layer = linear(in_features, out_features, bias, generator=generator, device=device, dtype=dtype)
        self.weight: Tensor = layer.weight
        self.bias: Tensor | None
        self.register_parameter("bias", layer.bias)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights anew, as `torch.nn.Linear` does.

        Example:
            >>> layer = Gyroplane(2, 5, PoincareBall(1.0), device="meta").to_empty(device="cpu")
            >>> layer.reset_parameters(torch.Generator().manual_seed(0))
            >>> bool(layer.weight.abs().max() < 1)
            True
        """
        reset_linear(self.weight, self.bias, generator)

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
        if self.ball.learnable and not looks_ahead(z) and not transformed():  # a softplus is above 0
            return _fast(z, weight, bias, c).to(kind)
        return gyroplane(z, weight, bias, c).to(kind)
