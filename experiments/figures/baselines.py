"""Two embeddings without a hierarchy in mind, beside the models on the tree: PCA and a GPLVM (App. C.1)."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor

from experiments.figures.canvas import MissingError

__all__ = ["gplvm", "pca"]

_RATE = 0.02  # of Adam; after 500 steps the likelihood grows by less than 1e-5 of itself a step


def pca(x: Tensor) -> Tensor:
    """The two main components, by a singular value decomposition.

    Args:
        x: Observations, shape (n, features).

    Example:
        >>> pca(torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        tensor([[ 2.,  0.],
                [-2.,  0.],
                [ 0.,  1.],
                [ 0., -1.]])
    """
    centered = x - x.mean(0)
    axes = torch.linalg.svd(centered, full_matrices=False).Vh[:2].T
    # A singular vector's sign is chance: the largest entry is made positive.
    return centered @ (axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign())


def gplvm(x: Tensor, steps: int = 500) -> Tensor:
    """Latent points whose Gaussian process, with an RBF kernel, makes the observations likeliest.

    Features are independent given the points z: log p(x) = Σ_f log N(x_f | 0, K(z, z) + s²I), maximized over z, the
    kernel's two parameters and s by Adam. Points start at PCA's, scaled to a spread of 1.

    Args:
        x: Observations, shape (n, features).
        steps: Of Adam, each over all observations.
    """
    gp = _gpytorch()
    x = (x - x.mean(0)).double()
    start = pca(x)
    z = torch.nn.Parameter(start / start.std(0).mean())
    kernel = gp.kernels.ScaleKernel(gp.kernels.RBFKernel()).double()
    likelihood = gp.likelihoods.GaussianLikelihood().double()
    optimizer = torch.optim.Adam([z, *kernel.parameters(), *likelihood.parameters()], _RATE)
    n, features = x.shape
    for _ in range(steps):
        optimizer.zero_grad()
        covariance = kernel(z).add_diagonal(likelihood.noise)
        squares, log_det = covariance.inv_quad_logdet(x, logdet=True)  # one decomposition for all features
        loss = (squares + features * log_det) / (2 * n * features) + math.log(2 * math.pi) / 2
        loss.backward()
        optimizer.step()
    return z.detach()


def _gpytorch() -> Any:
    try:
        with warnings.catch_warnings():  # it compiles two functions by torch.jit.script, which is deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            import gpytorch
    except ImportError:
        raise MissingError("needs GPyTorch; run pip install gpytorch first") from None
    return gpytorch
