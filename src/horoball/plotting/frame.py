"""The disc itself, and how points come onto it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from horoball.manifolds import PoincareBall
from horoball.manifolds.projection import project
from horoball.runtime.extras import require_pyplot

__all__ = ["annotate", "disc", "on_disc", "prepared"]


def disc(ax: Any = None, *, c: float = 1.0, title: str = "") -> Any:
    """The empty disc: its rim, no axes. For c = 0 the plane has no rim.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> disc().get_aspect()
        1.0
    """
    if ax is None:
        _, ax = require_pyplot().subplots(figsize=(6, 6), layout="constrained")
    ax.set_aspect("equal")
    ax.set_axis_off()
    if c > 0:
        radius = 1 / math.sqrt(c)
        rim = require_pyplot().Circle((0, 0), radius, fill=False, color="#444444", linewidth=1.2, zorder=5, gid="rim")
        ax.add_patch(rim)
        ax.set_xlim(-1.02 * radius, 1.02 * radius)
        ax.set_ylim(-1.02 * radius, 1.02 * radius)
    if title:
        ax.set_title(title)
    return ax


def prepared(ax: Any, c: float, title: str = "") -> Any:
    """The axes with the disc on them, drawn once.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> ax = prepared(None, 1.0)
        >>> prepared(ax, 1.0, "the same") is ax, len(ax.patches)
        (True, 1)
    """
    if ax is not None and any(patch.get_gid() == "rim" for patch in ax.patches):
        if title:
            ax.set_title(title)
        return ax
    return disc(ax, c=c, title=title)


def annotate(ax: Any, note: str) -> None:
    """Say under a picture what has to be said, if anything.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> ax = disc()
        >>> annotate(ax, "projected")
        >>> ax.texts[0].get_text()
        'projected'
    """
    if note:
        ax.annotate(note, (0.5, -0.02), xycoords="axes fraction", ha="center", va="top", fontsize=7, wrap=True)


def on_disc(x: ArrayLike, c: float) -> tuple[np.ndarray, str]:
    """Two coordinates of each point, and what was done to get them.

    Example:
        >>> on_disc([[0.1, 0.2]], 1.0)
        (array([[0.1, 0.2]]), '')
    """
    coordinates = np.asarray(x, np.float64)
    if coordinates.ndim != 2:
        raise ValueError(f"Points have shape (n, d), got {coordinates.shape}.")
    if coordinates.shape[1] == 2:
        return coordinates, ""
    ball = PoincareBall(c)
    shown = project(ball.from_ball(torch.from_numpy(coordinates)), ball)
    return ball.to_ball(torch.from_numpy(shown.points)).numpy(), shown.note
