"""The likelihood of a model in two dimensions as an integral over the disc, at a fraction of the price of 5000 samples.

In two dimensions log p(x) = log ∫ p(x | z) p(z) dz is a sum over some ten thousand points z that all images share: each
is decoded once, and log p(x | z) of all pairs is one matrix product. There is no noise, so that two models, or two
epochs of one, differ by what they are and not by their samples; what is left of an error is that of the rule, and
halving its spacing tells it. `experiments.estimators` compares it with the bound of 5000 samples.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from horoball.geometry import PoincareBall
from horoball.vae import VAE

__all__ = ["disc_log_likelihood", "disc_points", "narrow", "reach"]

_OUTSIDE = 1e-6  # part of the prior's mass that the rule leaves out; encoders put some images beyond 1e-4
_NARROW = 0.05  # part of the images whose posterior may be narrower than the rule is fine
_POINTS, _IMAGES = 4096, 2500  # at a time


def disc_points(ball: PoincareBall, radius: float, spacing: float) -> tuple[Tensor, Tensor]:
    """Points all over a disc around the origin, on rings, and the area that each stands for.

    In the distance from the origin it is the trapezoidal rule, with Euler and Maclaurin's first correction: the origin
    stands for an area of πs²/6, s between rings, and the error falls with the fourth power of s.

    Args:
        ball: The ball, of any curvature.
        radius: The disc's, in metric units.
        spacing: The most between rings, and between neighbors on a ring.

    Returns:
        Points of shape (n, 2) in the tangent chart, and areas of shape (n,), both in float64.

    Example:
        >>> z, area = disc_points(PoincareBall(0.0), 8.0, 0.5)
        >>> round(float((torch.exp(-z.square().sum(-1) / 2) * area).sum() / (2 * math.pi)), 3)  # of a normal density
        1.0
    """
    rings = max(1, math.ceil(radius / spacing))
    step, root = radius / rings, math.sqrt(ball.c_value)
    points, areas = [torch.zeros(1, 2, dtype=torch.float64)], [torch.tensor([math.pi * step**2 / 6]).double()]
    for ring in range(1, rings + 1):
        r = step * ring
        around = 2 * math.pi * (math.sinh(root * r) / root if root else r)
        count = math.ceil(around / spacing)
        turn = ring * (math.sqrt(5) - 1) / 2  # so that points of neighboring rings do not line up
        angle = 2 * math.pi * (torch.arange(count, dtype=torch.float64) + turn) / count
        points.append(r * torch.stack((angle.cos(), angle.sin()), -1))
        area = around * step * (0.5 if ring == rings else 1.0)
        areas.append(torch.full((count,), area / count, dtype=torch.float64))
    return torch.cat(points), torch.cat(areas)


def reach(model: VAE) -> float:
    """The radius of a disc that holds all but a millionth of the prior's mass.

    Example:
        >>> from horoball.vae import ModelConfig
        >>> round(reach(VAE.from_config(ModelConfig(features=1, d=2, c=0.0))), 2)  # √(−2 log 0.000001)
        5.26
    """
    step = 1e-3
    r = torch.arange(0.5 * step, 40.0, step, dtype=torch.float64)
    z = torch.stack((r, torch.zeros_like(r)), -1)
    prior = model.prior()
    density = prior.log_prob(z.to(prior.loc.dtype)).detach().double()
    root = math.sqrt(model.ball.c_value)
    log_around = torch.log(torch.sinh(root * r) / root if root else r)
    outside = (density + log_around + math.log(2 * math.pi * step)).exp().flip(0).cumsum(0).flip(0)
    return float(r[outside > _OUTSIDE][-1])


@torch.no_grad()
def narrow(model: VAE, x: Tensor) -> float:
    """A scale that hardly any image's posterior is narrower than: the rule's spacing, unless told otherwise.

    The sum of a normal's density over a lattice as wide as its scale is its integral to eight digits. The decoder's
    kinks, and posteriors that are narrower along one axis than the model's are, cost some of these.

    Example:
        >>> from horoball.vae import ModelConfig
        >>> 0 < narrow(VAE.from_config(ModelConfig(features=1, d=2)), torch.zeros(5, 1)) < 2
        True
    """
    return float(torch.cat([model.posterior(part).mean_scale for part in x.split(_IMAGES)]).quantile(_NARROW))


@torch.no_grad()
def disc_log_likelihood(model: VAE, x: Tensor, spacing: float | None = None) -> Tensor:
    """log p(x) of images under a model with a Bernoulli likelihood and d = 2.

    Args:
        model: The model.
        x: Images, shape (n, pixels), values in [0, 1].
        spacing: Of the rule's points, in metric units; `narrow` if it is not given.

    Example:
        >>> from horoball.vae import ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=3, d=2, c=1.0, hidden=(8,), likelihood="bernoulli"))
        >>> every = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3)
        >>> round(float(disc_log_likelihood(model, every, 0.1).exp().sum()), 2)  # of all that can be observed
        1.0
    """
    z, area = disc_points(model.ball, reach(model), narrow(model, x) if spacing is None else spacing)
    total = x.new_full((len(x),), -math.inf)
    for points, areas in zip(z.float().split(_POINTS), area.split(_POINTS), strict=True):
        logits = model.decoder(points)
        weight = model.prior().log_prob(points) + areas.log().float()
        constant = weight - torch.nn.functional.softplus(logits).sum(-1)
        for start in range(0, len(x), _IMAGES):
            part = slice(start, start + _IMAGES)
            joint = torch.addmm(constant, x[part], logits.T)
            total[part] = torch.logaddexp(total[part], torch.logsumexp(joint, -1))
    return total
