"""Translations of the ball in the tangent chart, as differentiable functions.

The gradients are written by hand: they are those of the sides and angles of the `triangle`, regular at μ = 0, v = 0 and
c = 0, where autograd would meet 0/0, and accurate in float32 at any radius. Higher derivatives and `torch.func` take
the plain formulas of `exponential`.

Parallel transport is a rotation in the frames transported from the origin, the gyration of the two ends. With their
ball coordinates x and y, scaled to the unit ball, δ = y − x and the gaps g = 1 − |x|² = 1/cosh²(√c|z|/2),

    v ↦ v + 2/D ((g_x β − |δ|² α) x − ((g_x − 2⟨x, δ⟩) α + |x|² β) δ),    α = ⟨x, v⟩,  β = ⟨δ, v⟩,  D = |δ|² + g_x g_y.

D is a sum of what is positive, and β and δ are small where the ends are near each other, so nothing cancels beyond what
the rounding of the ends themselves does.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from horoball.devices import has_float64
from horoball.geometry.autograd import again, differentiated_by
from horoball.geometry.curvature import Curvature, grad_in, load, save
from horoball.geometry.exponential import (
    moderate_exp,
    plain_side,
    plain_translate,
    plain_translated_radius,
    plain_transport,
)
from horoball.geometry.kernels import transformed, wide
from horoball.geometry.triangle import (
    Scaled,
    Triangle,
    angles,
    bend,
    dot,
    inverse,
    narrow,
    rates_in_c,
    scaled,
    solve,
    third_side,
    third_vertex,
    unit,
)


class _Triangle(torch.autograd.Function):
    """z = exp_μ(v), or d(0, z) alone, and its vector-Jacobian product; the gradient of a distance of 0 is 0."""

    @staticmethod
    def forward(ctx: Any, mu: Tensor, v: Tensor, c: Curvature, vertex: bool) -> Tensor:
        tri = solve(mu, v, c)
        f = scaled(tri, c) if vertex else ()
        ctx.vertex = vertex
        save(ctx, c, mu, v, *tri, *f)
        return third_vertex(mu, v, tri, Scaled(*f)) if vertex else tri.Rz.squeeze(-1).to(mu.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, (mu, v, *rest) = load(ctx)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            plain = plain_translate if ctx.vertex else plain_translated_radius
            return again(plain, (mu, v, c), ctx.needs_input_grad, grad)
        sides = len(Triangle._fields)
        tri = Triangle(*rest[:sides])
        f = Scaled(*rest[sides:]) if ctx.vertex else scaled(tri, c)
        u, w, per_Rz = unit(mu, tri.R1), unit(v, tri.R2), inverse(tri.Rz)
        lam1, lam2, cos1, cos2, X = angles(tri, f)
        if ctx.vertex:
            g_u, g_w, g_e = dot(grad, u), dot(grad, w), dot(grad, tri.e)
            k = 2 * tri.P - 1
            g_n, g_m = g_e - 2 * tri.P * g_u, g_e - 2 * tri.P * g_w  # along n = v̂ − kμ̂ and m = μ̂ − kv̂
            g_r = cos1 * g_u + lam2 * g_n  # along ẑ
            turn = cos1 * g_n - lam2 * 4 * tri.P * (1 - tri.P) * g_u  # along the direction in which ẑ turns with φ
            Cz = f.az + torch.exp(-2 * f.az) / f.sz  # a_z coth a_z
        else:
            g_r = torch.where(tri.Rz > 0, wide(grad).unsqueeze(-1), 0.0)
            pull = g_r * X * per_Rz
        grad_mu = grad_v = grad_c = None
        if ctx.needs_input_grad[0]:
            radial = g_r * cos1
            if ctx.vertex:
                across = X * tri.R2 * per_Rz * (g_r - Cz * lam2 * g_n) - bend(tri, f, lam2, cos2, k) * lam2 * g_u
                radial = radial - turn * lam2 * Cz
            else:
                across = pull * tri.R2
            grad_mu = _assemble(_across(f.A, grad, g_u, u) if ctx.vertex else None, radial, u, across, tri)
        if ctx.needs_input_grad[1]:
            radial = g_r * cos2
            if ctx.vertex:
                radial = radial + turn * lam1 * torch.exp(-f.az) / f.sz
                lift = f.sb / f.sz * f.E * torch.expm1(-f.a).square() / 2  # B (cosh a − 1)
                across = X * tri.R1 * per_Rz * g_r - f.B * cos2 * (cos1 - k * lam2) * g_w
                across = across - g_m * (f.B * lam1 * lam1 + lift * cos2 * lam2)
            else:
                across = pull * tri.R1
            grad_v = _assemble(_across(f.B, grad, g_w, w) if ctx.vertex else None, radial, w, across, tri)
        if ctx.needs_input_grad[2]:
            rate, twist = rates_in_c(tri, f, cos1, cos2, c)
            grad_c = grad_in(c, rate * g_r + tri.Rz * twist * turn if ctx.vertex else rate * g_r)
        return grad_mu, grad_v, grad_c, None


def _across(A: Tensor, g: Tensor, g_u: Tensor, u: Tensor) -> Tensor:
    """A·g across u; A may be large, so u is taken out of g first."""
    return narrow(A, u) * (g - narrow(g_u, u) * u)


def _assemble(plane: Tensor | None, radial: Tensor, u: Tensor, across: Tensor, tri: Triangle) -> Tensor:
    """A part across u, if there is one, a radial one and one along e across u."""
    along = narrow(radial - 2 * tri.P * across, u) * u
    return (along if plane is None else plane + along) + narrow(across, u) * tri.e


class _Side(torch.autograd.Function):
    """The third side from two sides and a fixed angle, elementwise."""

    @staticmethod
    def forward(ctx: Any, R1: Tensor, R2: Tensor, P: Tensor, c: Curvature) -> Tensor:
        Rz = third_side(R1, R2, R1 - R2, P, c)
        save(ctx, c, R1, R2, P, Rz)
        return Rz

    @staticmethod
    @differentiated_by(plain_side)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, (R1, R2, P, Rz) = load(ctx)
        tri = Triangle(R1, R2, R1 - R2, P, P, Rz)
        f = scaled(tri, c)
        _, _, cos1, cos2, _ = angles(tri, f)
        grad_c = None
        if ctx.needs_input_grad[3]:
            rate, _ = rates_in_c(tri, f, cos1, cos2, c)
            grad_c = grad_in(c, rate * grad)
        return grad * cos1, grad * cos2, None, grad_c


def _prepare(mu: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    if mu.dtype == v.dtype and mu.shape == v.shape:
        return mu, v
    kind = torch.promote_types(mu.dtype, v.dtype)
    mu, v = torch.broadcast_tensors(mu.to(kind), v.to(kind))
    return mu, v


def translate(mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """z = exp_μ(v): the vector v, given at the origin, carried to μ and followed [eq:exp].

    The gradient in μ is taken at fixed v [eq:gradient_loc], in metric units: the paper's u = v/λ_μ does depend on μ
    [errata:12].

    Example:
        >>> translate(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]), 1.0)
        tensor([3., 0.])
    """
    mu, v = _prepare(mu, v)
    if transformed():
        return plain_translate(mu, v, c)
    z = moderate_exp(mu, v, c)
    return _Triangle.apply(mu, v, c, True) if z is None else z


def translated_radius(mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """d(0, exp_μ(v)), the third side of the triangle [eq:dist].

    Example:
        >>> translated_radius(torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.0]), 1.0)
        tensor(0.)
    """
    mu, v = _prepare(mu, v)
    return plain_translated_radius(mu, v, c) if transformed() else _Triangle.apply(mu, v, c, False)


def side(R1: Tensor, R2: Tensor, P: Tensor, c: Curvature) -> Tensor:
    """The third side of a triangle with sides R₁ and R₂, whose directions make P = cos²(φ/2); elementwise, in float64.

    Example:
        >>> one = torch.ones((), dtype=torch.float64)
        >>> side(one, 2 * one, one, 1.0)  # φ = 0: the sides add
        tensor(3., dtype=torch.float64)
    """
    R1, R2, P = torch.broadcast_tensors(wide(R1), wide(R2), wide(P))
    return plain_side(R1, R2, P, c) if transformed() else _Side.apply(R1, R2, P, c)


_TINY = 1e-30  # floor of a length, where tanh(a/2)/a is 1/2 and the point 0
_LEAST = 1e-300  # floor of D: both ends are at the rim in one direction then, and nothing turns


def transport(z: Tensor, y: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """A vector at z, carried along the geodesic to y."""
    if not z.shape == y.shape == v.shape:
        z, y, v = torch.broadcast_tensors(z, y, v)
    if not has_float64(z.device):
        return _by_triangles(z, y, v, c)
    wanted = torch.is_grad_enabled() and (z.requires_grad or y.requires_grad or v.requires_grad)
    return plain_transport(z, y, v, c) if wanted or transformed() or isinstance(c, Tensor) else _turned(z, y, v, c)


def _turned(z: Tensor, y: Tensor, v: Tensor, c: float) -> Tensor:
    """The vector without gradients, as an optimizer carries its momentum: in a third of the operations."""
    s, w = math.sqrt(c), v.double()
    ends = torch.stack((z, y)).double() if z.dtype == y.dtype else torch.stack((z.double(), y.double()))
    r = torch.linalg.vector_norm(ends, dim=-1, keepdim=True).clamp_min_(_TINY)
    half = r * (s / 2)
    tanh = half.tanh()
    gap = half.cosh_().square_().reciprocal_()
    ratio = tanh / r
    x, other = (ends * ratio).unbind(0)
    delta = other - x
    g = gap[0]
    vectors = torch.stack((x, delta))
    alpha, beta = (vectors * w).sum(-1, keepdim=True).unbind(0)
    m, n = (vectors * delta).sum(-1, keepdim=True).unbind(0)
    twice = torch.addcmul(n, g, gap[1]).clamp_min_(_LEAST).reciprocal_().mul_(2)  # 2/D
    lean = torch.sub(g, m, alpha=2)
    along = (g * beta).addcmul_(n, alpha, value=-1)
    across = (lean * alpha).addcmul_(tanh[0] * tanh[0], beta)
    out = torch.addcmul(w, twice * along, x).addcmul_(twice * across, delta, value=-1)
    return out.to(torch.promote_types(torch.promote_types(z.dtype, y.dtype), v.dtype))


def _by_triangles(z: Tensor, y: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """The same by way of the directions in which the geodesic leaves z and arrives at y, where all is float32.

    It leaves in the direction of log_z(y) and arrives in that of −log_y(z). In between a vector turns in the plane of z
    and y, by the angle from the one to the other; what is across the plane stays as it is.
    """
    kind = torch.promote_types(torch.promote_types(z.dtype, y.dtype), v.dtype)
    z, y, v = torch.broadcast_tensors(wide(z), wide(y), wide(v))
    leaving, arriving = translate(-z, y, c), -translate(-y, z, c)
    length = torch.linalg.vector_norm(leaving, dim=-1, keepdim=True)
    apart = length > 0
    length = torch.where(apart, length, 1.0)
    first, last = leaving / length, arriving / length
    both = first + last
    # 1 + ⟨first, last⟩ as |first + last|²/2, which does not cancel where the vector turns by nearly π
    size = (both * both).sum(-1, keepdim=True) / 2
    size = torch.where(size > 0, size, 1.0)
    turned = v - (both * v).sum(-1, keepdim=True) / size * both + 2 * (first * v).sum(-1, keepdim=True) * last
    return torch.where(apart, turned, v).to(kind)
