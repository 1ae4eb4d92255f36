"""Points of any dimension on the disc."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.manifolds import PoincareBall

__all__ = ["Projection", "frechet_mean", "project"]

_STEPS = 100  # steps to the mean; points of ordinary spread need about twenty


class Projection(NamedTuple):
    """Points on the disc, and what was done to them.

    Example:
        >>> Projection(np.zeros((1, 2)), "").points.shape
        (1, 2)
    """

    points: np.ndarray  # (n, 2), float64, in the tangent chart
    note: str  # for the page's caption; empty where nothing was done


@torch.no_grad()
def project(z: Tensor, ball: PoincareBall) -> Projection:
    """Two dimensions of an embedding: itself for d = 2, tangent-space PCA at the Fréchet mean for d > 2.

    The logarithms of the points at their mean are turned to their two main axes and shown around the disc's center.
    Distances from the mean are shortened to the part that the two axes keep; the note says how much that is.

    Args:
        z: Points, shape (n, d), in the tangent chart.
        ball: The ball.

    Example:
        >>> flat = project(torch.randn(50, 5, dtype=torch.float64), PoincareBall(1.0))
        >>> flat.points.shape, flat.note[:43]
        ((50, 2), 'The 5-dimensional embedding is projected: t')
    """
    n, d = z.shape
    if d == 1:
        line = torch.cat((z, torch.zeros_like(z)), -1)
        return Projection(line.double().numpy(), "The embedding has one dimension: it lies on a line of the disc.")
    if d == 2:
        return Projection(z.double().numpy(), "")
    z = z.double()
    v = ball.log(frechet_mean(z, ball).expand_as(z), z)
    values, axes = torch.linalg.eigh(v.T @ v / n)
    axes = axes[:, -2:].flip(-1)
    # An eigenvector's sign is chance: the largest entry is made positive, so that a map looks the same every time.
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
    kept = float(values[-2:].sum() / values.sum().clamp_min(torch.finfo(values.dtype).tiny))
    note = (
        f"The {d}-dimensional embedding is projected: tangent-space PCA at the Fréchet mean, which is the disc's "
        f"center. The two axes keep {100 * kept:.0f} % of the squared distances from it."
    )
    return Projection((v @ (axes * largest.sign())).numpy(), note)


@torch.no_grad()
def frechet_mean(z: Tensor, ball: PoincareBall) -> Tensor:
    """The point with the least sum of squared distances to all points.

    Args:
        z: Points, shape (n, d), in the tangent chart.
        ball: The ball.

    Example:
        >>> frechet_mean(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), PoincareBall(1.0)).norm() < 1e-6
        tensor(True)
    """
    mu, root = torch.zeros_like(z[0]), math.sqrt(ball.c_value)
    for _ in range(_STEPS):
        v = ball.log(mu.expand_as(z), z)
        # The squared distance curves by as much as r·coth r across its direction: a whole step would go too far.
        r = (root * v.norm(dim=-1)).clamp_min(1e-6)
        step = v.mean(0) / (r / torch.tanh(r)).mean()
        mu = ball.exp(mu, step)
        if float(step.norm()) < 1e-9:  # far below a pixel
            break
    return mu
