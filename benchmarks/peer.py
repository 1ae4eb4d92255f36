"""The same operations by geoopt, from and to the tangent chart: through its ball coordinates, as its users go."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its import uses torch.jit.script, which torch deprecates
    import geoopt

__all__ = ["VERSION", "dist", "exp", "gyroplane", "log_wrapped_normal"]

VERSION = f"geoopt {geoopt.__version__}"


def _ball(c: float, like: Tensor) -> Any:
    return geoopt.PoincareBall(torch.tensor(c, dtype=like.dtype))


def _point(ball: Any, t: Tensor) -> Tensor:
    return ball.expmap0(t / 2)


def dist(z: Tensor, y: Tensor, c: float) -> Tensor:
    ball = _ball(c, z)
    return ball.dist(_point(ball, z), _point(ball, y))


def _exp(ball: Any, mu: Tensor, v: Tensor) -> Tensor:
    x = _point(ball, mu)
    return ball.expmap(x, ball.transp0(x, v / 2))


def exp(mu: Tensor, v: Tensor, c: float) -> Tensor:
    ball = _ball(c, mu)
    return 2 * ball.logmap0(_exp(ball, mu, v))


def gyroplane(t: Tensor, weight: Tensor, bias: Tensor, c: float) -> Tensor:
    ball = _ball(c, t)
    p = _point(ball, -(bias / weight.square().sum(-1)).unsqueeze(-1) * weight)
    return ball.dist2plane(_point(ball, t).unsqueeze(-2), p, weight, signed=True, scaled=True)


def log_wrapped_normal(mu: Tensor, v: Tensor, sigma: float, c: float) -> Tensor:
    """Log density at exp_μ(v), taken back from the point by logmap; geoopt itself has only the sampler."""
    ball = _ball(c, mu)
    x, z = _point(ball, mu), _exp(ball, mu, v)
    u = 2 * ball.transp0back(x, ball.logmap(x, z))
    d = u.shape[-1]
    a = math.sqrt(c) * u.norm(dim=-1)
    log_volume = (d - 1) * (a + torch.log1p(-torch.exp(-2 * a)) - torch.log(2 * a))
    return -u.square().sum(-1) / (2 * sigma**2) - d * math.log(sigma * math.sqrt(2 * math.pi)) - log_volume
