"""Densities of the two normals (§3.1), and of the wrapped normal with a scale for each axis (App. B.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from experiments.figures.canvas import panels, scale_beside
from horoball import plotting
from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.geometry import PoincareBall

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["anisotropic", "densities"]

MEANS = (0.0, 0.4, 0.8)  # ball coordinates along the diagonal, as in the paper
SCALES = (0.5, 1.0)
AXES = ((1.0, 1.0), (2.0, 0.5), (0.5, 2.0))
_MEAN = "#d55e00"


def densities() -> Figure:
    """Both normals with the same mean and scale side by side, each pair on one scale of colors, c = 1."""
    ball = PoincareBall(1.0)
    figure, axes = panels(len(MEANS), 2 * len(SCALES), 2.3, 1.9)
    for number, sigma in enumerate(SCALES):
        pair = axes[:, 2 * number : 2 * number + 2]
        scale = torch.full((1,), sigma, dtype=torch.float64)
        laws = [[kind(_mean(m, ball), scale, ball) for kind in (RiemannianNormal, WrappedNormal)] for m in MEANS]
        highest = max(_peak(law) for row in laws for law in row)
        for row, (radius, both) in enumerate(zip(MEANS, laws, strict=True)):
            for ax, law, name in zip(pair[row], both, ("Riemannian", "wrapped"), strict=True):
                _draw(law, ax, highest)
                if row == 0:
                    ax.set_title(f"{name}, σ = {sigma:g}")
            if number == 0:
                _beside(pair[row, 0], f"|μ| = {radius:g}")
        scale_beside(pair[0, 0].images[0], pair, "density by the ball's measure")
    return figure


def anisotropic() -> Figure:
    """Wrapped normals whose two axes, carried from the origin to the mean, have scales of their own, c = 1."""
    ball = PoincareBall(1.0)
    figure, axes = panels(2, len(AXES), 3.0, 2.7)
    for row, radius in enumerate(MEANS[:2]):
        for ax, scales in zip(axes[row], AXES, strict=True):
            law = WrappedNormal(_mean(radius, ball, 0.0), torch.tensor(scales, dtype=torch.float64), ball)
            _draw(law, ax, 1 / (2 * np.pi))  # σ₁σ₂ = 1, so all have this peak
            if row == 0:
                ax.set_title(f"σ = ({scales[0]:g}, {scales[1]:g})")
        _beside(axes[row, 0], f"|μ| = {radius:g}")
    scale_beside(axes[0, 0].images[0], axes, "density by the ball's measure")
    return figure


def _mean(radius: float, ball: PoincareBall, angle: float = np.pi / 4) -> torch.Tensor:
    x = radius * torch.tensor([np.cos(angle), np.sin(angle)], dtype=torch.float64)
    return ball.from_ball(x)


def _peak(law: Any) -> float:
    return float(law.log_prob(law.loc).exp())


def _draw(law: Any, ax: Any, highest: float) -> None:
    plotting.density(law, ax=ax, highest=highest, levels=list(highest * np.arange(0.1, 1, 0.2)))
    plotting.points(law.ball.to_ball(law.loc)[None].numpy(), ax=ax, color=_MEAN, marker="+", size=45)


def _beside(ax: Any, text: str) -> None:
    ax.text(-0.04, 0.5, text, transform=ax.transAxes, rotation=90, ha="right", va="center", fontsize=11)
