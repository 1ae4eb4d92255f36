"""What all distributions of the package share: reparameterized draws, and independent features."""

from __future__ import annotations

import copy
import inspect
import math
from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, Self

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, Independent, Normal, Poisson
from torch.nn.functional import logsigmoid

from horoball.devices import has_float64
from horoball.geometry.ball import PoincareBall
from horoball.geometry.kernels import broadcast_shapes, looks_ahead, wide
from horoball.geometry.random import global_seed


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
        >>> from horoball.geometry.random import generator_for
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
        return self._with_parameters(Tensor.cpu, on_cpu(self.ball))

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

        Example:
            >>> from horoball import HypersphericalUniform
            >>> HypersphericalUniform(2).sample((3,)).shape
            torch.Size([3, 2])
        """
        return self.rsample(sample_shape, generator)


def on_cpu(ball: Any) -> Any:
    """The space on the CPU; of a ball's learned c, gradients find their way back."""
    if isinstance(ball, PoincareBall):
        return PoincareBall(ball.c.cpu() if isinstance(ball.c, Tensor) else ball.c)
    return copy.deepcopy(ball).cpu() if isinstance(ball, torch.nn.Module) else ball


_CHUNK = 1 << 16  # elements at a time


class Features(Independent):  # type: ignore[type-arg]
    """A vector of independent features, whose sum torch's own class cannot form where there are no rows."""

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density, summed over features."""
        return self.base_dist.log_prob(value).sum(-1)

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size(), generator: torch.Generator | None = None) -> Tensor:  # noqa: B008
        """Vectors of features."""
        return _drawn(self.base_dist, torch.Size(sample_shape), generator)


def drawn_from(
    distribution: Distribution,
    sample_shape: Any = (),
    generator: torch.Generator | None = None,
    *,
    gradients: bool = False,
) -> Tensor:
    """Samples of any distribution from a generator, whether it takes one, as ours do, or not, as torch's.

    Args:
        distribution: The distribution.
        sample_shape: Shape in front of the batch.
        generator: Where the numbers come from; torch's global generator if not given.
        gradients: Whether it is `rsample` that is called.
    """
    shape = torch.Size(sample_shape)
    draw: Any = distribution.rsample if gradients else distribution.sample
    if generator is None:
        return draw(shape)
    if "generator" in inspect.signature(draw).parameters:
        return draw(shape, generator=generator)
    with global_seed(_seed(generator)):
        return draw(shape)


def _seed(generator: torch.Generator) -> int:
    return int(torch.randint(1 << 62, (), generator=generator, device=generator.device))


def _drawn(distribution: Distribution, sample_shape: torch.Size, generator: torch.Generator | None) -> Tensor:
    """What `distribution.sample` returns, from a generator, which torch's distributions do not take."""
    shape = distribution._extended_shape(sample_shape)

    def at(parameter: Tensor) -> Tensor:  # where the generator is, so that a seed gives the same on every device
        return parameter if generator is None else parameter.to(generator.device)

    if isinstance(distribution, Normal):
        loc, scale = at(distribution.loc).expand(shape), at(distribution.scale).expand(shape)
        return torch.normal(loc, scale, generator=generator).to(distribution.loc.device)
    if isinstance(distribution, Bernoulli):
        probs = at(distribution.probs)
        return torch.bernoulli(probs.expand(shape), generator=generator).to(distribution.probs.device)
    if isinstance(distribution, Poisson):
        return torch.poisson(at(distribution.rate).expand(shape), generator=generator).to(distribution.rate.device)
    if isinstance(distribution, Categorical):
        flat = at(distribution.probs).reshape(-1, distribution.probs.shape[-1])
        drawn = torch.multinomial(flat, sample_shape.numel(), True, generator=generator).T.reshape(shape)
        return drawn.to(distribution.probs.device)
    if generator is None:
        return distribution.sample(sample_shape)
    with global_seed(_seed(generator)):  # of a plugin, say, which only torch knows how to sample
        return distribution.sample(sample_shape)


class PoissonFeatures(Features):
    """Counts. Of x log λ − λ − log x! next to nothing is left where x is large: it is taken in float64."""

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability, summed over features."""
        rate, x = wide(self.base_dist.rate), wide(value)
        return (x.xlogy(rate) - rate - torch.lgamma(x + 1)).sum(-1).to(self.base_dist.rate.dtype)


class BernoulliFeatures(Features):
    """Truths, or gray values in [0, 1] by the cross-entropy [errata:11]."""

    def log_prob(self, value: Tensor) -> Tensor:
        """Cross-entropy with its sign turned, summed over features."""
        h = self.base_dist.logits
        x = value if value.is_floating_point() else value.to(h.dtype)
        usual = looks_ahead(h) and h.dtype == x.dtype and broadcast_shapes(h.shape, x.shape) == h.shape
        return _CrossEntropy.apply(h, x) if usual else _brief_cross_entropy(h, x)


class _CrossEntropy(torch.autograd.Function):
    """Σ xh − log(1 + exp h), summed over features, some samples at a time so that the passes run in cache.

    As fast as torch's binary_cross_entropy_with_logits, whose (1 − x)h − log σ(h) loses the digits of what is nearly
    sure.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(h, x)
        count = max(1, _CHUNK // max(1, math.prod(h.shape[1:])))
        if h.dim() <= x.dim() or len(h) <= count:
            return _cross_entropy(h, x)
        return torch.cat([_cross_entropy(part, x) for part in h.split(count)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        h, x = ctx.saved_tensors
        grad = grad.unsqueeze(-1)
        grad_x = (grad * h).sum_to_size(x.shape) if ctx.needs_input_grad[1] else None
        rest = h.sigmoid()
        if torch.is_grad_enabled():
            return (x - rest) * grad, grad_x
        return torch.sub(x, rest, out=rest).mul_(grad), grad_x


def _cross_entropy(h: Tensor, x: Tensor) -> Tensor:
    """With e = exp(−|h|) and w = 1 + e rounded, log(1 + e) = log w + (e − (w − 1)) to the last digit.

    log1p itself takes ten times as long where e is tiny, and exp where e would be denormal: hence the least e. Three
    pieces of memory are used again and again: new ones would cost as much as what is computed in them.
    """
    e = h.abs().clamp_max_(-1 - math.log(torch.finfo(h.dtype).tiny)).neg_().exp_()
    w = e + 1
    log = w.log()
    log.add_(e.sub_(w.sub_(1)))
    torch.mul(x, h, out=w).sub_(torch.clamp_min(h, 0.0, out=e)).sub_(log)
    return w.sum(-1)


def _brief_cross_entropy(h: Tensor, x: Tensor) -> Tensor:
    """The same in few operations, for a GPU, a compiled graph and `torch.func`."""
    return (x * h - h.relu() + logsigmoid(h.abs())).sum(-1)
