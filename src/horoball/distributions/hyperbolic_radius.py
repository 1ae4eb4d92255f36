"""The distance from the mean under the Riemannian normal."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from horoball.distributions.radius_autograd import draw, log_normalizer, lower_tail, quantile, radius_nodes
from horoball.distributions.reparameterized import Reparameterized, in_float64
from horoball.manifolds import PoincareBall
from horoball.numerics.kernels import log_sinhc, wide
from horoball.numerics.random import standard_normal

__all__ = ["HyperbolicRadius"]


class HyperbolicRadius(Reparameterized):
    r"""The distribution of r = d(μ, z) for z from the Riemannian normal in d dimensions [eq:radius_density].

    p(r) = exp(−r²/2σ²) (sinh(√c r)/√c)^(d−1) / Z_r,  r ≥ 0; for c = 0 the chi distribution of σ, which
    is the radius of the wrapped normal for every c [eq:wrapped_radius].

    Args:
        d: Dimension of the ball, d ≥ 2.
        scale: σ > 0, shape (*batch).
        ball: The ball, for its c.
        validate_args: As in torch.distributions.

    Example:
        >>> numbers = HyperbolicRadius(2, torch.tensor([0.5, 1.0]), PoincareBall(1.0))
        >>> numbers.mean
        tensor([0.6529, 1.4648])
        >>> numbers.cdf(numbers.icdf(torch.tensor([0.1, 0.9])))
        tensor([0.1000, 0.9000])
    """

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support: Constraint = constraints.nonnegative

    def __init__(self, d: int, scale: Tensor, ball: PoincareBall, *, validate_args: bool | None = None) -> None:
        if d < 2:
            raise ValueError(f"HyperbolicRadius needs d >= 2, got {d}. On a line use WrappedNormal, the plain normal.")
        self.d, self.scale, self.ball = d, scale, ball
        super().__init__(scale.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> HyperbolicRadius:
        """The same distributions over a larger batch shape."""
        new = self._get_checked_instance(HyperbolicRadius, _instance)
        new.d, new.ball = self.d, self.ball
        new.scale = self.scale.expand(torch.Size(batch_shape))
        super(HyperbolicRadius, new).__init__(new.scale.shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def log_normalizer(self) -> Tensor:
        """log Z_r, shape (*batch) [eq:Zr2].

        Example:
            >>> HyperbolicRadius(3, torch.tensor(1.0), PoincareBall(1.0)).log_normalizer
            tensor(1.3872)
        """
        return log_normalizer(self.scale, self.ball.c, self.d).to(self.scale.dtype)

    def rsample(self, sample_shape: Any = torch.Size(), generator: torch.Generator | None = None) -> Tensor:  # noqa: B008
        """Radii by inversion of the cdf, differentiable in σ and c [eq:implicit_gradient].

        The paper rejects proposals, which takes a loop; one of its two simple proposals is no bound [errata:6].

        Args:
            sample_shape: Shape in front of the batch.
            generator: Where the noise comes from; torch's global generator if not given.

        Example:
            >>> HyperbolicRadius(3, torch.ones(4), PoincareBall(1.0)).rsample((2,)).shape
            torch.Size([2, 4])
        """
        shape = self._extended_shape(sample_shape)
        epsilon = standard_normal(shape, torch.float64, self.scale.device, row_axis=-1, generator=generator)
        return draw(self.scale, self.ball.c, epsilon, self.d)[0].to(self.scale.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density with respect to dr.

        Example:
            >>> HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(0.0)).log_prob(torch.tensor(1.0))
            tensor(-0.5000)
        """
        if self._validate_args:
            self._validate_sample(value)
        r, sigma = wide(value), wide(self.scale)
        growth = torch.log(r) + log_sinhc(self.ball.c * r * r)
        log_p = (self.d - 1) * growth - (r / sigma).square() / 2 - log_normalizer(self.scale, self.ball.c, self.d)
        return log_p.to(torch.promote_types(value.dtype, self.scale.dtype))

    @in_float64
    def cdf(self, value: Tensor) -> Tensor:
        """P(R ≤ r) [eq:cdf], of which the paper's print lacks a part [errata:5].

        Example:
            >>> HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(0.0)).cdf(torch.tensor(1.0))  # 1 − exp(−1/2)
            tensor(0.3935)
        """
        if self._validate_args:
            self._validate_sample(value)
        return lower_tail(value, self.scale, self.ball.c, self.d)

    @in_float64
    def icdf(self, value: Tensor) -> Tensor:
        """The radius below which a sample lies with the given probability, in [0, 1].

        Example:
            >>> HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(0.0)).icdf(torch.tensor(0.5))  # √(2 log 2)
            tensor(1.1774)
        """
        if self._validate_args and not bool(((value >= 0) & (value <= 1)).all()):
            raise ValueError(f"icdf expects probabilities in [0, 1], got values from {value.min()} to {value.max()}.")
        r = quantile(self.scale, self.ball.c, torch.special.ndtri(wide(value.detach())), self.d)
        if not value.requires_grad:
            return r
        # ∂r/∂u = 1/p(r)
        inside = (value > 0) & (value < 1)
        rate = torch.exp(-self.log_prob(torch.where(inside, r, 1.0))).detach()
        return r + torch.where(inside, rate * (value - value.detach()), 0.0)

    def _moments(self) -> tuple[Tensor, Tensor]:
        sigma = wide(self.scale)
        t, w = radius_nodes(self.ball.c * sigma * sigma, self.d)
        mean = (w * t).sum(-1)
        return sigma * mean, (w * (t - mean.unsqueeze(-1)).square()).sum(-1) * sigma * sigma

    @property
    @in_float64
    def mean(self) -> Tensor:
        """E[r] [eq:mean_radius].

        Example:
            >>> HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(0.0)).mean  # √(π/2)
            tensor(1.2533)
        """
        return self._moments()[0].to(self.scale.dtype)

    @property
    @in_float64
    def variance(self) -> Tensor:
        """Var[r], which the paper uses but does not give [errata:9].

        Example:
            >>> HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(0.0)).variance  # 2 − π/2
            tensor(0.4292)
        """
        return self._moments()[1].to(self.scale.dtype)

    @in_float64
    def entropy(self) -> Tensor:
        """−E[log p(r)].

        Example:
            >>> HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(0.0)).entropy()
            tensor(0.9420)
        """
        sigma = wide(self.scale)
        t, w = radius_nodes(self.ball.c * sigma * sigma, self.d, graded=True)  # for log t
        r = sigma.unsqueeze(-1) * t
        growth = torch.log(r) + log_sinhc(self.ball.c * r * r)
        log_p = (self.d - 1) * growth - t.square() / 2
        log_z = log_normalizer(self.scale, self.ball.c, self.d)
        return (log_z - (w * log_p).sum(-1)).to(self.scale.dtype)
