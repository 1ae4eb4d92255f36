"""Figures of results: digits taken for others (App. D), and what the decoder's first layer is worth (§5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import TYPE_CHECKING

import numpy as np

from experiments import figure7, table3
from experiments.figures.canvas import MissingError, panels, scale_beside
from experiments.runs import interval
from horoball.plotting.marks import color_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ablation", "confusion"]


def confusion() -> Figure:
    """Percent of each digit's test images (rows) that a classifier takes for each digit (columns), the mean."""
    found = {name: list(table3.confusions(c).values()) for name, c in reversed(table3.MODELS.items())}
    if not all(found.values()):
        raise MissingError("needs classifiers; run python -m experiments.table3 first")
    figure, axes = panels(1, 2, 4.4, 4.0)
    for ax, (name, parts) in zip(axes[0], found.items(), strict=True):
        percent = 100 * np.mean(parts, 0)
        picture = ax.imshow(percent, cmap="Blues", vmin=0, vmax=100)
        for (row, column), value in np.ndenumerate(percent):
            if value >= 0.5:  # less is rounded to 0, and left out
                dark = "white" if value > 55 else "#222222"
                ax.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=8, color=dark)
        ax.set_title(f"{name}: {percent.diagonal().mean():.1f} % right")
        ax.set_xticks(range(10))
        ax.set_yticks(range(10))
        ax.tick_params(length=0, labelsize=9)
        ax.set_xlabel("taken for")
        for side in ax.spines.values():
            side.set_visible(False)
    axes[0, 0].set_ylabel("digit")
    scale_beside(picture, axes, f"% of a digit's test images; {_counts(found.values(), 'embedding')}")
    return figure


def ablation() -> Figure:
    """How much lower than the MLP's a decoder's negative log-likelihood is, with 95 % intervals over seeds."""
    found = {
        (decoder, d): gains
        for decoder in figure7.DECODERS
        for d in figure7.DIMENSIONS
        if decoder != "mlp" and (gains := figure7.improvement(d, decoder))
    }
    if not found:
        raise MissingError("needs decoders; run python -m experiments.figure7 first")
    figure, axes = panels(1, 1, 5.4, 3.6)
    ax = axes[0, 0]
    others = [decoder for decoder in figure7.DECODERS if decoder != "mlp"]
    for number, decoder in enumerate(others):
        known = [d for d in figure7.DIMENSIONS if (decoder, d) in found]
        place = [figure7.DIMENSIONS.index(d) + 0.12 * (number - (len(others) - 1) / 2) for d in known]
        means, halves = zip(*(interval(found[decoder, d].values()) for d in known), strict=True)
        style = {"color": color_of(number), "markersize": 6, "linewidth": 1.0, "capsize": 4}
        ax.errorbar(place, means, np.nan_to_num(halves), fmt="o-", label=figure7.DECODERS[decoder], **style)
    ax.axhline(0, color="#444444", linewidth=1.0)
    ax.annotate("MLP", (0.0, 0), (4, 3), ("axes fraction", "data"), textcoords="offset points", fontsize=9)
    ax.set_xticks(range(len(figure7.DIMENSIONS)), [str(d) for d in figure7.DIMENSIONS])
    ax.set_xlim(-0.5, len(figure7.DIMENSIONS) - 0.5)
    ax.set_xlabel("dimension of the latent space")
    ax.set_ylabel("NLL below the MLP's, %")
    ax.set_title(f"MNIST by decoder: wrapped, c = 1; {_counts(found.values(), 'seed')}")
    ax.legend(frameon=False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return figure


def _counts(found: Iterable[Sized], noun: str) -> str:
    """How many runs there are of each thing: one number, or the least and the most."""
    counts = [len(runs) for runs in found]
    least, most = min(counts), max(counts)
    return f"{least if least == most else f'{least} to {most}'} {noun}{'' if most == 1 else 's'}"
