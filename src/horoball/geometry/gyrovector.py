"""The paper's formulas in ball coordinates, arranged so that nothing cancels.

Points are ball coordinates of shape `(*batch, d)` with c|x|² < 1; the curvature is −c [errata:1] and c = 0 is the
plane, at twice its usual scale [errata:2].
Tangent vectors are in ball coordinates too, as in the paper: a vector v at x has Riemannian length λ_x|v|, not |v|.
The curvature is a float or a tensor that broadcasts against the points: one curvature per point is `(*batch, 1)`.

The gap g_x = 1 − c|x|² carries all the precision of a point near the boundary, and the product of two float32 is
exact in float64: every function computes in float64 and answers in the dtype of its points. Norms enter squared,
through even kernels, so that the origin, coincident points and c = 0 are regular for gradients also.

A point farther than √c·d(0, x) ≈ 17 in float32 (37 in float64) rounds to the boundary, where these functions raise.
`PoincareBall` carries points in the tangent chart, which has no such limit.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from horoball.geometry.curvature import widened
from horoball.geometry.kernels import asinhc, atanhc, sinhc, tanhc, wide


def conformal_factor(x: Tensor, *, c: float | Tensor) -> Tensor:
    """The factor from Euclidean to Riemannian lengths at a point.

    λ_x = 2/(1 − c|x|²)  [eq:conformal_factor]

    Args:
        x: point, c|x|² < 1, `(*batch, d)`.
        c: minus the curvature, c ≥ 0.

    Example:
        >>> conformal_factor(torch.tensor([0.6, 0.0]), c=1.0)
        tensor(3.1250)
    """
    return (2 / _gap(wide(x), _curvature(c))).squeeze(-1).to(_dtype(x))


def mobius_add(x: Tensor, y: Tensor, *, c: float | Tensor) -> Tensor:
    """The Möbius sum: y moved by the translation that takes the origin to x.

    x⊕y = ((1 + 2c⟨x, y⟩ + c|y|²)x + (1 − c|x|²)y)/(1 + 2c⟨x, y⟩ + c²|x|²|y|²)  [eq:mobius_add],
    which is (c|x+y|²x + g_x(x+y))/(c|x+y|² + g_x g_y).

    Args:
        x: point, c|x|² < 1, `(*batch, d)`.
        y: point, c|y|² < 1, `(*batch, d)`.
        c: minus the curvature, c ≥ 0.

    Example:
        >>> mobius_add(torch.tensor([0.5, 0.0]), torch.tensor([0.5, 0.0]), c=1.0)
        tensor([0.8000, 0.0000])
    """
    dtype, c, x, y = _dtype(x, y), _curvature(c), wide(x), wide(y)
    return _add(x, y, _gap(x, c), _gap(y, c), c).to(dtype)


def dist(x: Tensor, y: Tensor, *, c: float | Tensor) -> Tensor:
    """The distance between two points.

    d(x, y) = acosh(1 + 2c|x−y|²/(g_x g_y))/√c  [eq:dist],
    which is 2·asinh(√c n)/√c with n = |x−y|/√(g_x g_y), and 2|x−y| at c = 0 [errata:2]. The gradient at x = y
    is 0.

    Args:
        x: point, c|x|² < 1, `(*batch, d)`.
        y: point, c|y|² < 1, `(*batch, d)`.
        c: minus the curvature, c ≥ 0.

    Example:
        >>> dist(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 0.0]), c=1.0)
        tensor(1.0986)
    """
    dtype, c, x, y = _dtype(x, y), _curvature(c), wide(x), wide(y)
    # vector_norm, not the root of the sum of squares: its gradient at 0 is 0.
    n = torch.linalg.vector_norm(x - y, dim=-1, keepdim=True) / (_gap(x, c) * _gap(y, c)).sqrt()
    return (2 * n * asinhc(c * n * n)).squeeze(-1).to(dtype)


def exp0(v: Tensor, *, c: float | Tensor) -> Tensor:
    """The exponential map at the origin, where λ₀ = 2.

    exp₀(v) = tanh(√c|v|)·v/(√c|v|)  [eq:exp] at x = 0

    Args:
        v: tangent vector at the origin, of Riemannian length 2|v|, `(*batch, d)`.
        c: minus the curvature, c ≥ 0.

    Example:
        >>> exp0(torch.tensor([1.0, 0.0]), c=1.0)
        tensor([0.7616, 0.0000])
    """
    dtype, c, v = _dtype(v), _curvature(c), wide(v)
    return (tanhc(c * _square(v)) * v).to(dtype)


def log0(y: Tensor, *, c: float | Tensor) -> Tensor:
    """The logarithm map at the origin, inverse of `exp0`.

    log₀(y) = atanh(√c|y|)·y/(√c|y|)  [eq:log] at x = 0

    Args:
        y: point, c|y|² < 1, `(*batch, d)`.
        c: minus the curvature, c ≥ 0.

    Example:
        >>> log0(torch.tensor([0.5, 0.0]), c=1.0)
        tensor([0.5493, 0.0000])
    """
    dtype, c, y = _dtype(y), _curvature(c), wide(y)
    return (atanhc(_inside(y, c)) * y).to(dtype)


def exp(x: Tensor, v: Tensor, *, c: float | Tensor) -> Tensor:
    """The exponential map: where the geodesic that leaves x with velocity v is after unit time.

    exp_x(v) = x ⊕ tanh(√c λ_x|v|/2)·v/(√c|v|)  [eq:exp], which is x + v at c = 0.

    Args:
        x: point, c|x|² < 1, `(*batch, d)`.
        v: tangent vector at x, of Riemannian length λ_x|v|, `(*batch, d)`.
        c: minus the curvature, c ≥ 0.

    Example:
        >>> exp(torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.75]), c=1.0)
        tensor([0.6900, 0.4989])
    """
    dtype, c, x, v = _dtype(x, v), _curvature(c), wide(x), wide(v)
    gap = _gap(x, c)
    v = v / gap
    u = c * _square(v)
    # 1 − tanh² = 1/(1 + sinh²) stays positive far out. The cap keeps sinh² finite and changes no result: a geodesic
    # of length 2·40/√c ends beyond the last radius that float64 can hold, wherever in the ball it begins.
    near = u.clamp(max=1600.0)
    return _add(x, tanhc(u) * v, gap, 1 / (1 + near * sinhc(near).square()), c).to(dtype)


def log(x: Tensor, y: Tensor, *, c: float | Tensor) -> Tensor:
    """The logarithm map, inverse of `exp`: the velocity at x that reaches y in unit time.

    log_x(y) = 2/(√c λ_x)·atanh(√c|w|)·w/|w|, w = −x⊕y  [eq:log], which is y − x at c = 0.

    Args:
        x: point, c|x|² < 1, `(*batch, d)`.
        y: point, c|y|² < 1, `(*batch, d)`.
        c: minus the curvature, c ≥ 0.

    Example:
        >>> log(torch.tensor([0.5, 0.0]), torch.tensor([0.8, 0.0]), c=1.0)
        tensor([0.4120, 0.0000])
    """
    dtype, c, x, y = _dtype(x, y), _curvature(c), wide(x), wide(y)
    gap = _gap(x, c)
    gaps = gap * _gap(y, c)
    step = y - x
    square = c * _square(step)
    # atanh(√c|w|) = asinh(√c n) with the n of `dist`, and |w| = |y−x|/√(c|y−x|² + g_x g_y): no w near the boundary.
    velocity = gap * (gap * step - square * x) / (gaps * (square + gaps)).sqrt()
    return (asinhc(square / gaps) * velocity).to(dtype)


def gyroplane_dist(z: Tensor, *, point: Tensor, normal: Tensor, c: float | Tensor) -> Tensor:
    """The signed distance to a hyperplane, positive on the side of its normal.

    d(z, H) = asinh(2√c⟨−p⊕z, a⟩/((1 − c|−p⊕z|²)|a|))/√c  [eq:gyroplane_dist],
    where H is made of the geodesics through p orthogonal to a. The two vectors are named in the call: nothing else
    would notice if they were swapped [errata:14].

    Args:
        z: point, c|z|² < 1, `(*batch, d)`.
        point: p, a point of the hyperplane, c|p|² < 1, `(*batch, d)`.
        normal: a ≠ 0, tangent vector at p, `(*batch, d)`; its length has no effect.
        c: minus the curvature, c ≥ 0.

    Example:
        >>> origin, normal = torch.zeros(2), torch.tensor([3.0, 0.0])
        >>> gyroplane_dist(torch.tensor([-0.5, 0.0]), point=origin, normal=normal, c=1.0)
        tensor(-1.0986)
    """
    dtype, c = _dtype(z, point, normal), _curvature(c)
    z, point, normal = wide(z), wide(point), wide(normal)
    length = torch.linalg.vector_norm(normal, dim=-1, keepdim=True)
    if not torch.compiler.is_compiling() and not bool((length > 0).all()):
        raise ValueError("Expected normals other than 0, got a normal of length 0. A hyperplane needs a direction.")
    gap, step = _gap(point, c), z - point
    along, across = ((v * normal).sum(-1, keepdim=True) for v in (step, point))
    # −p⊕z over its own gap, with the common denominator c|z−p|² + g_p g_z canceled.
    y = 2 * (gap * along - c * _square(step) * across) / (gap * _gap(z, c) * length)
    return (y * asinhc(c * y * y)).squeeze(-1).to(dtype)


def gyroplane(z: Tensor, *, point: Tensor, normal: Tensor, c: float | Tensor) -> Tensor:
    """The paper's hyperbolic affine map, linear in the signed distance to a hyperplane.

    f_{a,p}(z) = sign(⟨a, log_p(z)⟩_p)·‖a‖_p·d(z, H), ‖a‖_p = λ_p|a|  [eq:gyroplane],
    which is 4⟨a, z−p⟩ at c = 0 [errata:2].

    Args:
        z: point, c|z|² < 1, `(*batch, d)`.
        point: p, a point of the hyperplane, c|p|² < 1, `(*batch, d)`.
        normal: a ≠ 0, tangent vector at p, `(*batch, d)`.
        c: minus the curvature, c ≥ 0.

    Example:
        >>> origin, normal = torch.zeros(2), torch.tensor([3.0, 0.0])
        >>> gyroplane(torch.tensor([-0.5, 0.0]), point=origin, normal=normal, c=1.0)
        tensor(-6.5917)
    """
    dtype, z, point, normal = _dtype(z, point, normal), wide(z), wide(point), wide(normal)
    length = conformal_factor(point, c=c) * torch.linalg.vector_norm(normal, dim=-1)
    return (length * gyroplane_dist(z, point=point, normal=normal, c=c)).to(dtype)


def _dtype(*points: Tensor) -> torch.dtype:
    dtype = reduce(torch.promote_types, (point.dtype for point in points))
    # Integers become the default float, as in torch's own functions; a cast back would truncate the answer.
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def _square(x: Tensor) -> Tensor:
    return (x * x).sum(-1, keepdim=True)


def _curvature(c: float | Tensor) -> float | Tensor:
    # A compiled graph has no data-dependent branch: here and below, checks are for eager mode.
    if not torch.compiler.is_compiling() and not bool((torch.as_tensor(c) >= 0).all()):
        raise ValueError(f"Expected c ≥ 0 (the curvature is −c), got {c}. Pass minus the curvature.")
    return widened(c)


def _inside(x: Tensor, c: float | Tensor) -> Tensor:
    """c|x|² of a wide point, below 1 or ValueError."""
    square = c * _square(x)
    if not torch.compiler.is_compiling() and not bool((square < 1).all()):
        raise ValueError(
            f"Expected points inside the ball, √c|x| < 1, got √c|x| up to {square.max().sqrt().item():.9g}. "
            "Carry points in the tangent chart (PoincareBall.from_ball, PoincareBall.to_ball), which has no boundary."
        )
    return square


def _gap(x: Tensor, c: float | Tensor) -> Tensor:
    return 1 - _inside(x, c)


def _add(x: Tensor, y: Tensor, gap_x: Tensor, gap_y: Tensor, c: float | Tensor) -> Tensor:
    total = x + y
    square = c * _square(total)
    return (square * x + gap_x * total) / (square + gap_x * gap_y)
