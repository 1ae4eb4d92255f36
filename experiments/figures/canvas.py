"""What the figures share: panels, files, and a word for what has not been run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["GRAY", "PINK", "MissingError", "panels", "save", "scale_beside", "square"]

GRAY, PINK = "#6f7f8f", "#ff3d9a"
_DPI = 110
_BYTES = 400_000  # a page of pictures should not be slow to open
_HEADING = 11  # points


class MissingError(Exception):
    """What a figure is made from is not there; the message says how to get it.

    Example:
        >>> str(MissingError("needs a trained model"))
        'needs a trained model'
    """


def panels(rows: int, columns: int, width: float = 3.0, height: float | None = None) -> tuple[Figure, np.ndarray]:
    """A figure of panels of one size in inches, and its axes of shape (rows, columns).

    Example:
        >>> panels(2, 3)[1].shape
        (2, 3)
    """
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    size = (columns * width, rows * ((height or width) + 0.1) + 0.2)  # room for headings
    with mpl.rc_context({"axes.titlesize": _HEADING, "font.size": 10}):
        figure, axes = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    layout: Any = figure.get_layout_engine()
    layout.set(w_pad=0.05, h_pad=0.05, wspace=0.02, hspace=0.02)
    return figure, axes


def scale_beside(picture: Any, axes: np.ndarray, label: str = "", **options: Any) -> None:
    """One scale of colors for several panels."""
    bar = axes.flat[0].figure.colorbar(picture, ax=list(axes.flat), shrink=0.75, pad=0.02, **options)
    bar.set_label(label, fontsize=9)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_linewidth(0.5)


def square(ax: Any, x: np.ndarray) -> None:
    """Limits of a plane that hold all points, alike in width and height, so that panels are of one size."""
    middle = (x.max(0) + x.min(0)) / 2
    half = 0.53 * float(np.ptp(x, axis=0).max()) or 1.0
    ax.set_xlim(middle[0] - half, middle[0] + half)
    ax.set_ylim(middle[1] - half, middle[1] + half)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as a small PNG, the same bytes for the same picture, and close it."""
    from matplotlib import pyplot
    from PIL import Image

    figure.set_dpi(_DPI)
    canvas: Any = figure.canvas
    canvas.draw()
    pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
    pyplot.close(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels.save(path, optimize=True)
    if path.stat().st_size > _BYTES:
        pixels.quantize(256, kmeans=1, dither=Image.Dither.NONE).save(path, optimize=True)
