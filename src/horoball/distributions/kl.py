"""Kullback–Leibler divergences between normals of the ball, registered with `torch.distributions.kl_divergence`.

For isotropic normals the divergence depends on the two means only through their distance ρ. With q's radius r and the
uniform angle φ, the distance of a sample from p's mean is the third side of a triangle (ρ, r, φ), so

    KL(q ‖ p) = −H(q) − E[log p(side(ρ, r, φ))]

is a two-dimensional integral of a smooth function: no sampling, no variance, gradients in everything. Around one mean
the angle drops out, and for normals of the same kind the rest is closed.

Note [Rounding of a divergence]: entropies of some thousand nats leave a divergence of 0 with a rounding error of either
sign. A negative one is returned as 0; gradients are left as they are.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import register_kl

from horoball.distributions.radius_autograd import log_normalizer, radius_nodes
from horoball.distributions.riemannian_normal import RiemannianNormal
from horoball.distributions.wrapped_normal import WrappedNormal
from horoball.manifolds.translation import side
from horoball.numerics import log_sinhc, static, wide
from horoball.quadrature import sphere_rule

__all__: list[str] = []

Normal = RiemannianNormal | WrappedNormal


@register_kl(WrappedNormal, WrappedNormal)
def _kl_wrapped_wrapped(q: WrappedNormal, p: WrappedNormal) -> Tensor:
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
    # At one mean the gradient in the means is 0, not none at all.
    return _not_negative((terms + (moved.square() if flat else 0 * shift).sum(-1)) / 2, q)


@register_kl(RiemannianNormal, RiemannianNormal)
@register_kl(RiemannianNormal, WrappedNormal)
@register_kl(WrappedNormal, RiemannianNormal)
def _kl_by_quadrature(q: Normal, p: Normal) -> Tensor:
    for law in (q, p):
        if isinstance(law, WrappedNormal) and not law.is_isotropic:
            raise NotImplementedError(
                "The divergence of a wrapped normal with a diagonal or full covariance is closed only around the same "
                "mean. Estimate it: z, log_q = q.rsample_and_log_prob((n,)); (log_q - p.log_prob(z)).mean(0)."
            )
    c = q.ball.c
    d = static(q.loc.shape[-1])
    sigma = wide(q.scale)
    lam = (c * sigma * sigma if isinstance(q, RiemannianNormal) else torch.zeros_like(sigma)).squeeze(-1)
    t, w = radius_nodes(lam, d)
    r = sigma * t
    entropy = -(w * _log_density(q, r)).sum(-1)
    if _same_mean(q, p):
        still = 0 * (wide(q.loc) - wide(p.loc)).sum(-1)  # the gradient in the means is 0, not none at all
        return _not_negative(still - entropy - (w * _log_density(p, r)).sum(-1), q)
    rho = wide(q.ball.dist(wide(q.loc), wide(p.loc)))
    P, weight = sphere_rule(d, rho.device)
    distance = side(rho[..., None, None], r.unsqueeze(-1), P, c)
    cross = (_log_density(p, distance.flatten(-2)).unflatten(-1, distance.shape[-2:]) * weight).sum(-1)
    return _not_negative(-entropy - (w * cross).sum(-1), q)


def _log_density(law: Normal, distance: Tensor) -> Tensor:
    """Log density at distances (*batch, k) from the mean, in float64, up to the area of the sphere, which cancels."""
    d, c = static(law.loc.shape[-1]), law.ball.c
    sigma = wide(law.scale)
    energy = (distance / sigma).square() / 2
    if isinstance(law, RiemannianNormal):
        return -energy - log_normalizer(sigma, c, d)
    # The chi law's constant, in place of (2π)^(d/2)/area
    constant = (d / 2 - 1) * math.log(2) + math.lgamma(d / 2)
    return -energy - d * torch.log(sigma) - constant - (d - 1) * log_sinhc(c * distance * distance)


def _factor(law: WrappedNormal) -> Tensor:
    """The Cholesky factor of Σ."""
    if law.scale_tril is not None:
        return wide(law.scale_tril)
    return torch.diag_embed(wide(law.scale).expand(*law.batch_shape, law.loc.shape[-1]))


def _same_mean(q: Normal, p: Normal) -> bool:
    """Whether the two means are equal number by number; raises when the normals do not live on one ball."""
    if q.loc.shape[-1] != p.loc.shape[-1]:
        raise ValueError(f"Two normals of one dimension are expected, got {q.loc.shape[-1]} and {p.loc.shape[-1]}.")
    if torch.compiler.is_compiling():
        return q.loc is p.loc
    if q.ball is not p.ball and q.ball.c_value != p.ball.c_value:
        raise ValueError(f"Two normals of one ball are expected, got c = {q.ball.c_value} and c = {p.ball.c_value}.")
    return bool((q.loc == p.loc).all())


def _not_negative(divergence: Tensor, q: Normal) -> Tensor:
    """See Note [Rounding of a divergence]."""
    return (divergence - divergence.detach().clamp_max(0)).to(q.loc.dtype)
