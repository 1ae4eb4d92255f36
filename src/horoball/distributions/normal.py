"""What the two normals of the ball share: a location, a way of drawing tangent noise, and torch's contract."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.constraints import Constraint

from horoball.manifolds import PoincareBall
from horoball.numerics import may_hold

__all__ = ["BallNormal"]


class BallNormal(Distribution):
    """A law of z = exp_μ(v) given by the law of the tangent vector v at its location μ.

    Densities are with respect to the Riemannian measure of the ball [eq:riemannian_measure]. A density needs only the
    noise v that made the sample, so `rsample_and_log_prob` loses nothing to the round trip through the point.

    Args:
        loc: μ, shape (*batch, d), in the tangent chart.
        ball: The ball.
        batch_shape: Shape of the batch.
        validate_args: As in torch.distributions.

    Example:
        >>> from horoball import RiemannianNormal, WrappedNormal
        >>> issubclass(RiemannianNormal, BallNormal) and issubclass(WrappedNormal, BallNormal)
        True
    """

    support: Constraint = constraints.real_vector  # the tangent chart is all of ℝᵈ
    has_rsample = True
    _parameters: tuple[str, ...] = ()  # tensors beside loc, with their number of event axes in _event_axes
    _event_axes = 1

    def __init__(self, loc: Tensor, ball: PoincareBall, batch_shape: torch.Size, validate_args: bool | None) -> None:
        self.loc = loc if loc.shape[:-1] == batch_shape else loc.expand(*batch_shape, loc.shape[-1])
        self.ball = ball
        super().__init__(batch_shape, loc.shape[-1:], validate_args=validate_args)

    @abstractmethod
    def _draw(self, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """Tangent vectors of the given shape (*sample, *batch, d) and their log density."""

    @abstractmethod
    def _log_density(self, v: Tensor) -> Tensor:
        """Log density at exp_μ(v)."""

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Points exp_μ(v) [eq:main_reparameterisaition], differentiable in the location, the scale and c.

        Args:
            sample_shape: Shape in front of the batch.

        Returns:
            Points of shape (*sample, *batch, d), in the tangent chart.

        Example:
            >>> from horoball import WrappedNormal
            >>> WrappedNormal(torch.zeros(4, 2), torch.ones(4, 1), PoincareBall()).rsample((3,)).shape
            torch.Size([3, 4, 2])
        """
        v, _ = self._draw(self._extended_shape(sample_shape))
        return self.ball.exp(self.loc, v)

    def rsample_and_log_prob(self, sample_shape: Any = torch.Size()) -> tuple[Tensor, Tensor]:  # noqa: B008
        """Points and their log density, from the noise that made them.

        Args:
            sample_shape: Shape in front of the batch.

        Returns:
            Points of shape (*sample, *batch, d) and log densities of shape (*sample, *batch).

        Example:
            >>> from horoball import WrappedNormal
            >>> z, log_q = WrappedNormal(torch.full((2,), 50.0), torch.ones(1), PoincareBall()).rsample_and_log_prob()
            >>> bool(log_q.isfinite())  # far out, where the way back from z to v has few digits left
            True
        """
        v, log_q = self._draw(self._extended_shape(sample_shape))
        return self.ball.exp(self.loc, v), log_q

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density at the points, with respect to the Riemannian measure.

        Args:
            value: Points, shape (*sample, *batch, d), in the tangent chart.

        Example:
            >>> from horoball import WrappedNormal
            >>> WrappedNormal(torch.zeros(2), torch.ones(1), PoincareBall()).log_prob(torch.zeros(2))  # −log 2π
            tensor(-1.8379)
        """
        if self._validate_args:
            self._validate_sample(value)
        return self._log_density(value if self._at_origin() else self.ball.log(self.loc, value))

    def _at_origin(self) -> bool:
        """Whether log_μ is the identity, seen for one fixed location: the prior of a model."""
        known = self.batch_shape.numel() == 1 and not self.loc.requires_grad and not torch.compiler.is_compiling()
        return known and not may_hold(self.loc != 0)

    @property
    def mean(self) -> Tensor:
        """The Fréchet mean, which is the location: v and −v are equally likely.

        Example:
            >>> from horoball import WrappedNormal
            >>> WrappedNormal(torch.ones(2), torch.ones(1), PoincareBall()).mean
            tensor([1., 1.])
        """
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The point of highest density, the location.

        Example:
            >>> from horoball import WrappedNormal
            >>> WrappedNormal(torch.ones(2), torch.ones(1), PoincareBall()).mode
            tensor([1., 1.])
        """
        return self.loc

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The same laws over a larger batch shape."""
        new = self._get_checked_instance(type(self), _instance)
        batch_shape = torch.Size(batch_shape)
        for name, value in self.__dict__.items():
            if name not in ("_batch_shape", "_event_shape", *self._parameters):
                new.__dict__[name] = value
        for name in self._parameters:
            value = getattr(self, name)
            if value is not None:
                value = value.expand(*batch_shape, *value.shape[value.dim() - self._event_axes :])
            setattr(new, name, value)
        BallNormal.__init__(new, self.loc, self.ball, batch_shape, False)
        new._validate_args = self._validate_args
        return new
