"""Priors beside a single normal: mixtures on the ball, and any distribution of torch.

The mean of a mixture is one of the ball. torch's own distributions know nothing of the ball, and some cannot be sampled
with a gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MixtureSameFamily, TransformedDistribution

from horoball.distributions.base import drawn_from, on_cpu
from horoball.distributions.normal import BallNormal
from horoball.distributions.radius import radius_nodes
from horoball.distributions.riemannian_normal import RiemannianNormal
from horoball.distributions.wrapped_normal import WrappedNormal
from horoball.geometry.ball import PoincareBall
from horoball.geometry.coordinates import in_ball
from horoball.geometry.kernels import static
from horoball.geometry.quadrature import sphere_rule
from horoball.geometry.translation import side

_STEPS = 200
_LEAST = 1e-12  # √c·step at which the mean has come to rest
_NEAR = 1e-4  # √c·ρ below which the pull of a component is taken to grow in proportion to ρ


class BallMixture(MixtureSameFamily):
    """torch's `MixtureSameFamily` of normals of the ball, whose `mean` is the Fréchet mean.

    torch's own averages the means of the components in the chart, and that is no mean of the ball. Arguments are those
    of `MixtureSameFamily`; the components are a normal of the ball with batch shape (*batch, components).

    Example:
        >>> from torch.distributions import Categorical
        >>> from horoball import PoincareBall
        >>> loc = torch.tensor([[3.0, 0.0], [0.0, 3.0]])
        >>> components = WrappedNormal(loc, torch.full((2, 1), 0.1), PoincareBall(1.0))
        >>> mixture = BallMixture(Categorical(torch.ones(2)), components)
        >>> mixture.mean  # the middle of the geodesic; the chart's is (1.5, 1.5)
        tensor([0.6183, 0.6183])
    """

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size(), generator: torch.Generator | None = None) -> Tensor:  # noqa: B008
        """Points, each of one component.

        Example:
            >>> from horoball.geometry import PoincareBall
            >>> components = WrappedNormal(torch.zeros(3, 2), torch.ones(3, 1), PoincareBall(1.0))
            >>> BallMixture(torch.distributions.Categorical(torch.ones(3)), components).sample((5,)).shape
            torch.Size([5, 2])
        """
        shape, probs = torch.Size(sample_shape), self.mixture_distribution.probs
        # Where the generator is, so that a seed gives the same on every device.
        flat = probs.reshape(-1, probs.shape[-1]).to(probs.device if generator is None else generator.device)
        chosen = torch.multinomial(flat, shape.numel(), True, generator=generator).T.reshape(*shape, *probs.shape[:-1])
        points = drawn_from(self.component_distribution, shape, generator)  # (*sample, *batch, components, d)
        index = chosen.to(points.device)[..., None, None].expand(*chosen.shape, 1, points.shape[-1])
        return points.gather(-2, index).squeeze(-2)

    @property
    def mean(self) -> Tensor:
        """The Fréchet mean: the point y of the least E[d(z, y)²]. It has no gradient.

        Of components with one scale for all directions the integrals are known, by quadrature.
        """
        components: Any = self.component_distribution
        if not isinstance(components, BallNormal) or getattr(components.ball, "is_euclidean", False):
            return super().mean
        if isinstance(components, WrappedNormal) and not components.is_isotropic:
            raise NotImplementedError(
                "The mean of a mixture is known for components with one scale for all directions. Estimate it from "
                "samples."
            )
        if not isinstance(components, (RiemannianNormal, WrappedNormal)):
            raise NotImplementedError(f"The mean of a mixture of {type(components).__name__} is not known.")
        with torch.no_grad():
            return _frechet_mean(self.mixture_distribution.probs, components.in_float64()).to(components.loc.dtype)


def _frechet_mean(weights: Tensor, components: Any) -> Tensor:
    """The gradient of E[d(z, y)²]/2 is −Σ weight·pull(ρ)·direction, followed until it vanishes."""
    ball, weights = components.ball, weights.double().unsqueeze(-1)
    root = ball.c_value**0.5
    y = ball.geodesic(torch.zeros_like(components.loc), components.loc, 1.0)
    y = y.gather(-2, weights.argmax(-2, keepdim=True).expand(*weights.shape[:-2], 1, y.shape[-1]))
    for _ in range(_STEPS):
        to = ball.log(y, components.loc)
        rho = torch.linalg.vector_norm(to, dim=-1)
        pull = (_pull(rho.clamp_min(_NEAR / root), components) / rho.clamp_min(_NEAR / root)).unsqueeze(-1)
        # E[d²]/2 bends by at most ρ coth ρ times its pull across the way to a component, and by 1 along it.
        bend = (root * rho).clamp_min(_NEAR).unsqueeze(-1)
        step = (weights * pull * to).sum(-2, keepdim=True) / (weights * pull.clamp_min(1.0) * bend / bend.tanh()).sum(
            -2, keepdim=True
        )
        y = ball.exp(y, step)
        if float(torch.linalg.vector_norm(step, dim=-1).max()) * root < _LEAST:
            return y.squeeze(-2)
    raise FloatingPointError(f"The mean of the mixture has not come to rest in {_STEPS} steps.")


def _pull(rho: Tensor, components: Any) -> Tensor:
    """½ ∂E[d(z, y)²]/∂ρ of each component, where ρ = d(y, mean)."""
    c, d = components.ball.c_value, static(components.loc.shape[-1])
    sigma = components.scale
    lam = c * sigma * sigma if isinstance(components, RiemannianNormal) else torch.zeros_like(sigma)
    t, w = radius_nodes(lam.squeeze(-1), d)
    P, share = sphere_rule(d, rho.device)
    with torch.enable_grad():
        rho = rho.detach().requires_grad_()
        distance = side(rho[..., None, None], (sigma * t).unsqueeze(-1), P, c)
        half = ((distance.square() * share).sum(-1) * w).sum() / 2
        return torch.autograd.grad(half, rho)[0]


class ChartDistribution(Distribution):
    """A distribution of the tangent coordinates, as one of the ball: its density is taken per volume of the ball.

    A normal around 0 becomes the wrapped normal around the origin.
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

    @property
    def loc(self) -> Tensor:
        """The mean of the coordinates, which is what a map shows."""
        return self.base.mean

    mean = loc

    @property
    def mean_scale(self) -> Tensor:
        """The standard deviation of the coordinates, averaged over them."""
        return self.base.stddev.mean(-1)

    def coordinates(self) -> tuple[Tensor, Tensor, Tensor]:
        """As of `BallNormal`."""
        z, scale = self.mean.cpu().double(), self.mean_scale.cpu().double()
        return in_ball(z, on_cpu(self.ball)), torch.linalg.vector_norm(z, dim=-1), scale

    def rsample_and_log_prob(
        self,
        sample_shape: Any = torch.Size(),  # noqa: B008
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Points and their log density."""
        z = self.rsample(sample_shape, generator)
        return z, self.log_prob(z)

    def rsample_and_divergence(
        self,
        prior: Any,
        sample_shape: Any = torch.Size(),  # noqa: B008
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Points and log q(z) − log p(z) there."""
        z, log_q = self.rsample_and_log_prob(sample_shape, generator)
        return z, log_q - prior.log_prob(z)

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


_OFFERS = ("rsample_and_log_prob", "rsample_and_divergence", "log_prob", "mean", "mean_scale", "coordinates", "ball")


def as_posterior(q: Distribution, ball: PoincareBall) -> Any:
    """A posterior that a network of somebody else's gives: one of ours, one that offers as much, or one of torch's.

    Raises:
        TypeError: It is another, or cannot be sampled with gradients; the message says what is missing.
    """
    if isinstance(q, BallNormal):
        return q
    if not isinstance(q, Distribution):
        raise TypeError(f"An encoder gives a Distribution or a tensor of numbers, got {type(q).__name__}.")
    made: Any = as_prior(q, ball)
    missing = [name for name in _OFFERS if not hasattr(type(made), name) and name not in vars(made)]
    if missing or not made.has_rsample:
        lacks = ", ".join(missing) or "samples with gradients (rsample)"
        raise TypeError(f"The posterior {type(q).__name__} lacks {lacks}. See the page on extending.")
    return made


def drawn_with_log_prob(
    p: Distribution, sample_shape: tuple[int, ...], generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Points of a prior and their log density.

    Raises:
        ValueError: Gradients are wanted in the parameters of a prior whose points have none.
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
