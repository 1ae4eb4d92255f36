"""Distributions on the unit sphere: uniform, and von Mises-Fisher."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.constraints import Constraint

from horoball.distributions.base import Reparameterized
from horoball.geometry.kernels import broadcast_shapes, log_bessel, may_hold, static, wide
from horoball.geometry.random import standard_normal


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
        shape = broadcast_shapes(value.shape[:-1], self.batch_shape)
        return value.new_full(shape, -log_area(self.d))

    @property
    def mean(self) -> Tensor:
        """0."""
        return torch.zeros(self._extended_shape(), dtype=self.dtype, device=self.device)

    def entropy(self) -> Tensor:
        """Log of the area.

        Example:
            >>> HypersphericalUniform(2).entropy()
            tensor(1.8379)
        """
        return torch.full(self.batch_shape, log_area(self.d), dtype=self.dtype, device=self.device)


_TRIES = 1000  # rejections in a row: a proposal is taken with a probability of at least 0.6


def direction(x: Tensor) -> Tensor:
    """Rows at length 1; rows of zeros, which have no direction, stay 0.

    Example:
        >>> direction(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / torch.where(norm > 0, norm, torch.ones_like(norm))


class VonMisesFisher(Distribution):
    """Directions x of ℝᵖ around the direction of h, the more concentrated the longer h is.

        log p(x) = h·x − log(I_ν(κ)/κ^ν) − (p/2) log 2π,    κ = |h|,  ν = p/2 − 1

    with respect to the area of the unit sphere; h = 0 is the uniform distribution. h is the natural parameter: the
    density and its gradient are smooth at 0, and nothing has to be normalized. See Note [Bessel] in `geometry.kernels`.

    Args:
        natural: h = κμ, shape (*batch, p), p ≥ 2.
        validate_args: Whether arguments are checked.

    Example:
        >>> directions = VonMisesFisher(torch.tensor([0.0, 0.0, 5.0]))
        >>> directions.log_prob(torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, -7.0]]))
        tensor([ -0.2284, -10.2284])
        >>> directions.mean
        tensor([0.0000, 0.0000, 0.8001])
    """

    arg_constraints = {"natural": constraints.real_vector}  # noqa: RUF012
    support = constraints.real_vector

    def __init__(self, natural: Tensor, validate_args: bool | None = None) -> None:
        if not natural.dim() or natural.shape[-1] < 2:
            raise ValueError(
                f"VonMisesFisher expects vectors of two numbers or more, got shape {tuple(natural.shape)}."
            )
        self.natural = natural
        super().__init__(natural.shape[:-1], natural.shape[-1:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> VonMisesFisher:
        """The same distribution for a larger batch."""
        return VonMisesFisher(self.natural.expand(*batch_shape, *self.event_shape), validate_args=False)

    @property
    def order(self) -> float:
        """ν = p/2 − 1."""
        return self.event_shape[0] / 2 - 1

    @property
    def _square(self) -> Tensor:
        return wide(self.natural).square().sum(-1)

    @property
    def mean(self) -> Tensor:
        """E x, shorter than 1: (I_(ν+1)(κ)/I_ν(κ)) h/κ."""
        square = self._square
        shrunk = (log_bessel(self.order + 1, square) - log_bessel(self.order, square)).exp()
        return self.natural * shrunk.to(self.natural.dtype).unsqueeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of the direction of a vector, whose length does not matter.

        Example:
            >>> VonMisesFisher(torch.zeros(2)).log_prob(torch.tensor([0.0, 3.0]))  # −log 2π
            tensor(-1.8379)
        """
        along = wide((self.natural * direction(value)).sum(-1))
        area = self.event_shape[0] / 2 * math.log(2 * math.pi)
        return (along - log_bessel(self.order, self._square) - area).to(self.natural.dtype)

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size(), generator: torch.Generator | None = None) -> Tensor:  # noqa: B008
        """Directions by the rejection of Wood (1994): the cosine to the mean, then a uniform direction beside it.

        Example:
            >>> VonMisesFisher(torch.ones(4, 3)).sample((2,)).shape
            torch.Size([2, 4, 3])
        """
        shape = self._extended_shape(torch.Size(sample_shape))
        h = self.natural.cpu().double().expand(shape).reshape(-1, shape[-1])
        kappa = torch.linalg.vector_norm(h, dim=-1)
        cosine = _cosines(kappa, shape[-1], generator)
        mean = unit_vectors(h)
        side = standard_normal(h.shape, torch.float64, None, generator=generator)
        side = unit_vectors(side - (side * mean).sum(-1, keepdim=True) * mean)
        x = cosine[:, None] * mean + (1 - cosine.square()).clamp_min(0.0).sqrt()[:, None] * side
        return x.reshape(shape).to(self.natural)


def _cosines(kappa: Tensor, p: int, generator: torch.Generator | None) -> Tensor:
    """Draws of w with density ∝ (1 − w²)^((p − 3)/2) exp(κw)."""
    m = p - 1
    b = m / (2 * kappa + (4 * kappa.square() + m**2).sqrt())
    near = (1 - b) / (1 + b)
    # 1 − x² where x nears 1: (1 + b)² − (1 − b)² = 4b keeps its digits.
    limit = kappa * near + m * (4 * b / (1 + b).square()).log()
    out, left = torch.empty_like(kappa), torch.arange(len(kappa))
    for _ in range(_TRIES):
        if not len(left):
            return out
        half = torch.full((len(left),), m / 2, dtype=torch.float64)
        first, second = (_gammas(half, generator) for _ in range(2))
        z = first / (first + second)  # Beta(m/2, m/2)
        w = (1 - (1 + b[left]) * z) / (1 - (1 - b[left]) * z)
        level = kappa[left] * w + m * (1 - near[left] * w).log() - limit[left]
        taken = level >= torch.rand(len(left), dtype=torch.float64, generator=generator).log()
        out[left[taken]] = w[taken]
        left = left[~taken]
    raise RuntimeError(f"{len(left)} directions were not drawn in {_TRIES} tries; is the natural parameter finite?")


def _gammas(shape: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch._standard_gamma(shape, generator=generator)
