"""The gyroplane layer as one autograd function: one matrix product, one asinh, gradients by hand.

With Y = H Wᵀ, H = (cosh a, sinhc(a) z), a = √c|z|, and W = (b sinhc(x), w cosh(x)), x = √c ρ, ρ = b/ℓ, ℓ = |w|,

    f = asinh(κY)/κ,   κ = √c/ℓ.

Rows are taken some at a time, so that the elementwise work runs in cache. H and W are made in float64: they are small.

A hyperplane with x beyond reach, as a short w makes it, is put at reach; there sinh and cosh are exponentials, and f
goes on with slope ±1 in b: what |b| exceeds it by is added with the sign of the side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from horoball.numerics.autograd import differentiated_by
from horoball.numerics.curvature import Curvature, load, positive_root, save, widened
from horoball.numerics.kernels import asinhc, coth_excess, looks_ahead, may_hold, polynomial, sinhc, transformed, wide

__all__ = ["REACH", "SHORTEST", "chunks", "gyroplane", "plain_gyroplane"]

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
