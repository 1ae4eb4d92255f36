"""Mixtures of normals of the ball, with a mean that is one of the ball."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import MixtureSameFamily

from horoball.distributions.features import drawn_from
from horoball.distributions.normal import BallNormal
from horoball.distributions.radius_autograd import radius_nodes
from horoball.distributions.riemannian_normal import RiemannianNormal
from horoball.distributions.wrapped_normal import WrappedNormal
from horoball.manifolds.translation import side
from horoball.numerics.kernels import static
from horoball.numerics.quadrature import sphere_rule

__all__ = ["BallMixture"]

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

        Args:
            sample_shape: Shape in front of the batch.
            generator: Where the numbers come from; torch's global generator if not given.

        Example:
            >>> from horoball.manifolds import PoincareBall
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

        Example:
            >>> from horoball.manifolds import PoincareBall
            >>> ends = torch.tensor([[3.0, 0.0], [-3.0, 0.0]])
            >>> components = RiemannianNormal(ends, torch.ones(2, 1), PoincareBall(1.0))
            >>> BallMixture(torch.distributions.Categorical(torch.ones(2)), components).mean.abs().max() < 1e-5
            tensor(True)
        """
        components: Any = self.component_distribution
        if not isinstance(components, BallNormal) or components.ball.is_euclidean:
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
