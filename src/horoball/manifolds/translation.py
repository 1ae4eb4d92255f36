"""Translations of the ball in the tangent chart, as differentiable functions.

The gradients are written by hand: they are those of the sides and angles of the `triangle`, regular at μ = 0, v = 0 and
c = 0, where autograd would meet 0/0, and accurate in float32 at any radius. Higher derivatives and `torch.func` take
the formulas of `plain`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.manifolds.exponential import moderate_exp
from horoball.manifolds.plain import plain_side, plain_translate, plain_translated_radius
from horoball.manifolds.triangle import (
    Scaled,
    Triangle,
    dot,
    inverse,
    narrow,
    scaled,
    solve,
    third_side,
    third_vertex,
    unit,
)
from horoball.manifolds.triangle_rates import angles, bend, rates_in_c
from horoball.numerics.autograd import differentiated_by
from horoball.numerics.curvature import Curvature, grad_in, load, save
from horoball.numerics.kernels import transformed, wide

__all__ = ["side", "translate", "translated_radius"]


def _load(ctx: Any) -> tuple[Tensor, Tensor, Any, Triangle, Scaled]:
    c, (mu, v, *rest) = load(ctx)
    sides = len(Triangle._fields)
    tri = Triangle(*rest[:sides])
    return mu, v, c, tri, Scaled(*rest[sides:]) if rest[sides:] else scaled(tri, c)


class _Translate(torch.autograd.Function):
    """z = exp_μ(v) and its vector-Jacobian product."""

    @staticmethod
    def forward(ctx: Any, mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
        tri = solve(mu, v, c)
        f = scaled(tri, c)
        save(ctx, c, mu, v, *tri, *f)
        return third_vertex(mu, v, tri, f)

    @staticmethod
    @differentiated_by(plain_translate)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        mu, v, c, tri, f = _load(ctx)
        u, w = unit(mu, tri.R1), unit(v, tri.R2)
        g_u, g_w, g_e = dot(grad, u), dot(grad, w), dot(grad, tri.e)
        k, per_Rz = 2 * tri.P - 1, inverse(tri.Rz)
        g_n, g_m = g_e - 2 * tri.P * g_u, g_e - 2 * tri.P * g_w  # along n = v̂ − kμ̂ and m = μ̂ − kv̂
        lam1, lam2, cos1, cos2, X = angles(tri, f)
        g_r = cos1 * g_u + lam2 * g_n  # along ẑ
        turn = cos1 * g_n - lam2 * 4 * tri.P * (1 - tri.P) * g_u  # along the direction in which ẑ turns with φ
        Cz = f.az + torch.exp(-2 * f.az) / f.sz  # a_z coth a_z
        grad_mu = grad_v = grad_c = None
        if ctx.needs_input_grad[0]:
            K = bend(tri, f, lam2, cos2, k)
            radial = g_r * cos1 - turn * lam2 * Cz
            across = X * tri.R2 * per_Rz * (g_r - Cz * lam2 * g_n) - K * lam2 * g_u
            grad_mu = _assemble(f.A, grad, g_u, radial, u, across, tri)
        if ctx.needs_input_grad[1]:
            radial = g_r * cos2 + turn * lam1 * torch.exp(-f.az) / f.sz
            lift = f.sb / f.sz * f.E * torch.expm1(-f.a).square() / 2  # B (cosh a − 1)
            across = X * tri.R1 * per_Rz * g_r - f.B * cos2 * (cos1 - k * lam2) * g_w
            across = across - g_m * (f.B * lam1 * lam1 + lift * cos2 * lam2)
            grad_v = _assemble(f.B, grad, g_w, radial, w, across, tri)
        if ctx.needs_input_grad[2]:
            rate, twist = rates_in_c(tri, f, cos1, cos2, c)
            grad_c = grad_in(c, rate * g_r + tri.Rz * twist * turn)
        return grad_mu, grad_v, grad_c


def _assemble(A: Tensor, g: Tensor, g_u: Tensor, radial: Tensor, u: Tensor, across: Tensor, tri: Triangle) -> Tensor:
    """A·g across u, plus a radial part and one along e across u; A may be large, so u is taken out of g first."""
    plane = narrow(A, u) * (g - narrow(g_u, u) * u)
    return plane + narrow(radial - 2 * tri.P * across, u) * u + narrow(across, u) * tri.e


class _TranslatedRadius(torch.autograd.Function):
    """d(0, exp_μ(v)) and its vector-Jacobian product; 0 stands for the gradient where the distance is 0."""

    @staticmethod
    def forward(ctx: Any, mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
        tri = solve(mu, v, c)
        save(ctx, c, mu, v, *tri)
        return tri.Rz.squeeze(-1).to(mu.dtype)

    @staticmethod
    @differentiated_by(plain_translated_radius)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        mu, v, c, tri, f = _load(ctx)
        u, w = unit(mu, tri.R1), unit(v, tri.R2)
        _, _, cos1, cos2, X = angles(tri, f)
        g = torch.where(tri.Rz > 0, wide(grad).unsqueeze(-1), 0.0)
        across = g * X * inverse(tri.Rz)
        grad_mu = grad_v = grad_c = None
        if ctx.needs_input_grad[0]:
            side = across * tri.R2
            grad_mu = narrow(g * cos1 - 2 * tri.P * side, mu) * u + narrow(side, mu) * tri.e
        if ctx.needs_input_grad[1]:
            side = across * tri.R1
            grad_v = narrow(g * cos2 - 2 * tri.P * side, mu) * w + narrow(side, mu) * tri.e
        if ctx.needs_input_grad[2]:
            rate, _ = rates_in_c(tri, f, cos1, cos2, c)
            grad_c = grad_in(c, rate * g)
        return grad_mu, grad_v, grad_c


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
    return _Translate.apply(mu, v, c) if z is None else z


def translated_radius(mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """d(0, exp_μ(v)), the third side of the triangle [eq:dist].

    Example:
        >>> translated_radius(torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.0]), 1.0)
        tensor(0.)
    """
    mu, v = _prepare(mu, v)
    return plain_translated_radius(mu, v, c) if transformed() else _TranslatedRadius.apply(mu, v, c)


def side(R1: Tensor, R2: Tensor, P: Tensor, c: Curvature) -> Tensor:
    """The third side of a triangle with sides R₁ and R₂, whose directions make P = cos²(φ/2); elementwise, in float64.

    Example:
        >>> one = torch.ones((), dtype=torch.float64)
        >>> side(one, 2 * one, one, 1.0)  # φ = 0: the sides add
        tensor(3., dtype=torch.float64)
    """
    R1, R2, P = torch.broadcast_tensors(wide(R1), wide(R2), wide(P))
    return plain_side(R1, R2, P, c) if transformed() else _Side.apply(R1, R2, P, c)
