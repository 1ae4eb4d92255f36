"""Any distribution as a prior: torch's own know nothing of the ball, and some cannot be sampled with a gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MixtureSameFamily, TransformedDistribution

from horoball.distributions.features import drawn_from
from horoball.distributions.normal import BallNormal
from horoball.manifolds import PoincareBall

__all__ = ["as_prior", "drawn_with_log_prob"]


class ChartDistribution(Distribution):
    """A distribution of the tangent coordinates, as one of the ball: its density is taken per volume of the ball.

    A normal around 0 becomes the wrapped normal around the origin.

    Args:
        base: A distribution of vectors of ℝᵈ.
        ball: The ball.

    Example:
        >>> from torch.distributions import MultivariateNormal
        >>> from horoball import WrappedNormal
        >>> ball, z = PoincareBall(1.0), torch.tensor([1.0, 2.0])
        >>> ChartDistribution(MultivariateNormal(torch.zeros(2), torch.eye(2)), ball).log_prob(z)
        tensor(-5.0646)
        >>> WrappedNormal(torch.zeros(2), torch.ones(1), ball).log_prob(z)
        tensor(-5.0646)
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012  the base has checked its own

    def __init__(self, base: Distribution, ball: PoincareBall) -> None:
        self.base, self.ball = base, ball
        super().__init__(base.batch_shape, base.event_shape, validate_args=False)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether samples have gradients."""
        return bool(self.base.has_rsample)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density at the points, with respect to the Riemannian measure."""
        return self.base.log_prob(value) - self.ball.log_volume(value)

    def sample(self, sample_shape: Any = torch.Size(), generator: torch.Generator | None = None) -> Tensor:  # noqa: B008
        """Points, from torch's global generator if none is given."""
        return drawn_from(self.base, sample_shape, generator)

    def rsample(self, sample_shape: Any = torch.Size(), generator: torch.Generator | None = None) -> Tensor:  # noqa: B008
        """Points with gradients, if the base has them."""
        return drawn_from(self.base, sample_shape, generator, gradients=True)


def as_prior(p: Distribution, ball: PoincareBall) -> Distribution:
    """A prior with a density of the ball.

    Distributions of torch have densities of coordinates, see `ChartDistribution`, unless they are made of ours. A class
    of somebody else is believed to have one of the ball.

    Raises:
        ValueError: It is one of numbers, not of vectors.

    Example:
        >>> from torch.distributions import Normal
        >>> as_prior(Normal(torch.zeros(2), 1.0), PoincareBall())
        Traceback (most recent call last):
        ...
        ValueError: A model expects a prior of vectors, event shape (d,), got event shape (). ...
    """
    if isinstance(p, BallNormal):
        return p
    if len(p.event_shape) != 1:
        raise ValueError(
            f"A model expects a prior of vectors, event shape (d,), got event shape {tuple(p.event_shape)}. Numbers "
            "that are independent make a vector with torch.distributions.Independent(prior, 1)."
        )
    inner: Any = p
    while isinstance(inner, Independent | MixtureSameFamily | TransformedDistribution):
        inner = inner.component_distribution if isinstance(inner, MixtureSameFamily) else inner.base_dist
    return ChartDistribution(p, ball) if type(inner).__module__.startswith("torch.distributions.") else p


def drawn_with_log_prob(
    p: Distribution, sample_shape: tuple[int, ...], generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Points of a prior and their log density.

    Raises:
        ValueError: Gradients are wanted in the parameters of a prior whose points have none.

    Example:
        >>> from horoball import WrappedNormal
        >>> p = WrappedNormal(torch.zeros(2), torch.ones(1), PoincareBall(1.0))
        >>> drawn_with_log_prob(p, (3,), None)[1].shape
        torch.Size([3])
    """
    both: Any = getattr(p, "rsample_and_log_prob", None)
    if both is not None:
        z, log_p = both(sample_shape, generator)
        return z, log_p
    z = drawn_from(p, sample_shape, generator, gradients=bool(p.has_rsample))
    log_p = p.log_prob(z)
    if log_p.requires_grad and not p.has_rsample:
        raise ValueError(
            f"Points of the prior {type(p).__name__} have no gradients, so bounds with a share of them have none in "
            "its parameters. Take prior_share=0, or torch.no_grad() where no gradients are needed."
        )
    return z, log_p
