"""Gyroplane layer: signed distances to learned hyperplanes of the ball, at the price of one matrix product.

The gyroplane layer as one autograd function: one matrix product, one asinh, gradients by hand.

With Y = H Wᵀ, H = (cosh a, sinhc(a) z), a = √c|z|, and W = (b sinhc(x), w cosh(x)), x = √c ρ, ρ = b/ℓ, ℓ = |w|,

    f = asinh(κY)/κ,   κ = √c/ℓ.

Rows are taken some at a time, so that the elementwise work runs in cache. H and W are made in float64: they are small.

A hyperplane with x beyond reach, as a short w makes it, is put at reach; there sinh and cosh are exponentials, and f
goes on with slope ±1 in b: what |b| exceeds it by is added with the sign of the side.

The gyroplane layer on a CPU, for points and hyperplanes within reach and a fixed c: the hot path of a decoder.

Lengths are first multiplied by √c. With a = |z|, ℓ = |w|, x = b/ℓ,

    y = H W,   H = (cosh a, z sinh(a)/a),   W = (sinh x, w cosh(x)/ℓ),   f = asinh(y)·ℓ/√c.

At a batch of some hundred points the time goes into starting operations, not into numbers. NumPy starts one in a third
of torch's time, so that H, W and what gradients make of them are NumPy's, in float64, with points and hyperplanes
along the last axis, where a number for each of them meets all coordinates at once. The large arrays, f and those of
its shape, are torch's, some rows at a time so that they stay in cache.

The gyroplane layer for devices where starting a kernel is what costs: few operations, and none that is waited for.

Points and offsets are multiplied by √c and f is divided by it, so that all is done on the ball of c = 1. With the unit
normal ŵ = w/ℓ, x = b/ℓ and a = |z|,

    f = ℓ asinh(y),    y = cosh a sinh x + sinhc(a) cosh x ⟨z, ŵ⟩.

A point or hyperplane beyond `REACH` is put there. f goes on with slope ±1 from it: what a and |x| exceed it by is added
to asinh(y), with its sign. In gradients sinh and cosh of reach stand for those beyond it, whose quotient is the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from horoball.geometry.autograd import differentiated_by
from horoball.geometry.ball import PoincareBall
from horoball.geometry.curvature import Curvature, load, positive_root, root, save, widened
from horoball.geometry.fused_exponential import is_fused
from horoball.geometry.kernels import (
    asinhc,
    columns,
    coth_excess,
    dots,
    looks_ahead,
    may_hold,
    polynomial,
    sinhc,
    transformed,
    wide,
)
from horoball.nn.mlp import linear

__all__ = [
    "REACH",
    "SHORTEST",
    "Gyroplane",
    "chunks",
    "fused_gyroplane",
    "gyroplane",
    "near_gyroplane",
    "plain_gyroplane",
]

# √c·radius up to which (y = κY)² does not overflow for a point and a hyperplane that are both this far out
REACH = {torch.float64: 170.0, torch.float32: 21.0}
_CHUNK = 1 << 16  # elements of output at a time: three buffers of float32 stay in a core's cache
_TINY = 1e-30  # floor of √c·radius: sinh(a)/a is 1 there
_FLOOR = 1e-15  # of κ: asinh(κY)/κ is Y to rounding there
SHORTEST = 1e-25  # floor of ℓ: a hyperplane without a normal is a constant, b
_SERIES = [(-1) ** k * math.comb(2 * k, k) / 4**k * k / (2 * k + 1) for k in range(1, 18)]  # of d(asinh√u/√u)/du


def gyroplane(z: Tensor, weight: Tensor, bias: Tensor, c: Curvature) -> Tensor | None:
    """f for points (*batch, d), normals (out, d) and offsets (out,), shape (*batch, out) [eq:gyroplane].

    None when it is seen that a point lies beyond `REACH`; `Gyroplane` takes care of such points.

    Example:
        >>> gyroplane(torch.tensor([3.0, 0.0]), torch.tensor([[1.0, 0.0]]), torch.zeros(1), 1.0)
        tensor([3.])
    """
    if transformed():
        return plain_gyroplane(z, weight, bias, c)
    f = _Gyroplane.apply(z.reshape(-1, z.shape[-1]), weight, bias, c)
    return None if f is None else f.reshape(*z.shape[:-1], weight.shape[0])


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


class _Planes(NamedTuple):
    """The hyperplanes in float64, shape (out, d) and (out,)."""

    w: Tensor
    b: Tensor
    length: Tensor
    rho: Tensor  # within reach
    cosh: Tensor
    sinhc: Tensor
    far: Tensor  # whether they were put at reach


def _cosh_sinhc(a: Tensor) -> tuple[Tensor, Tensor]:
    return a.cosh(), a.sinh().div_(a)


def _planes(w: Tensor, b: Tensor, root: Any, reach: float) -> tuple[_Planes, Tensor]:
    """The hyperplanes, and by how much |b| is beyond reach."""
    w, b = wide(w), wide(b)
    length = torch.linalg.vector_norm(w, dim=-1).clamp_min_(SHORTEST)
    rho = b / length
    x = rho.abs().mul_(root).clamp_min_(_TINY)
    far = x > reach
    excess = length.new_zeros(())
    if may_hold(far):
        inside = rho * (reach / x).clamp_max(1.0)
        excess, rho = (rho - inside).abs() * length, inside
        x = x.clamp_max(reach)
    return _Planes(w, b, length, rho, *_cosh_sinhc(x), far), excess


class _Gyroplane(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, w: Tensor, b: Tensor, c: Curvature) -> Tensor | None:
        kind, reach, root = z.dtype, REACH[z.dtype], positive_root(c)
        x = wide(z)
        a = torch.linalg.vector_norm(x, dim=-1, keepdim=True).mul_(root).clamp_min_(_TINY)
        if looks_ahead(a) and may_hold(a > reach * (1 + 1e-6)):
            return None
        cosh, sinhc = _cosh_sinhc(a)
        H = torch.cat((cosh, sinhc * x), -1).to(kind)
        planes, excess = _planes(w, b, root, reach)
        W0 = (planes.length * planes.rho).mul_(planes.sinhc)
        W = torch.cat((W0.unsqueeze(-1), planes.cosh.unsqueeze(-1) * planes.w), -1).to(kind)
        kappa = (root / planes.length).clamp_min_(_FLOOR).to(kind)
        f = z.new_empty(z.shape[0], w.shape[0])
        _asinh_product(H, (W * kappa.unsqueeze(-1)).mT, kappa, excess.to(kind), f)
        save(ctx, c, z, w, b, H, W, kappa, f, x, a, cosh, sinhc, *planes)
        return f

    @staticmethod
    @differentiated_by(plain_gyroplane)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        _, _, _, H, W, kappa, f, *_ = ctx.saved_tensors
        scaled = (W * kappa.unsqueeze(-1)).mT
        # The gradient of W is gathered transposed: that product is four times faster.
        G_H, G_Wt = torch.empty_like(H), W.new_zeros(W.shape[::-1])
        sum_gf, rate = torch.zeros_like(kappa), wide(torch.zeros_like(kappa))
        one = kappa.new_ones(())
        for part, y, slope in chunks(f):
            rows, g = H[part], grad[part]
            torch.mm(rows, scaled, out=y)
            torch.addcmul(one, y, y, out=slope).sqrt_()
            if ctx.needs_input_grad[3]:
                rate += (g * _rate_in_c(y, slope, f[part], wide(kappa))).sum(0)
            torch.div(g, slope, out=slope)
            torch.mm(slope, W, out=G_H[part])
            G_Wt.addmm_(rows.mT, slope)
            sum_gf += torch.mul(g, f[part], out=y).sum(0)
        return _to_inputs(ctx, grad, wide(G_H), wide(G_Wt), wide(sum_gf), rate)


def _asinh_product(H: Tensor, scaled: Tensor, kappa: Tensor, excess: Tensor, f: Tensor) -> None:
    """f = asinh(y)/κ ± excess with y = H·scaled, in place.

    log(|y| + √(1 + y²)) takes half the passes of the log1p form and errs by a rounding of 1, not of y: in float32 and
    for 1/κ = |w|/√c up to 16 that is no more than the matrix product errs by already.
    """
    one = kappa.new_ones(())
    per_kappa = 1 / kappa
    brief = f.dtype == torch.float32 and not may_hold(per_kappa > 16)
    for part, size, work in chunks(f):
        y = torch.mm(H[part], scaled, out=f[part])
        if brief:
            torch.addcmul(one, y, y, out=size).sqrt_()
            size.add_(torch.abs(y, out=work)).log_()
        else:
            torch.addcmul(one, y, y, out=work).sqrt_().add_(one)
            torch.div(y, work, out=work)
            torch.abs(y, out=size).addcmul_(y, work).log1p_()
        y.sign_().mul_(torch.addcmul(excess, size, per_kappa, out=size))


def _to_inputs(
    ctx: Any, grad: Tensor, G_H: Tensor, G_Wt: Tensor, sum_gf: Tensor, rate: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """From the gradients in H, Wᵀ and κ to those in the points, the hyperplanes and c."""
    c, (_, _, _, _, W, _, f, x, a, cosh, sinhc, *rest) = load(ctx)
    planes, curvature = _Planes(*rest), widened(c)
    kind, by_c = grad.dtype, ctx.needs_input_grad[3]
    # Points: ∂cosh a/∂z = c sinhc(a) z and ∂sinhc(a)/∂z = c k z, k = (cosh a − sinhc a)/a²
    square = a * a
    # The quotient errs for small a, which only ∂/∂c sees: elsewhere a² multiplies it.
    k = sinhc * coth_excess(square) if by_c or square.dtype != torch.float64 else (cosh - sinhc).div_(square)
    pull = torch.addcmul(sinhc * G_H[:, :1], k, (G_H[:, 1:] * x).sum(-1, keepdim=True))
    grad_z = (sinhc * G_H[:, 1:]).addcmul_(curvature * pull, x)
    # Hyperplanes: ∂/∂b through x; ∂/∂ℓ by Euler's rule, f being homogeneous in (w, b)
    length, rho, wt = planes.length, planes.rho, planes.w.mT
    along = (G_Wt[1:] * wt).sum(0)
    lever = (planes.sinhc * rho).div_(length).mul_(curvature)  # κ sinh x
    grad_b = torch.addcmul(G_Wt[0] * planes.cosh, lever, along)
    by_side = None
    if may_hold(planes.far):
        by_side = _sum_by_side(grad, f, planes.far)
        grad_b = torch.where(planes.far, by_side * rho.sign(), grad_b)
    by_length = torch.addcmul(sum_gf, planes.cosh, along, value=-1).addcmul_(planes.b, grad_b, value=-1)
    grad_wt = (G_Wt[1:] * planes.cosh).addcmul_(wt, by_length.div_(length).div_(length))
    grad_c = None
    if by_c and isinstance(c, Tensor):
        x2 = rho * rho * curvature
        from_planes = rho * rho * (planes.sinhc * along + planes.sinhc * coth_excess(x2) * G_Wt[0] * length * rho)
        if by_side is not None:
            far = (planes.b.abs() * by_side - G_Wt[0] * wide(W)[:, 0]) / curvature.clamp_min(1e-300)
            from_planes = torch.where(planes.far, far, from_planes)
        of_points = ((x * x).sum(-1, keepdim=True) * pull).sum()
        total = (of_points + from_planes.sum()) / 2 + (rate / length.square()).sum()
        grad_c = total.to(c.dtype).reshape(c.shape)
    return grad_z.to(kind), grad_wt.to(kind).mT, grad_b.to(kind), grad_c


def _sum_by_side(grad: Tensor, f: Tensor, far: Tensor) -> Tensor:
    """Σ ±g over the points on either side of each hyperplane that is far."""
    if not looks_ahead(grad):
        return wide((grad * f.sign()).sum(0))
    total = wide(f.new_zeros(f.shape[1]))
    total[far] = wide((grad[:, far] * f[:, far].sign()).sum(0))  # few are
    return total


def _rate_in_c(y: Tensor, slope: Tensor, f: Tensor, kappa: Tensor) -> Tensor:
    """∂f/∂κ² = (Y/√(1 + y²) − f)/2κ², y = κY; by its series Y³·(…) for small y, which holds at c = 0 too."""
    y, f = wide(y), wide(f)
    square = y * y
    near = square < 0.1
    direct = (y / (kappa * wide(slope)) - f) / (2 * kappa * kappa)
    series = (y / kappa).pow(3) * polynomial(_SERIES, torch.where(near, square, 0.0))
    return torch.where(near, series, direct)


def chunks(f: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Rows of f, as many at a time as fit the cache, and the same working memory for each: two buffers of their shape.

    Allocating it anew would cost more than using it.

    Example:
        >>> [(part, one.shape) for part, one, two in chunks(torch.zeros(3, 2))]
        [(slice(0, 3, None), torch.Size([3, 2]))]
    """
    if torch.compiler.is_compiling():  # all rows, however many: a loop would fix their number
        yield slice(None), torch.empty_like(f), torch.empty_like(f)
        return
    pieces = max(1, round(f.numel() / _CHUNK))
    size = max(1, -(-f.shape[0] // pieces))
    one, two = f.new_empty(size, f.shape[1]), f.new_empty(size, f.shape[1])
    for start in range(0, f.shape[0], size):
        count = min(size, f.shape[0] - start)
        yield slice(start, start + count), one[:count], two[:count]


_LONGEST = 16  # |w|/√c up to which the short formula of asinh errs by no more than the matrix product does
_KEPT = 1 << 18  # elements of output up to which √(1 + y²) is kept for the gradients: beyond, it is cheaper made anew


def near_gyroplane(z: Tensor, weight: Tensor, bias: Tensor, c: Curvature) -> Tensor | None:
    """f for points (*batch, d), normals (out, d) and offsets (out,), or None when they are not for this way.

    Example:
        >>> near_gyroplane(torch.tensor([3.0, 0.0]), torch.tensor([[1.0, 0.0]]), torch.zeros(1), 1.0)
        tensor([3.])
        >>> near_gyroplane(torch.tensor([99.0, 0.0]), torch.tensor([[1.0, 0.0]]), torch.zeros(1), 1.0) is None
        True
    """
    if isinstance(c, Tensor) or c == 0 or not looks_ahead(z) or not z.numel():
        return None
    f, near = _NearGyroplane.apply(z.reshape(-1, z.shape[-1]), weight, bias, c)
    return f.reshape(*z.shape[:-1], weight.shape[0]) if near else None


class _NearGyroplane(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, w: Tensor, b: Tensor, c: float) -> tuple[Tensor, bool]:
        s, reach, kind = math.sqrt(c), REACH[z.dtype], np.float64 if z.dtype == torch.float64 else np.float32
        p, n = columns(z), columns(w)
        p *= s
        a, length = np.sqrt(dots(p, p)), np.sqrt(dots(n, n))
        x = np.multiply(b.detach().numpy(), s, dtype=np.float64)
        np.maximum(length, SHORTEST, out=length)
        x /= length
        if not (a.max() <= reach and -reach <= x.min() and x.max() <= reach):
            return z, False
        np.maximum(a, _TINY, out=a)
        cosh, sinhc = np.cosh(a), np.sinh(a)
        sinhc /= a
        H, W = np.empty((len(p) + 1, len(a)), kind), np.empty((len(p) + 1, len(x)), kind)
        H[0] = cosh
        np.multiply(p, sinhc, out=H[1:], casting="same_kind")
        sinh_x, slant = np.sinh(x), np.cosh(x)
        slant /= length
        W[0] = sinh_x
        np.multiply(n, slant, out=W[1:], casting="same_kind")
        scale = length / s
        f = z.new_empty(len(a), len(x))
        root = torch.empty_like(f) if f.numel() <= _KEPT else None
        _near_asinh_product(torch.from_numpy(H.T), torch.from_numpy(W), scale, f, root)
        save(ctx, c, z, w, b, f)
        ctx.made = p, n, a, length, x, cosh, sinhc, sinh_x, slant, scale, H, W, root
        return f, True

    @staticmethod
    @differentiated_by(plain_gyroplane)
    def backward(ctx: Any, grad: Tensor, near: None) -> tuple[Tensor | None, ...]:
        c, (*_, f) = load(ctx)
        p, n, a, length, x, cosh, sinhc, sinh_x, slant, scale, H, W, root = ctx.made
        s, kind = math.sqrt(c), H.dtype
        G_H, G_W, sum_gf = _through_asinh(grad, f, root, H, W, scale)
        # Points: ∂cosh a/∂z = sinhc(a) z, ∂sinhc(a)/∂z = (cosh a − sinhc a)/a² z
        to_p = G_H[1:]
        pull = (cosh - sinhc) / (a * a) * dots(to_p, p) + sinhc * G_H[0]
        of_p = to_p * (sinhc * s) + p * (pull * s)
        # Hyperplanes: W is (sinh x, w cosh(x)/ℓ) with x = b/ℓ; and f is a multiple of ℓ
        to_n = G_W[1:]
        along = dots(to_n, n)
        of_x = G_W[0] * (slant * length) + along / length * sinh_x
        of_length = (sum_gf - along * slant - of_x * x) / (length * length)
        of_n = to_n * slant
        of_n += n * of_length
        of_x *= s / length
        grads = (np.ascontiguousarray(part.T, kind) for part in (of_p, of_n))
        return *map(torch.from_numpy, grads), torch.from_numpy(of_x.astype(kind)), None


def _near_asinh_product(H: Tensor, W: Tensor, scale: np.ndarray, f: Tensor, root: Tensor | None) -> None:
    """f = asinh(y)·scale with y = H W, in place, and √(1 + y²) if there is room for it.

    log(|y| + √(1 + y²)) takes half the passes of the log1p form and errs by a rounding of 1, not of y: in float32 and
    for |w|/√c up to 16 that is no more than the matrix product errs by already.
    """
    one, factor = f.new_ones(()), torch.from_numpy(scale).to(f.dtype)
    brief = f.dtype == torch.float32 and scale.max() <= _LONGEST
    for part, size, work in chunks(f):
        y = torch.mm(H[part], W, out=f[part])
        slope = torch.addcmul(one, y, y, out=work if root is None else root[part]).sqrt_()
        torch.abs(y, out=size)
        if brief:
            size.add_(slope).log_()
        else:
            size.addcmul_(y, torch.div(y, slope + one)).log1p_()
        y.sign_().mul_(size.mul_(factor))


def _through_asinh(
    grad: Tensor, f: Tensor, root: Tensor | None, H: np.ndarray, W: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From the gradient in f to those in H, W, and Σ gf for that in the scale, in float64."""
    rows, planes = torch.from_numpy(H), torch.from_numpy(W)
    scaled = torch.from_numpy((W * scale).astype(W.dtype))
    G_H, G_W, sum_gf = torch.empty_like(rows), torch.zeros_like(planes), f.new_zeros(f.shape[1])
    one = f.new_ones(())
    for part, slope, work in chunks(f):
        g = grad[part]
        if root is None:
            y = torch.mm(rows[:, part].mT, planes, out=slope)
            torch.div(g, torch.addcmul(one, y, y, out=work).sqrt_(), out=slope)
        else:
            torch.div(g, root[part], out=slope)
        torch.mm(scaled, slope.mT, out=G_H[:, part])
        G_W.addmm_(rows[:, part], slope)
        sum_gf += torch.mul(g, f[part], out=work).sum(0)
    by_W = G_W.numpy() * scale
    return G_H.numpy().astype(np.float64), by_W, sum_gf.numpy().astype(np.float64)


def fused_gyroplane(z: Tensor, weight: Tensor, bias: Tensor, c: Curvature) -> Tensor:
    """f for points (*batch, d), normals (out, d) and offsets (out,), shape (*batch, out) [eq:gyroplane].

    Example:
        >>> fused_gyroplane(torch.tensor([3.0, 0.0]), torch.tensor([[1.0, 0.0]]), torch.zeros(1), 1.0)
        tensor([3.])
    """
    f = _FusedGyroplane.apply(z.reshape(-1, z.shape[-1]), weight, bias, c)
    return f.reshape(*z.shape[:-1], weight.shape[0])


class _FusedGyroplane(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, w: Tensor, b: Tensor, c: Curvature) -> Tensor:
        s, kind, reach = root(c), z.dtype, REACH[z.dtype]
        p, n = wide(z) * s, wide(w)
        a = torch.linalg.vector_norm(p, dim=-1, keepdim=True).clamp_min_(_TINY)
        inside = a.clamp_max(reach)
        cosh, sinhc = inside.cosh(), inside.sinh().div_(a)
        H = torch.cat((cosh, p * sinhc), -1).to(kind)
        length = torch.linalg.vector_norm(n, dim=-1).clamp_min_(SHORTEST)
        x = (wide(b) * s).div_(length)
        near = x.clamp(-reach, reach)
        sinh_x, cosh_x = near.sinh(), near.cosh()
        slant = cosh_x / length
        W = torch.cat((sinh_x.unsqueeze(-1), slant.unsqueeze(-1) * n), -1).to(kind)
        scale = (length / s).to(kind)
        y = H @ W.mT
        beyond = ((a - inside) + (x - near).abs_()).to(kind)
        f = y.asinh().addcmul_(y.sign(), beyond).mul_(scale)
        save(ctx, c, z, w, b, p, n, a, cosh, sinhc, H, length, x, sinh_x, cosh_x, slant, W, scale, y, f)
        return f

    @staticmethod
    @differentiated_by(plain_gyroplane)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, (_z, _w, _b, p, n, a, cosh, sinhc, H, length, x, sinh_x, cosh_x, slant, W, scale, y, f) = load(ctx)
        s = root(c)
        slope = (y * y).add_(1).rsqrt_().mul_(grad).mul_(scale)
        G_H, G_W = wide(slope @ W), wide(slope.mT @ H)
        # Points: ∂cosh a/∂z = sinhc(a) z, ∂sinhc(a)/∂z = (cosh a − sinhc a)/a² z
        to_p = G_H[:, 1:]
        pull = (cosh - sinhc).div_(a).div_(a).mul_((to_p * p).sum(-1, keepdim=True)).addcmul_(sinhc, G_H[:, :1])
        of_p = (to_p * sinhc).addcmul_(p, pull)
        # Hyperplanes: W is (sinh x, ŵ cosh x) with x = b/ℓ; and f is a multiple of ℓ
        to_n = G_W[:, 1:]
        along = (to_n * n).sum(-1)
        of_x = (G_W[:, 0] * cosh_x).addcmul_(along / length, sinh_x)
        of_f = wide((grad * f).sum(0))
        of_length = torch.addcmul(of_f, along, slant, value=-1).addcmul_(of_x, x, value=-1)
        of_length.div_(length).div_(length)
        grad_w = (to_n * slant.unsqueeze(-1)).addcmul_(n, of_length.unsqueeze(-1)).to(grad.dtype)
        grad_c = None
        if ctx.needs_input_grad[3]:  # through √c, by which z and b were multiplied and f divided
            total = (of_p * p).sum() + torch.addcmul(-of_f, of_x, x).sum()
            grad_c = total.div_(2 * wide(c)).to(c.dtype).reshape(c.shape)
        return of_p.mul_(s).to(grad.dtype), grad_w, of_x.mul_(s).div_(length).to(grad.dtype), grad_c


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
