"""The uniform direction."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions.constraints import Constraint

from horoball.distributions.reparameterized import Reparameterized
from horoball.numerics.kernels import may_hold, static
from horoball.numerics.random import standard_normal

__all__ = ["HypersphericalUniform", "log_area", "unit_vectors"]


class _UnitSphere(Constraint):
    """Unit vectors, to the rounding of their dtype."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (torch.linalg.vector_norm(value, dim=-1) - 1).abs() < 100 * torch.finfo(value.dtype).eps

    def __repr__(self) -> str:
        return "UnitSphere()"


def log_area(d: int) -> float:
    """Log of the area of the unit sphere of ℝᵈ, 2π^(d/2)/Γ(d/2) [eq:area].

    Example:
        >>> round(math.exp(log_area(3)) / math.pi, 12)
        4.0
    """
    d = static(d)
    return math.log(2) + d / 2 * math.log(math.pi) - math.lgamma(d / 2)


def unit_vectors(x: Tensor) -> Tensor:
    """Directions of vectors; the first axis for a vector of zeros.

    Example:
        >>> unit_vectors(torch.tensor([[0.0, 2.0], [0.0, 0.0]]))
        tensor([[0., 1.],
                [1., 0.]])
    """
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    lost = norm == 0
    if may_hold(lost):  # of normal vectors one in 2^(24d) or so
        first = torch.zeros(x.shape[-1], dtype=x.dtype, device=x.device)
        first[0] = 1
        x, norm = x + lost * first, norm + lost
    return x / norm


class HypersphericalUniform(Reparameterized):
    """The uniform distribution on the unit sphere S^(d−1) of ℝᵈ, the direction of both normals [eq:direction].

    Args:
        d: Dimension of the vectors, d ≥ 1; for d = 1 the two signs.
        batch_shape: Shape of the batch.
        dtype: dtype of the samples; torch's default if not given.
        device: Device of the samples.
        validate_args: As in torch.distributions.

    Example:
        >>> direction = HypersphericalUniform(3)
        >>> torch.allclose(direction.sample((5,)).norm(dim=-1), torch.ones(5))
        True
        >>> direction.log_prob(torch.tensor([1.0, 0.0, 0.0]))  # −log 4π
        tensor(-2.5310)
    """

    arg_constraints: dict[str, Constraint] = {}  # noqa: RUF012
    support: Constraint = _UnitSphere()

    def __init__(
        self,
        d: int,
        batch_shape: Any = torch.Size(),  # noqa: B008
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if d < 1:
            raise ValueError(f"HypersphericalUniform needs d >= 1, got {d}.")
        self.d, self.dtype, self.device = d, dtype or torch.get_default_dtype(), device
        super().__init__(torch.Size(batch_shape), torch.Size((d,)), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> HypersphericalUniform:
        """The same distribution over a larger batch shape."""
        new = self._get_checked_instance(HypersphericalUniform, _instance)
        new.d, new.dtype, new.device = self.d, self.dtype, self.device
        super(HypersphericalUniform, new).__init__(torch.Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def rsample(self, sample_shape: Any = torch.Size(), generator: torch.Generator | None = None) -> Tensor:  # noqa: B008
        """Directions of standard normal vectors; there is nothing to differentiate.

        Args:
            sample_shape: Shape in front of the batch.
            generator: Where the noise comes from; torch's global generator if not given.

        Example:
            >>> HypersphericalUniform(2, (4,)).rsample((3,)).shape
            torch.Size([3, 4, 2])
        """
        shape = self._extended_shape(sample_shape)
        return unit_vectors(standard_normal(shape, self.dtype, self.device, generator=generator))

    def log_prob(self, value: Tensor) -> Tensor:
        """Minus the log of the area, at every unit vector.

        Example:
            >>> HypersphericalUniform(2).log_prob(torch.tensor([0.0, 1.0]))  # −log 2π
            tensor(-1.8379)
        """
        if self._validate_args:
            self._validate_sample(value)
        shape = torch.broadcast_shapes(value.shape[:-1], self.batch_shape)
        return value.new_full(shape, -log_area(self.d))

    @property
    def mean(self) -> Tensor:
        """0.

        Example:
            >>> HypersphericalUniform(2).mean
            tensor([0., 0.])
        """
        return torch.zeros(self._extended_shape(), dtype=self.dtype, device=self.device)

    def entropy(self) -> Tensor:
        """Log of the area.

        Example:
            >>> HypersphericalUniform(2).entropy()
            tensor(1.8379)
        """
        return torch.full(self.batch_shape, log_area(self.d), dtype=self.dtype, device=self.device)
