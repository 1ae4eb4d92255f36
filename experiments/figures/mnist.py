"""The digits in two dimensions, P-VAE with c = 1.4 and N-VAE: where they lie, and what the models make (§5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from experiments import mnist
from experiments.figures.canvas import MissingError, panels, square
from horoball import plotting
from horoball.vae import VAE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["mnist_posteriors", "mnist_samples"]

MODELS = {"P-VAE, c = 1.4": 1.4, "N-VAE": 0.0}
_SIDE = 28  # pixels of an image


def mnist_posteriors(seed: int = 0, epochs: int = 80) -> Figure:
    """Posterior means of the test images by digit, and the images at those of them that leave each other room."""
    models = _models(seed, epochs)
    images = mnist.digits(False)
    figure, axes = panels(2, 2, 4.2)
    order = torch.randperm(len(images.x), generator=torch.Generator().manual_seed(seed))
    for row, (name, model) in zip(axes, models.items(), strict=True):
        x, c = model.ball.to_ball(model.embed(images.x).double()).numpy(), MODELS[name]
        plotting.points(
            x[order], c=c, labels=images.labels[order].numpy(), ax=row[0], size=4, title=f"{name}: means", legend=False
        )
        plotting.thumbnails(
            x[order], images.x[order].view(-1, _SIDE, _SIDE), c=c, ax=row[1], size=0.042, title=f"{name}: images"
        )
        if c == 0:
            square(row[0], x)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=10, frameon=False, markerscale=4, handletextpad=0)
    return figure


def mnist_samples(seed: int = 0, epochs: int = 80, count: int = 10) -> Figure:
    """Means of p(x | z) at points z of the prior; and at the posterior means of test images, which are above."""
    models = _models(seed, epochs)
    figure = panels(1, 2, 4.2, 5.6)[0]
    figure.clear()
    parts: Any = figure.subfigures(2, 1, height_ratios=(4.4, 1.35))
    above, below = parts
    for ax, (name, model) in zip(above.subplots(1, 2), models.items(), strict=True):
        torch.manual_seed(seed)
        _show(ax, mosaic(model.generate(count * count), count), f"{name}: samples")
    images = mnist.digits(False)
    first = [int(torch.nonzero(images.labels == digit)[k, 0]) for digit in range(10) for k in range(2)]
    x = images.x[first]
    ax = below.subplots(1, 1)
    made = [model.reconstruct(x) for model in models.values()]
    _show(ax, mosaic(torch.cat((x, *made)), len(first)), "Test images and their reconstructions")
    for number, name in enumerate(("test", *models)):
        ax.text(-6, (number + 0.5) * (_SIDE + 1), name, ha="right", va="center", fontsize=9)
    return figure


def mosaic(images: Tensor, columns: int) -> np.ndarray:
    """Images beside and below each other with a line of white between, shape (height, width).

    Example:
        >>> mosaic(torch.ones(6, 784), 3).shape
        (59, 88)
    """
    tiles = images.view(-1, columns, _SIDE, _SIDE).permute(0, 2, 1, 3)
    padded = torch.nn.functional.pad(tiles, (1, 0, 0, 0, 1, 0))  # a column before each tile, a row above each line
    return torch.nn.functional.pad(padded.flatten(2).flatten(0, 1), (0, 1, 0, 1)).numpy()


def _models(seed: int, epochs: int) -> dict[str, VAE]:
    for c in MODELS.values():
        if not mnist.weights_of(mnist.setting(2, c, seed, epochs=epochs)).exists():
            raise MissingError(f"needs a trained model, d = 2, c = {c:g}; run python -m experiments.table2 first")
    return {name: mnist.trained(2, c, seed, epochs=epochs) for name, c in MODELS.items()}


def _show(ax: Any, image: np.ndarray, title: str) -> None:
    ax.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    ax.set_axis_off()
    ax.set_title(title)
