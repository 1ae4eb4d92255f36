"""A sphere as a space, with a posterior family of its own: Fisher's distribution of directions (1953)."""

import math

import torch

from horoball.distributions import BallNormal, register_posterior
from horoball.geometry.manifold import register_manifold


def _norm(v):
    return torch.linalg.vector_norm(v, dim=-1, keepdim=True).clamp_min(1e-12)


def _sinc(x):
    return torch.sinc(x / math.pi)  # sin(x)/x


def _turned(z, v, height):
    """(v, height) in ℝ³, by the rotation that brings the pole to the point z along the shortest way."""
    r = _norm(z)
    along = (z * v).sum(-1, keepdim=True)
    half = _sinc(r / 2).square() / 2
    return v + z * (_sinc(r) * height - half * along), r.cos() * height - _sinc(r) * along


def _up(v):
    r = _norm(v)
    return v * _sinc(r), r.cos()


def _down(p, height):
    """The tangent vector at the pole, not longer than π, that leads to a point of ℝ³."""
    r = _norm(p)
    return p * (torch.atan2(r, height) / r)


@register_manifold
class Sphere:
    """The unit sphere of two dimensions; a point is the tangent vector at the pole that leads to it."""

    name = "sphere"
    injectivity_radius = math.pi

    def __init__(self, d=2):
        if d != 2:
            raise ValueError(f"This sphere has two dimensions, not {d}. Set n_components (--dim) to 2.")

    def exp(self, z, v):
        return _down(*_turned(z, *_up(v)))

    def log(self, z, y):
        return _down(*_turned(-z, *_up(y)))

    def dist(self, z, y):
        return torch.linalg.vector_norm(self.log(z, y), dim=-1)

    def log_volume(self, v):
        return _sinc(_norm(v)).squeeze(-1).clamp_min(1e-12).log()


@register_posterior
class Fisher(BallNormal):
    """p(z) = κ exp(κ cos r)/(4π sinh κ), of the distance r from the location, with κ = 1/σ²."""

    name = "fisher"
    arg_constraints = {}
    _parameters = ("scale",)

    def __init__(self, loc, scale, ball, validate_args=None):
        batch = torch.broadcast_shapes(loc.shape[:-1], scale.shape[:-1])
        self.scale = scale.expand(*batch, 1)
        super().__init__(loc, ball, batch, validate_args)

    @classmethod
    def isotropic(cls, loc, scale, ball):
        return cls(loc, scale, ball, validate_args=False)

    def _of_height(self, missing):
        """Log density, where the cosine of the distance is 1 − missing."""
        k = self.scale.squeeze(-1).square().reciprocal()
        return k.log() - math.log(2 * math.pi) - torch.log1p(-torch.exp(-2 * k)) - k * missing

    def _draw(self, shape, generator=None):
        u, turn = torch.rand(2, *shape[:-1], dtype=self.loc.dtype, generator=generator).clamp(1e-6, 1 - 1e-6)
        k = self.scale.squeeze(-1).square().reciprocal()
        missing = -torch.log1p(u * torch.expm1(-2 * k)) / k  # the inverse of its distribution function
        r = 2 * torch.asin((missing / 2).clamp(1e-12, 1 - 1e-6).sqrt())
        turn = 2 * math.pi * turn
        return torch.stack((r * turn.cos(), r * turn.sin()), -1), self._of_height(missing)

    def _log_density(self, v):
        return self._of_height(2 * (_norm(v).squeeze(-1) / 2).sin().square())
