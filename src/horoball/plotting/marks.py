"""What stands at a place: points, samples, images."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from horoball.data.missing import category_names
from horoball.distributions import BallNormal
from horoball.numerics.random import generator_for
from horoball.plotting.frame import annotate, on_disc, prepared
from horoball.plotting.palette import color_of

__all__ = ["cloud", "points", "thumbnails"]

_NAMES = 22  # in a column of a legend: as tall as the picture


def points(
    x: ArrayLike,
    *,
    c: float = 1.0,
    labels: ArrayLike | None = None,
    ax: Any = None,
    size: float | None = None,
    color: str = color_of(0),
    marker: str = "o",
    title: str = "",
    legend: bool = True,
) -> Any:
    """Points, colored by category with a legend, or by number with a scale.

    Args:
        x: Ball coordinates, shape (n, d).
        c: Minus the curvature of their ball.
        labels: A category or a number for each point; floats are numbers, anything else is a category.
        ax: Where to draw.
        size: Area of a point in square points; chosen from n if not given.
        color: Of points without labels.
        marker: Their form, by matplotlib's letters.
        title: Heading.
        legend: Whether categories are named.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(points([[0.1, 0.2], [0.5, 0.0]], labels=["a", "b"]).get_legend().get_texts())
        2
    """
    flat, note = on_disc(x, c)
    ax = prepared(ax, c, title)
    size = size if size is not None else float(np.clip(6000 / max(len(flat), 1), 2, 40))
    width = 0.6 if marker in ("+", "x", "|", "_", "1", "2", "3", "4") else 0  # these are lines, others have an inside
    style: dict[str, Any] = {"s": size, "marker": marker, "linewidths": width, "zorder": 4, "alpha": 0.85}
    values = None if labels is None else np.asarray(labels)
    if values is not None and len(values) != len(flat):
        raise ValueError(f"points expects one label for each of {len(flat)} points, got {len(values)}.")
    if values is None:
        ax.scatter(*flat.T, color=color, **style)
    elif values.dtype.kind == "f":
        shown = ax.scatter(*flat.T, c=values, cmap="viridis", **style)
        ax.figure.colorbar(shown, ax=ax, shrink=0.7)
    else:
        values = category_names(values)
        for number, name in enumerate(np.unique(values)):
            ax.scatter(*flat[values == name].T, color=color_of(number), label=str(name), **style)
        if legend:
            columns = -(-len(np.unique(values)) // _NAMES)
            style = {"frameon": False, "ncols": columns, "fontsize": None if columns == 1 else "small"}
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=max(1, 6 / size**0.5), **style)
    annotate(ax, note)
    return ax


def cloud(distribution: BallNormal, count: int = 200, *, seed: int = 0, ax: Any = None, **style: Any) -> Any:
    """Samples of a normal, or of each of a batch of normals in a color of its own: posteriors as they are.

    Args:
        distribution: The normal, or a batch of them.
        count: Samples of each.
        seed: Seed of the samples.
        ax: Where to draw.
        **style: Other keywords of `points`.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> from horoball.manifolds import PoincareBall
        >>> from horoball import WrappedNormal
        >>> distribution = WrappedNormal(torch.zeros(3, 2), torch.ones(3, 1), PoincareBall(1.0))
        >>> len(cloud(distribution, 10).collections)
        3
    """
    with torch.no_grad():
        x = distribution.ball.to_ball(distribution.sample((count,), generator_for(seed)).double()).reshape(
            count, -1, distribution.loc.shape[-1]
        )
    which = np.tile(np.arange(x.shape[1]).astype(str), count) if x.shape[1] > 1 else None
    return points(
        x.reshape(-1, x.shape[-1]).numpy(), c=distribution.ball.c_value, labels=which, ax=ax, legend=False, **style
    )


def thumbnails(
    x: ArrayLike, images: ArrayLike, *, c: float = 1.0, ax: Any = None, size: float = 0.05, title: str = ""
) -> Any:
    """Images at their points. One that would lie on an earlier one is left out, so that the rest can be seen.

    Args:
        x: Ball coordinates, shape (n, d).
        images: Gray values from 0 (see-through) to 1 (black), shape (n, height, width).
        c: Minus the curvature.
        ax: Where to draw.
        size: Width of an image, as a part of the picture's.
        title: Heading.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(thumbnails([[0.1, 0.2], [0.1, 0.2], [0.5, 0.0]], np.ones((3, 8, 8))).images)
        2
    """
    flat, note = on_disc(x, c)
    gray = np.asarray(images, np.float64)
    if gray.ndim != 3 or len(gray) != len(flat):
        raise ValueError(f"thumbnails expects images of shape ({len(flat)}, height, width), got {gray.shape}.")
    ax = prepared(ax, c, title)
    if c == 0 and len(flat):
        middle, half = (flat.max(0) + flat.min(0)) / 2, float(np.ptp(flat, axis=0).max()) / 2 * (1 + size) or 1.0
        ax.set_xlim(middle[0] - half, middle[0] + half)
        ax.set_ylim(middle[1] - half, middle[1] + half)
    wide = size * float(np.ptp(ax.get_xlim()))
    tall = wide * gray.shape[1] / gray.shape[2]
    limits, kept = (ax.get_xlim(), ax.get_ylim()), np.empty((0, 2))
    for place, image in zip(flat, gray, strict=True):
        if (np.abs(kept - place) < (wide, tall)).all(1).any():
            continue
        kept = np.vstack((kept, place))
        extent = (place[0] - wide / 2, place[0] + wide / 2, place[1] - tall / 2, place[1] + tall / 2)
        ax.imshow(np.zeros_like(image), alpha=image.clip(0, 1), extent=extent, cmap="gray", zorder=4)
    ax.set_xlim(limits[0])  # each image has moved them to its own
    ax.set_ylim(limits[1])
    annotate(ax, note)
    return ax
