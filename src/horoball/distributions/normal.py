"""Posterior families of the ball: what all normals share, and how a network's outputs become one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from horoball.distributions.base import Reparameterized
from horoball.geometry.ball import PoincareBall
from horoball.geometry.coordinates import in_ball
from horoball.geometry.curvature import CurvedSpace
from horoball.geometry.exponential import fused_exp, is_fused
from horoball.geometry.kernels import may_hold
from horoball.plugins import Registry

_LEAST_SCALE = 1e-5  # softplus rounds to 0 in float32 for inputs below −104


def positive(raw: Tensor) -> Tensor:
    """Scales from unconstrained numbers: a softplus [errata:7]."""
    return nn.functional.softplus(raw) + _LEAST_SCALE


class BallNormal(Reparameterized):
    """A distribution of z = exp_μ(v) given by the distribution of the tangent vector v at its location μ.

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

    name: ClassVar[str]  # under which models find the family
    scales: ClassVar[tuple[str, ...]] = ("isotropic",)  # structures of the scale that `from_network` can make
    scale: Any  # shape (*batch, 1) or (*batch, d); None where a family has another parameter instead
    support: Constraint = constraints.real_vector  # the tangent chart is all of ℝᵈ
    _parameters: tuple[str, ...] = ()  # tensors beside loc, with their number of event axes in _event_axes
    _event_axes = 1
    centered = False  # whether the location is known to be the origin, as a prior's is: log_μ is the identity then

    def __init__(self, loc: Tensor, ball: PoincareBall, batch_shape: torch.Size, validate_args: bool | None) -> None:
        self.loc = loc if loc.shape[:-1] == batch_shape else loc.expand(*batch_shape, loc.shape[-1])
        self.ball = ball.here() if isinstance(ball, CurvedSpace) else ball
        super().__init__(batch_shape, loc.shape[-1:], validate_args=validate_args)

    @classmethod
    @abstractmethod
    def isotropic(cls, loc: Tensor, scale: Tensor, ball: PoincareBall) -> BallNormal:
        """The member of the family with one scale for all directions; a model's prior is one around the origin.

        Args:
            loc: Shape (*batch, d), in the tangent chart.
            scale: Shape (*batch, 1).
            ball: The ball.

        Example:
            >>> from horoball import RiemannianNormal
            >>> type(RiemannianNormal.isotropic(torch.zeros(1), torch.ones(1), PoincareBall())).__name__  # on a line
            'WrappedNormal'
        """

    @classmethod
    def network_size(cls, d: int, scale: str = "isotropic") -> int:
        """How many numbers a network emits for one posterior: d for the location, then those of the scale.

        Example:
            >>> from horoball import WrappedNormal
            >>> [WrappedNormal.network_size(3, scale) for scale in WrappedNormal.scales]
            [4, 6, 9, 6]
        """
        cls.check_scale(scale)
        return d + 1

    @classmethod
    def from_network(cls, outputs: Tensor, d: int, ball: PoincareBall, scale: str = "isotropic") -> BallNormal:
        """The posterior that a network's outputs stand for.

        The first d numbers are the mean, a tangent vector at the origin in metric units, which is how points are
        carried: the exp₀ that the paper applies to the network's output is no operation here. Arguments are not
        validated at every step: a network's NaN is found by the training loop, which can say where it came from.

        Args:
            outputs: Shape (*batch, network_size(d, scale)).
            d: Dimension of the ball.
            ball: The ball.
            scale: One of `scales`.

        Example:
            >>> from horoball import WrappedNormal
            >>> WrappedNormal.from_network(torch.zeros(4, 5), 2, PoincareBall(1.0), "full").scale_tril.shape
            torch.Size([4, 2, 2])
        """
        loc, raw = outputs.split((d, outputs.shape[-1] - d), -1)
        return cls.isotropic(loc, positive(raw), ball)

    @classmethod
    def check_scale(cls, scale: str) -> None:
        """Reject a structure of the scale that the family does not have.

        Example:
            >>> from horoball import RiemannianNormal
            >>> RiemannianNormal.check_scale("full")
            Traceback (most recent call last):
            ...
            ValueError: The posterior riemannian has the scale isotropic, got 'full'. Choose another scale or posterior.
        """
        if scale not in cls.scales:
            raise ValueError(
                f"The posterior {cls.name} has the scale {' or '.join(cls.scales)}, got {scale!r}. Choose another "
                "scale or posterior."
            )

    @property
    def mean_scale(self) -> Tensor:
        """One number for how wide the distribution is: its scale, averaged over the axes if they differ."""
        return self.scale.mean(-1)

    def coordinates(self) -> tuple[Tensor, Tensor, Tensor]:
        """Ball coordinates of the means, their distances from the origin, and the mean scales, in float64 on the CPU.

        Coordinates can always be read back, see `in_ball`; distances are those of the means themselves.

        Example:
            >>> from horoball import RiemannianNormal
            >>> q = RiemannianNormal(torch.tensor([[3.0, 4.0]]), torch.ones(1, 1), PoincareBall(1.0))
            >>> q.coordinates()[:2]
            (tensor([[0.5920, 0.7893]], dtype=torch.float64), tensor([5.], dtype=torch.float64))
        """
        if self.loc.device.type != "cpu":  # float64 is what not every device has
            return self.on_cpu().coordinates()
        z = self.mean.double()
        return in_ball(z, self.ball), torch.linalg.vector_norm(z, dim=-1), self.mean_scale.double()

    @abstractmethod
    def _draw(self, shape: torch.Size, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Tangent vectors of the given shape (*sample, *batch, d) and their log density."""

    @abstractmethod
    def _log_density(self, v: Tensor) -> Tensor:
        """Log density at exp_μ(v)."""

    def rsample(self, sample_shape: Any = torch.Size(), generator: torch.Generator | None = None) -> Tensor:  # noqa: B008
        """Points exp_μ(v) [eq:main_reparameterisaition], differentiable in the location, the scale and c.

        Args:
            sample_shape: Shape in front of the batch.
            generator: Where the noise comes from; torch's global generator if not given.

        Returns:
            Points of shape (*sample, *batch, d), in the tangent chart.

        Example:
            >>> from horoball import WrappedNormal
            >>> WrappedNormal(torch.zeros(4, 2), torch.ones(4, 1), PoincareBall()).rsample((3,)).shape
            torch.Size([3, 4, 2])
        """
        v, _ = self._draw(self._extended_shape(sample_shape), generator)
        return self._carried(v)

    def rsample_and_log_prob(
        self,
        sample_shape: Any = torch.Size(),  # noqa: B008
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Points and their log density, from the noise that made them.

        Returns:
            Points of shape (*sample, *batch, d) and log densities of shape (*sample, *batch).

        Example:
            >>> from horoball import WrappedNormal
            >>> z, log_q = WrappedNormal(torch.full((2,), 50.0), torch.ones(1), PoincareBall()).rsample_and_log_prob()
            >>> bool(log_q.isfinite())  # far out, where the way back from z to v has few digits left
            True
        """
        v, log_q = self._draw(self._extended_shape(sample_shape), generator)
        return self._carried(v), log_q

    def rsample_and_divergence(
        self,
        prior: Any,
        sample_shape: Any = torch.Size(),  # noqa: B008
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Points and log q(z) − log p(z) there, whose mean is the divergence from a prior.

        Returns:
            Points of shape (*sample, *batch, d) and numbers of shape (*sample, *batch).

        Example:
            >>> from horoball import WrappedNormal
            >>> q = WrappedNormal(torch.zeros(4, 2), torch.ones(4, 1), PoincareBall(1.0))
            >>> q.rsample_and_divergence(q)[1]
            tensor([0., 0., 0., 0.])
        """
        z, log_q = self.rsample_and_log_prob(sample_shape, generator)
        return z, log_q - prior.log_prob(z)

    def _carried(self, v: Tensor) -> Tensor:
        """exp_μ(v) of vectors that were drawn."""
        if is_fused(v, self.ball):
            return fused_exp(self.loc.expand_as(v), v, self.ball.c, volume=False)[0]
        return self.ball.exp(self.loc, v)

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
        return self._log_density(value if self.centered or self._at_origin() else self.ball.log(self.loc, value))

    def _at_origin(self) -> bool:
        """Whether log_μ is the identity, seen for one fixed location: the prior of a model."""
        known = self.batch_shape.numel() == 1 and not self.loc.requires_grad and not torch.compiler.is_compiling()
        return known and not may_hold(self.loc != 0)

    @property
    def mean(self) -> Tensor:
        """The Fréchet mean, which is the location: v and −v are equally likely."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The point of highest density, the location."""
        return self.loc

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The same distributions over a larger batch shape."""
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


POSTERIORS: Registry[type[BallNormal]] = Registry("posterior")
register_posterior = POSTERIORS.register  # a class decorator: models find the family under its `name`
