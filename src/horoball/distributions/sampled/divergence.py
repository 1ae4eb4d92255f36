"""A point z of each posterior and log q(z) − log p(z) for a prior around the origin, on a CPU, in one function.

This is the hot path of training. At a batch of some hundred points the time goes into starting operations, not into
numbers. NumPy starts one in a third of torch's time; so all of it is NumPy's. Vectors that all but undo μ, radii beyond
280/√c, several samples of a row, float64, a learned c or prior go the general way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.distributions.sampled.noise import Noise
from horoball.distributions.sampled.ray import follow
from horoball.numerics.columns import columns
from horoball.numerics.kernels import looks_ahead

__all__ = ["is_suited", "sampled_divergence"]


class _SampledDivergence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, loc: Tensor, scale: Tensor, c: float, noise: Noise, again: Any
    ) -> tuple[Tensor, Tensor, bool]:
        with np.errstate(all="ignore"):
            r = noise.radius(columns(scale)[0], c)
            ray = None if r is None else follow(columns(loc), noise.direction, r, c)
            if ray is None:
                return loc, scale, False
            z, divergence = ray.point, noise.divergence(ray)
        ctx.save_for_backward(loc, scale)
        ctx.made = ray, noise, again
        points = torch.from_numpy(np.ascontiguousarray(z.T, np.float32))
        return points.view_as(loc), torch.from_numpy(divergence.astype(np.float32)).view(loc.shape[:-1]), True

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_divergence: Tensor, _: None) -> tuple[Tensor | None, ...]:
        loc, scale = ctx.saved_tensors
        ray, noise, again = ctx.made
        if torch.is_grad_enabled():  # by formulas that autograd knows, so that it can go on from there
            inputs = loc.view_as(loc), scale.view_as(scale)
            return *torch.autograd.grad(again(*inputs), inputs, (grad, grad_divergence), create_graph=True), *3 * [None]
        g = grad_divergence.numpy().reshape(-1).astype(np.float64)
        by_loc, by_r = ray.gradients(columns(grad), g * noise.rate())
        of_loc = torch.from_numpy(np.ascontiguousarray(by_loc.T, np.float32))
        of_scale = torch.from_numpy(noise.to_scale(by_r, g).astype(np.float32))
        return of_loc.view_as(loc), of_scale.view_as(scale), None, None, None


def is_suited(q: Any, prior: Any, shape: torch.Size) -> bool:
    """Whether a point of each posterior goes this way: of float32 on a CPU, c and a prior around the origin fixed.

    Args:
        q: An isotropic normal of the ball.
        prior: The prior.
        shape: Shape of the points.

    Example:
        >>> from horoball import PoincareBall, WrappedNormal
        >>> q = WrappedNormal(torch.zeros(3, 2), torch.ones(3, 1), PoincareBall(1.0))
        >>> is_suited(q, q, torch.Size((3, 2)))  # q is not known to be around the origin
        False
    """
    c = q.ball.c
    return (
        type(prior) is type(q)
        and prior.centered
        and prior.ball is q.ball
        and not isinstance(c, Tensor)
        and c > 0
        and q.loc.dtype == q.scale.dtype == torch.float32
        and 0 < q.loc.numel() == shape.numel()
        and q.scale.shape[-1] == prior.scale.numel() == 1
        and not prior.scale.requires_grad
        and looks_ahead(q.loc)
    )


def sampled_divergence(
    q: Any, noise: Noise, shape: torch.Size, again: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """A point of each posterior, of shape (*sample, *batch, d), and log q − log p there.

    Args:
        q: The posteriors, which are suited.
        noise: Their noise.
        shape: Shape of the points.
        again: The same as a function of loc and scale by the general way: for what has to go there, and for second
            derivatives.

    Example:
        >>> from horoball import PoincareBall, WrappedNormal
        >>> q = WrappedNormal(torch.zeros(1, 2), torch.ones(1, 1), PoincareBall(1.0))
        >>> from horoball.distributions.sampled.noise import WrappedNoise
        >>> ours = WrappedNoise(torch.tensor([[3.0, 4.0]]), 1.0)
        >>> sampled_divergence(q, ours, torch.Size((1, 2)), lambda loc, scale: (loc, scale))
        (tensor([[3., 4.]]), tensor([...e-16]))
    """
    z, divergence, done = _SampledDivergence.apply(q.loc, q.scale, float(q.ball.c), noise, again)
    if not done:
        z, divergence = again(q.loc, q.scale)
    return z.reshape(shape), divergence.reshape(shape[:-1])
