"""A posterior family: independent Laplace noise in the tangent space, wrapped around the ball."""

import torch

from horoball.distributions import BallNormal, register_posterior


@register_posterior
class WrappedLaplace(BallNormal):
    """z = exp_μ(v), with coordinates of v from a Laplace distribution."""

    name = "wrapped_laplace"
    arg_constraints = {}
    _parameters = ("scale",)  # tensors beside loc, for expand()

    def __init__(self, loc, scale, ball, validate_args=None):
        batch = torch.broadcast_shapes(loc.shape[:-1], scale.shape[:-1])
        self.scale = scale.expand(*batch, 1)
        super().__init__(loc, ball, batch, validate_args)

    @classmethod
    def isotropic(cls, loc, scale, ball):
        return cls(loc, scale, ball, validate_args=False)

    def _draw(self, shape, generator=None):
        u = torch.rand(shape, dtype=self.loc.dtype, generator=generator).clamp(1e-6, 1 - 1e-6) - 0.5
        v = -self.scale * u.sign() * torch.log1p(-2 * u.abs())
        return v, self._log_density(v)

    def _log_density(self, v):
        return -(v.abs() / self.scale + torch.log(2 * self.scale)).sum(-1) - self.ball.log_volume(v)
