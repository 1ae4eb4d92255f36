"""The gyroplane layer as one autograd function: one matrix product, one asinh, gradients by hand.

With Y = H Wᵀ, H = (cosh a, sinhc(a) z), a = √c|z|, and W = (b sinhc(x), w cosh(x)), x = √c ρ, ρ = b/ℓ, ℓ = |w|,

    f = asinh(κY)/κ,   κ = √c/ℓ.

Rows are taken some at a time, so that the elementwise work runs in cache. H and W are made in float64: they are small.

A hyperplane with x beyond reach, as a short w makes it, is put at reach; there sinh and cosh are exponentials, and f
goes on with slope ±1 in b: what |b| exceeds it by is added with the sign of the side.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from horoball.autograd import first_order
from horoball.manifolds import Curvature
from horoball.numerics import coth_excess, may_hold, polynomial, wide

__all__ = ["REACH", "SHORTEST", "gyroplane", "positive_root"]

# √c·radius up to which (y = κY)² does not overflow for a point and a hyperplane that are both this far out
REACH = {torch.float64: 170.0, torch.float32: 21.0}
_CHUNK = 1 << 16  # elements of output at a time: three buffers of float32 stay in a core's cache
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
    f = _Gyroplane.apply(z.reshape(-1, z.shape[-1]), weight, bias, c)
    return None if f is None else f.reshape(*z.shape[:-1], weight.shape[0])


def positive_root(c: Curvature) -> Any:
    """√c, and 1e-150 for c = 0, where it divides nothing but zeros; without the infinite slope of √ at 0.

    Example:
        >>> positive_root(4.0)
        2.0
    """
    if not isinstance(c, Tensor):
        return max(math.sqrt(c), 1e-150)
    c = wide(c)
    return torch.where(c > 0, c, 1.0).sqrt() * torch.where(c > 0, 1.0, 1e-150)


def _cosh_sinhc(R: Tensor, c: Curvature) -> tuple[Tensor, Tensor]:
    """cosh(√cR) and sinh(√cR)/(√cR)."""
    a = ((wide(c).sqrt() if isinstance(c, Tensor) else math.sqrt(c)) * R).clamp_min(1e-30)  # sinh(a)/a is 1 there
    return torch.cosh(a), torch.sinh(a) / a


class _Points(NamedTuple):
    """The points in float64: a vector and three columns."""

    x: Tensor
    R: Tensor
    cosh: Tensor
    sinhc: Tensor


class _Planes(NamedTuple):
    """The hyperplanes in float64, shape (out, d) and (out,)."""

    w: Tensor
    length: Tensor
    rho: Tensor  # within reach
    cosh: Tensor
    sinhc: Tensor
    far: Tensor  # whether they were put at reach
    excess: Tensor  # |b| beyond reach


def _planes(w: Tensor, b: Tensor, c: Curvature, reach: float) -> _Planes:
    w, b = wide(w), wide(b)
    length = torch.linalg.vector_norm(w, dim=-1).clamp_min(SHORTEST)
    rho = b / length
    limit = reach / positive_root(c)
    distance = rho.abs()
    far = distance > limit
    excess = length.new_zeros(())
    if may_hold(far):
        excess = (distance - limit).clamp_min(0.0) * length
        rho = torch.minimum(torch.maximum(rho, -limit + 0 * rho), limit + 0 * rho)
        distance = rho.abs()
    return _Planes(w, length, rho, *_cosh_sinhc(distance, c), far, excess)


class _Gyroplane(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, w: Tensor, b: Tensor, c: Curvature) -> Tensor | None:
        kind, reach = z.dtype, REACH[z.dtype]
        x = wide(z)
        R = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        if not torch.compiler.is_compiling() and may_hold(reach * (1 + 1e-6) / positive_root(c) < R):
            return None
        points, planes = _Points(x, R, *_cosh_sinhc(R, c)), _planes(w, b, c, reach)
        H = torch.cat((points.cosh, points.sinhc * x), -1).to(kind)
        W0 = planes.length * planes.rho * planes.sinhc
        W = torch.cat((W0.unsqueeze(-1), planes.cosh.unsqueeze(-1) * planes.w), -1).to(kind)
        root = wide(c).sqrt() if isinstance(c, Tensor) else math.sqrt(c)
        kappa = (root / planes.length).clamp_min(_FLOOR).to(kind)
        f = z.new_empty(z.shape[0], w.shape[0])
        _asinh_product(H, (W * kappa.unsqueeze(-1)).mT, kappa, planes.excess.to(kind), f)
        ctx.c = None if isinstance(c, Tensor) else c
        ctx.save_for_backward(z, w, b, H, W, kappa, f, *points, *planes, *((c,) if isinstance(c, Tensor) else ()))
        return f

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        _, w, _, H, W, kappa, f, *_ = ctx.saved_tensors
        scaled = (W * kappa.unsqueeze(-1)).mT
        # The gradient of W is gathered transposed: that product is four times faster.
        G_H, G_Wt = torch.empty_like(H), W.new_zeros(W.shape[::-1])
        sum_gf, sum_rate = torch.zeros_like(kappa), wide(torch.zeros_like(kappa))
        one = kappa.new_ones(())
        for rows, g, out, g_rows, y, slope in zip(
            *(_chunks(x, w) for x in (H, grad, f, G_H)), *_buffers(f, 2), strict=True
        ):
            torch.mm(rows, scaled, out=y)
            torch.addcmul(one, y, y, out=slope).sqrt_()
            if ctx.needs_input_grad[3]:
                sum_rate += (g * _rate_in_c(y, slope, out, wide(kappa))).sum(0)
            torch.div(g, slope, out=slope)
            torch.mm(slope, W, out=g_rows)
            G_Wt.addmm_(rows.mT, slope)
            sum_gf += torch.mul(g, out, out=y).sum(0)
        return _to_inputs(ctx, grad, wide(G_H), wide(G_Wt.mT), wide(sum_gf), sum_rate)


def _asinh_product(H: Tensor, scaled: Tensor, kappa: Tensor, excess: Tensor, f: Tensor) -> None:
    """f = asinh(y)/κ ± excess with y = H·scaled, in place.

    log(|y| + √(1 + y²)) takes half the passes of the log1p form and errs by a rounding of 1, not of y: in float32 and
    for 1/κ = |w|/√c up to 16 that is no more than the matrix product errs by already.
    """
    one = kappa.new_ones(())
    per_kappa = 1 / kappa
    brief = f.dtype == torch.float32 and not may_hold(kappa < 1 / 16)
    for rows, y, size, work in zip(_chunks(H, scaled.mT), _chunks(f, scaled.mT), *_buffers(f, 2), strict=True):
        torch.mm(rows, scaled, out=y)
        if brief:
            torch.addcmul(one, y, y, out=size).sqrt_()
            size.add_(torch.abs(y, out=work)).log_()
        else:
            torch.addcmul(one, y, y, out=work).sqrt_().add_(one)
            torch.div(y, work, out=work)
            torch.abs(y, out=size).addcmul_(y, work).log1p_()
        y.sign_().mul_(torch.addcmul(excess, size, per_kappa, out=size))


def _to_inputs(
    ctx: Any, grad: Tensor, G_H: Tensor, G_W: Tensor, sum_gf: Tensor, rate: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """From the gradients in H, W and κ to those in the points, the hyperplanes and c."""
    z, w, b, _, W, _, f, *rest = ctx.saved_tensors
    points, planes = _Points(*rest[:4]), _Planes(*rest[4:11])
    c = rest[11] if ctx.c is None else ctx.c
    curvature = wide(c) if isinstance(c, Tensor) else c
    # Points: ∂cosh a/∂z = c sinhc(a) z and ∂sinhc(a)/∂z = c k z, k = (cosh a − sinhc a)/a²
    R2 = points.R.square()
    along = (G_H[:, 1:] * points.x).sum(-1, keepdim=True)
    k = _k(points.cosh, points.sinhc, curvature * R2, ctx.needs_input_grad[3])
    pull = torch.addcmul(points.sinhc * G_H[:, :1], k, along)
    grad_z = torch.addcmul(points.sinhc * G_H[:, 1:], curvature * pull, points.x)
    # Hyperplanes: through ρ = b/ℓ, through ℓ in W and through κ = √c/ℓ
    length, rho = planes.length, planes.rho
    along_w = (G_W[:, 1:] * planes.w).sum(-1)
    by_rho = along_w * curvature * planes.sinhc * rho + G_W[:, 0] * length * planes.cosh
    by_side = _sum_by_side(grad, f, planes.far)
    by_rho = torch.where(planes.far, by_side * torch.sign(rho) * length, by_rho)
    by_kappa = (G_W * wide(W)).sum(-1) - sum_gf  # κ ∂/∂κ; Σ gY/√(1 + y²) is a by-product of G_W
    by_length = G_W[:, 0] * planes.sinhc * rho - (by_rho * (wide(b) / length) + by_kappa) / length
    grad_w = G_W[:, 1:] * planes.cosh[:, None] + planes.w * (by_length / length)[:, None]
    grad_c = None
    if ctx.needs_input_grad[3]:
        k_b = _k(planes.cosh, planes.sinhc, curvature * rho * rho, True)
        near = rho * rho * (planes.sinhc * along_w + k_b * G_W[:, 0] * length * rho)
        far = (wide(b).abs() * by_side - G_W[:, 0] * wide(W)[:, 0]) / curvature.clamp_min(1e-300)
        from_planes = torch.where(planes.far, far, near)
        total = (R2 * pull).sum() / 2 + from_planes.sum() / 2 + (rate / length.square()).sum()
        grad_c = total.to(c.dtype).reshape(c.shape)
    return grad_z.to(z.dtype), grad_w.to(w.dtype), (by_rho / length).to(b.dtype), grad_c


def _sum_by_side(grad: Tensor, f: Tensor, far: Tensor) -> Tensor:
    """Σ ±g over the points on either side of each hyperplane; 0 where no hyperplane is far."""
    if torch.compiler.is_compiling():
        return wide((grad * f.sign()).sum(0))
    total = wide(f.new_zeros(f.shape[1]))
    if may_hold(far):  # few are
        total[far] = wide((grad[:, far] * f[:, far].sign()).sum(0))
    return total


def _k(cosh: Tensor, s: Tensor, u: Tensor, precise: bool) -> Tensor:
    """(cosh a − sinhc a)/a², u = a²; the quotient errs for small a, which only ∂/∂c sees: elsewhere u multiplies it."""
    return s * coth_excess(u) if precise else (cosh - s) / u.clamp_min(1e-60)


def _rate_in_c(y: Tensor, slope: Tensor, f: Tensor, kappa: Tensor) -> Tensor:
    """∂f/∂κ² = (Y/√(1 + y²) − f)/2κ², y = κY; by its series Y³·(…) for small y, which holds at c = 0 too."""
    y, f = wide(y), wide(f)
    square = y * y
    near = square < 0.1
    direct = (y / (kappa * wide(slope)) - f) / (2 * kappa * kappa)
    series = (y / kappa).pow(3) * polynomial(_SERIES, torch.where(near, square, 0.0))
    return torch.where(near, series, direct)


def _chunks(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """Rows of x, as many at a time as fit the cache with one output per row of w."""
    return (x,) if torch.compiler.is_compiling() else x.split(max(1, _CHUNK // w.shape[0]))


def _buffers(f: Tensor, count: int) -> list[list[Tensor]]:
    """For each chunk of f the same working memory: allocating it anew would cost more than using it."""
    parts = _chunks(f, f.mT)
    memory = [torch.empty_like(parts[0]) if parts else f for _ in range(count)]
    return [[room[: len(part)] for part in parts] for room in memory]
