"""Latent maps of the branching diffusion process: §5.1, and by curvature in App. D.

Every observation of the tree is shown; the models were trained on 0.7 of them, PCA and the GPLVM on all. Crosses are
posterior means, dots are posterior samples in the color of their branch at depth 2, and lines join the Fréchet means
of a node's and its parent's embeddings. The plane is drawn at half its size, as the disc is for c → 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from experiments.branching import split
from experiments.figures.baselines import pca
from experiments.figures.cached import latent_points, model_of_tree
from experiments.figures.canvas import GRAY, PINK, panels, scale_beside, square
from horoball import plotting
from horoball.datasets import Branching
from horoball.geometry import PoincareBall
from horoball.geometry.coordinates import frechet_mean
from horoball.nn import Gyroplane
from horoball.plotting.marks import color_of
from horoball.vae import VAE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["branching", "curvature_gyroplanes", "curvatures", "distance_to_gyroplane"]

CURVATURES = (1.2, 0.3, 0.1)
SAMPLES = 2  # of each posterior
_LINES = "#2f6fb5"


def branching(seed: int = 0, epochs: int = 1000, steps: int = 500) -> Figure:
    """The P-VAE with c = 1, the N-VAE, PCA and the GPLVM."""
    tree = split(seed)[0]
    figure, axes = panels(2, 2, 4.0)
    for ax, c, name in ((axes[0, 0], 1.0, "P-VAE, c = 1"), (axes[0, 1], 0.0, "N-VAE")):
        latent_map(model_of_tree(c, seed, epochs), tree, ax)
        ax.set_title(name)
    for ax, z, name in ((axes[1, 0], pca(tree.x), "PCA"), (axes[1, 1], latent_points(seed, steps), "GPLVM")):
        flat_map(z.double(), tree, ax)
        ax.set_title(name)
    return figure


def curvatures(seed: int = 0, epochs: int = 1000) -> Figure:
    """P-VAEs of decreasing curvature, each in the disc of radius 1/√c."""
    return _sweep(seed, epochs, planes=False)


def curvature_gyroplanes(seed: int = 0, epochs: int = 1000) -> Figure:
    """The same with the hyperplanes that their decoders have learned."""
    return _sweep(seed, epochs, planes=True)


def distance_to_gyroplane(seed: int = 0, epochs: int = 1000) -> Figure:
    """The logarithm of the distance to one hyperplane of the decoder, in pink: P-VAE with c = 1, and N-VAE."""
    tree = split(seed)[0]
    figure, axes = panels(1, 2, 4.4, 3.95)
    for ax, c, name in zip(axes[0], (1.0, 0.0), ("P-VAE, c = 1", "N-VAE"), strict=True):
        model = model_of_tree(c, seed, epochs)
        layer = _first_layer(model)
        if c == 0:
            reach = 1.08 * float(model.ball.to_ball(model.embed(tree.x)).abs().max())
            ax.set_xlim(-reach, reach)
            ax.set_ylim(-reach, reach)
        index = dividing(layer, model.embed(tree.x))
        plotting.distance_map(layer, index, ax=ax, log=True, limits=(-1.5, 1.0), color=PINK, scale=False, title=name)
        ax.collections[-1].set_linewidth(2.0)
        latent_map(model, tree, ax, samples=0, lines="#ffffff")
    scale_beside(axes[0, 0].images[0], axes, "log₁₀ of the distance to the hyperplane", extend="both")
    return figure


def latent_map(
    model: VAE, tree: Branching, ax: Any, samples: int = SAMPLES, lines: str = _LINES, cross: float = 9
) -> None:
    """Posterior means, samples and the true hierarchy."""
    ball = model.ball
    with torch.no_grad():
        law = model.posterior(tree.x)
        torch.manual_seed(0)
        dots = ball.to_ball(law.sample((samples,)).double())
    z = law.mean.double()
    for sample in dots:
        _colored(sample, tree, ax, ball, size=5)
    x = ball.to_ball(z).numpy()
    plotting.points(x, c=_c(ball), ax=ax, color="black", marker="x", size=cross)
    _hierarchy(z, tree, ax, ball, lines)
    if ball.is_euclidean and samples:
        square(ax, np.concatenate((x, dots.reshape(-1, 2).numpy())))


def flat_map(z: Tensor, tree: Branching, ax: Any) -> None:
    """Points of an embedding without posteriors: crosses in the colors of the branches, and the true hierarchy."""
    ball = PoincareBall(0.0)
    _colored(ball.to_ball(z), tree, ax, ball, size=16, marker="x")
    _hierarchy(z, tree, ax, ball, _LINES)
    square(ax, ball.to_ball(z).numpy())


def branches(tree: Branching, depth: int = 2) -> np.ndarray:
    """The number of each observation's branch among those that begin at a depth; −1 above.

    Example:
        >>> from horoball.datasets import branching_diffusion
        >>> branches(branching_diffusion(depth=3, copies=1)).tolist()
        [-1, -1, -1, 0, 1, 2, 3, 0, 0, 1, 1, 2, 2, 3, 3]
    """
    parent, level = tree.parent.numpy(), tree.depth.numpy()
    first = int((level < depth).sum())
    branch = np.full(len(parent), -1)
    for node in range(first, len(parent)):
        branch[node] = node - first if level[node] == depth else branch[parent[node]]
    return branch[tree.node.numpy()]


def dividing(layer: Gyroplane, z: Tensor) -> int:
    """The hyperplane of most weight among those that have at least a quarter of the points on either side."""
    with torch.no_grad():
        side = (layer(z.to(layer.weight.dtype)) > 0).double().mean(0)
        balanced = (side - 0.5).abs() <= 0.25
        return int((layer.weight.norm(dim=-1) * (balanced + 1e-3)).argmax())


def _sweep(seed: int, epochs: int, planes: bool) -> Figure:
    tree = split(seed)[0]
    figure, axes = panels(1, len(CURVATURES), 3.8)
    for ax, c in zip(axes[0], CURVATURES, strict=True):
        model = model_of_tree(c, seed, epochs)
        if planes:
            plotting.gyroplanes(_first_layer(model), ax=ax, color=f"{color_of(7)}44", width=0.6)
        latent_map(model, tree, ax, cross=5)
        ax.set_title(f"P-VAE, c = {c:g}")
    return figure


def _colored(x: Tensor, tree: Branching, ax: Any, ball: PoincareBall, size: float, marker: str = "o") -> None:
    branch = branches(tree)
    for number in range(-1, branch.max() + 1):
        color = GRAY if number < 0 else color_of(number)
        part = x.numpy()[branch == number]
        plotting.points(part, c=_c(ball), ax=ax, color=color, size=size, marker=marker)


def _hierarchy(z: Tensor, tree: Branching, ax: Any, ball: PoincareBall, color: str) -> None:
    means = torch.stack([frechet_mean(z[tree.node == node], ball) for node in range(len(tree.parent))])
    plotting.tree_edges(ball.to_ball(means).numpy(), tree.parent.numpy(), c=_c(ball), ax=ax, color=color, width=0.9)


def _first_layer(model: VAE) -> Gyroplane:
    decoder: Any = model.decoder
    return decoder.network[0]


def _c(ball: PoincareBall) -> float:
    return ball.c_value
