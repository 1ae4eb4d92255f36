"""Kullback–Leibler divergences between normals of the ball, registered with `torch.distributions.kl_divergence`.

For isotropic normals the divergence depends on the two means only through their distance ρ. With q's radius r and the
uniform angle φ, the distance of a sample from p's mean is the third side of a triangle (ρ, r, φ), so

    KL(q ‖ p) = −H(q) − E[log p(side(ρ, r, φ))]

is a two-dimensional integral of a smooth function: no sampling, no variance, gradients in everything. Around one mean
the angle drops out, and for normals of the same kind the rest is closed. With a diagonal or full covariance and another
mean all directions differ, and are summed over for d = 2 and 3.

Note [One mean]: as a function of the distance ρ the divergence is even and smooth, but ρ itself has a kink at 0. Where
the means are one or all but one it is KL(0) + K ρ²/2, with ρ² = |log_μ(μ')|², which is smooth, and

    dK = E[−Δ log p] = E[1/σ² + (d − 1)(1 + uM)/σ²]                                for p = N^R,
    and (d − 1)c(1 − uM² − 2M) + (d − 1)(1 + uM)(d − 1)cM more                     for p = N^W,

u = cr² and M(u) = (√u coth √u − 1)/u. So second derivatives are right there too.

Note [Rounding of a divergence]: entropies of some thousand nats leave a divergence of 0 with a rounding error of either
sign. A negative one is returned as 0; gradients are left as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.distributions import register_kl

from horoball.devices import has_float64
from horoball.distributions.normal import BallNormal
from horoball.distributions.radius import log_normalizer, radius_nodes
from horoball.distributions.riemannian_normal import RiemannianNormal
from horoball.distributions.wrapped_normal import WrappedNormal
from horoball.geometry.curvature import CurvedSpace, widened
from horoball.geometry.kernels import coth_excess, log_sinhc, looks_ahead, static, transformed, wide
from horoball.geometry.quadrature import direction_rule, sphere_rule
from horoball.geometry.translation import side

__all__: list[str] = []

_NEAR = 1e-10  # of ρ²/σ²: Note [One mean]
_MOST_DIRECTIONS = 3  # d up to which a rule of directions has a bearable number of nodes


def _in_float64(divergence: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
    """Compute a divergence on the CPU if its device has no float64."""

    @wraps(divergence)
    def placed(q: BallNormal, p: BallNormal) -> Tensor:
        if has_float64(q.loc.device):
            return divergence(q, p)
        return divergence(q.on_cpu(), p.on_cpu()).to(q.loc.device)

    return placed


@register_kl(WrappedNormal, WrappedNormal)
@_in_float64
def _kl_wrapped_wrapped(q: WrappedNormal, p: WrappedNormal) -> Tensor:
    _check_known(q, p)
    flat = q.loc.shape[-1] == 1 or q.ball.is_euclidean
    if not _same_mean(q, p) and not flat:
        return _kl_by_quadrature(q, p)
    # Around one mean both wrap a normal of one tangent space in the same way; without curvature nothing is wrapped.
    shift = wide(q.loc) - wide(p.loc)
    if q.scale is not None and p.scale is not None:
        ratio = (wide(q.scale) / wide(p.scale)).square()
        terms = (ratio - 1 - torch.log(ratio)).sum(-1) * (q.loc.shape[-1] / ratio.shape[-1])
        moved = shift / wide(p.scale)
    else:
        ratio = torch.linalg.solve_triangular(_factor(p), _factor(q), upper=False)
        log_det = 2 * ratio.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        terms = ratio.square().sum((-2, -1)) - q.loc.shape[-1] - log_det
        moved = torch.linalg.solve_triangular(_factor(p), shift.unsqueeze(-1), upper=False).squeeze(-1)
    if flat:
        return _not_negative((terms + moved.square().sum(-1)) / 2, q)
    return _not_negative(terms / 2 + _near_one_mean(q, p), q)


@register_kl(RiemannianNormal, RiemannianNormal)
@register_kl(RiemannianNormal, WrappedNormal)
@register_kl(WrappedNormal, RiemannianNormal)
@_in_float64
def _kl_by_quadrature(q: BallNormal, p: BallNormal) -> Tensor:
    _check_known(q, p)
    if any(isinstance(one, WrappedNormal) and not one.is_isotropic for one in (q, p)):
        return _kl_by_cubature(q, p)
    c = q.ball.c
    d = static(q.loc.shape[-1])
    sigma = wide(q.scale)
    lam = (c * sigma * sigma if isinstance(q, RiemannianNormal) else torch.zeros_like(sigma)).squeeze(-1)
    t, w = radius_nodes(lam, d)
    r = sigma * t
    entropy = -(w * _log_density(q, r)).sum(-1)
    if _same_mean(q, p):
        return _not_negative(_near_one_mean(q, p) - entropy - (w * _log_density(p, r)).sum(-1), q)
    mean, other = torch.broadcast_tensors(wide(q.loc), wide(p.loc))
    with torch.no_grad():  # what Note [One mean] leaves out is of the order of the square of this
        close = q.ball.dist(mean, other).square() * (widened(c) + 1 / wide(p.scale).squeeze(-1).square()) < _NEAR
    some = transformed() or torch.compiler.is_compiling() or bool(close.any())  # of which a batch rarely has any
    rho = q.ball.dist(mean, torch.where(close.unsqueeze(-1), other + 1, other) if some else other)
    P, weight = sphere_rule(d, rho.device)
    distance = side(rho[..., None, None], r.unsqueeze(-1), P, c)
    cross = (_log_density(p, distance.flatten(-2)).unflatten(-1, distance.shape[-2:]) * weight).sum(-1)
    expected = (w * cross).sum(-1)
    if some:
        expected = torch.where(close, (w * _log_density(p, r)).sum(-1) - _near_one_mean(q, p), expected)
    return _not_negative(-entropy - expected, q)


def _check_known(q: BallNormal, p: BallNormal) -> None:
    """Refuse normals of other spaces than the ball, of which nothing is known here."""
    for one in (q, p):
        if not isinstance(one.ball, CurvedSpace):
            raise NotImplementedError(
                f"The divergence of normals is known on PoincareBall, not on {type(one.ball).__name__}. Estimate it: "
                "q.rsample_and_divergence(p, (n,))[1].mean(0)."
            )


def _kl_by_cubature(q: BallNormal, p: BallNormal) -> Tensor:
    """The mean of log q − log p over radii and directions of q's tangent vectors, whatever the covariances."""
    d = static(q.loc.shape[-1])
    if d > _MOST_DIRECTIONS:
        raise NotImplementedError(
            f"The divergence of wrapped normals with diagonal or full covariances and different means is known for "
            f"d = 2 and 3, got d = {d}. Estimate it: z, log_q = q.rsample_and_log_prob((n,)); "
            "(log_q - p.log_prob(z)).mean(0)."
        )
    dtype, q, p = q.loc.dtype, q.in_float64(), p.in_float64()
    _same_mean(q, p)  # which refuses what does not live on one ball
    lam = q.loc.new_zeros(q.batch_shape)
    if isinstance(q, RiemannianNormal):
        lam = q.ball.c * q.scale.squeeze(-1).square()
    t, w = (x.movedim(-1, 0) for x in radius_nodes(lam, d))  # (radii, *batch)
    u, share = direction_rule(d, q.loc.device)
    axes = (1,) * len(q.batch_shape)
    epsilon = t[:, None, ..., None] * u.view(1, -1, *axes, d)  # (radii, directions, *batch, d)
    if q.scale is not None:
        v = q.scale * epsilon
    else:
        v = (q.scale_tril @ epsilon.unsqueeze(-1)).squeeze(-1)  # type: ignore[attr-defined]
    ratio = q._log_density(v) - p.log_prob(q.ball.exp(q.loc, v))
    axes = (1,) * (ratio.dim() - 2)
    mean = ((ratio * share.view(1, -1, *axes)).sum(1) * w).sum(0)
    return (mean - mean.detach().clamp_max(0)).to(dtype)


