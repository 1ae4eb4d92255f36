"""Distributions whose samples are a function of noise, the generator it comes from, and the device for integrals."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, Self

import torch
from torch import Tensor
from torch.distributions import Distribution

from horoball.manifolds import PoincareBall
from horoball.numerics.kernels import wide
from horoball.runtime.devices import has_float64

__all__ = ["Reparameterized", "in_float64"]


def in_float64(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compute a method of a distribution on the CPU if its device has no float64, which quadrature needs.

    Example:
        >>> from horoball import HyperbolicRadius
        >>> HyperbolicRadius.entropy.__name__
        'entropy'
    """

    @wraps(method)
    def placed(self: Any, *values: Tensor) -> Tensor:
        device = self.scale.device if self.scale is not None else self.loc.device
        if has_float64(device):
            return method(self, *values)
        return method(self.on_cpu(), *(value.cpu() for value in values)).to(device)

    return placed


class Reparameterized(Distribution):
    """A distribution that is sampled by `rsample`, from a generator of the caller's choice.

    torch's own distributions draw from the global generator, which all threads share.

    Example:
        >>> from horoball import PoincareBall, WrappedNormal
        >>> from horoball.numerics.random import generator_for
        >>> normal = WrappedNormal(torch.zeros(2), torch.ones(1), PoincareBall())
        >>> one, two = (normal.sample((3,), generator=generator_for(0)) for _ in range(2))
        >>> torch.equal(one, two)
        True
    """

    has_rsample = True
    scale: Any
    ball: PoincareBall

    def on_cpu(self) -> Self:
        """The same distribution with its parameters on the CPU; gradients find their way back.

        Example:
            >>> from horoball import WrappedNormal
            >>> WrappedNormal(torch.zeros(2), torch.ones(1), PoincareBall()).on_cpu().loc
            tensor([0., 0.])
        """
        c = self.ball.c
        return self._with_parameters(Tensor.cpu, PoincareBall(c.cpu() if isinstance(c, Tensor) else c))

    def in_float64(self) -> Self:
        """The same distribution with parameters in float64, where its device has that.

        Example:
            >>> from horoball import WrappedNormal
            >>> WrappedNormal(torch.zeros(2), torch.ones(1), PoincareBall()).in_float64().loc.dtype
            torch.float64
        """
        return self._with_parameters(wide, self.ball)

    def _with_parameters(self, change: Callable[[Tensor], Tensor], ball: PoincareBall) -> Self:
        moved = copy.copy(self)
        vars(moved).pop("_fixed", None)  # what was worked out from the parameters
        for name, value in vars(moved).items():
            if isinstance(value, Tensor):
                setattr(moved, name, change(value))
        moved.ball = ball
        return moved

    @abstractmethod
    def rsample(self, sample_shape: Any = torch.Size(), generator: torch.Generator | None = None) -> Tensor:  # noqa: B008
        """Samples that can be differentiated, shape (*sample, *batch, *event).

        Example:
            >>> from horoball import HypersphericalUniform
            >>> HypersphericalUniform(2).rsample((3,)).shape
            torch.Size([3, 2])
        """

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size(), generator: torch.Generator | None = None) -> Tensor:  # noqa: B008
        """The same without gradients.

        Args:
            sample_shape: Shape in front of the batch.
            generator: Where the noise comes from; torch's global generator if not given.

        Example:
            >>> from horoball import HypersphericalUniform
            >>> HypersphericalUniform(2).sample((3,)).shape
            torch.Size([3, 2])
        """
        return self.rsample(sample_shape, generator)