def _log_density(distribution: BallNormal, distance: Tensor) -> Tensor:
    """Log density at distances (*batch, k) from the mean, in float64, up to the area of the sphere, which cancels."""
    d, c = static(distribution.loc.shape[-1]), distribution.ball.c
    sigma = wide(distribution.scale)
    energy = (distance / sigma).square() / 2
    if isinstance(distribution, RiemannianNormal):
        return -energy - log_normalizer(sigma, c, d)
    # The chi distribution's constant, in place of (2π)^(d/2)/area
    constant = (d / 2 - 1) * math.log(2) + math.lgamma(d / 2)
    return -energy - d * torch.log(sigma) - constant - (d - 1) * log_sinhc(c * distance * distance)


def _factor(distribution: WrappedNormal) -> Tensor:
    """The Cholesky factor of Σ."""
    if distribution.scale_tril is not None:
        return wide(distribution.scale_tril)
    return torch.diag_embed(wide(distribution.scale).expand(*distribution.batch_shape, distribution.loc.shape[-1]))


def _same_mean(q: BallNormal, p: BallNormal) -> bool:
    """Whether the two means are equal number by number; raises when the normals do not live on one ball."""
    if q.loc.shape[-1] != p.loc.shape[-1]:
        raise ValueError(f"Two normals of one dimension are expected, got {q.loc.shape[-1]} and {p.loc.shape[-1]}.")
    if not looks_ahead(q.loc):
        return q.loc is p.loc
    if q.ball is not p.ball and q.ball.c_value != p.ball.c_value:
        raise ValueError(f"Two normals of one ball are expected, got c = {q.ball.c_value} and c = {p.ball.c_value}.")
    return bool((q.loc == p.loc).all())


def _near_one_mean(q: BallNormal, p: BallNormal) -> Tensor:
    """K ρ²/2; see Note [One mean]. Of normals with several scales the second derivatives are no numbers."""
    shift = wide(q.ball.log(wide(q.loc), wide(p.loc)))
    square = shift.square().sum(-1)
    if any(isinstance(one, WrappedNormal) and not one.is_isotropic for one in (q, p)):
        return square.pow(1.5)  # 0 in their place would be taken for them
    if not (square.requires_grad or transformed()):
        return torch.zeros_like(square)
    c, d, sigma = q.ball.c, static(q.loc.shape[-1]), wide(q.scale)
    lam = (c * sigma * sigma if isinstance(q, RiemannianNormal) else torch.zeros_like(sigma)).squeeze(-1)
    t, w = radius_nodes(lam, d)
    u, n = c * (sigma * t).square(), d - 1
    M, inverse = coth_excess(u), 1 / wide(p.scale).square()
    bend = inverse + n * (1 + u * M) * inverse
    if isinstance(p, WrappedNormal):
        bend = bend + n * c * (1 - u * M * M - 2 * M + n * (1 + u * M) * M)
    return (w * bend).sum(-1) / d * square / 2


def _not_negative(divergence: Tensor, q: BallNormal) -> Tensor:
    """See Note [Rounding of a divergence]."""
    return (divergence - divergence.detach().clamp_max(0)).to(q.loc.dtype)
