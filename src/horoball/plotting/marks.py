"""What stands at a place: points, samples, images."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from horoball.distributions.normal import BallNormal
from horoball.geometry.ball import PoincareBall
from horoball.geometry.coordinates import project
from horoball.geometry.random import generator_for
from horoball.plugins import required
from horoball.tables.cell_values import category_names

# Colors that color-blind readers can tell apart: Okabe and Ito's, then Tol's muted ones, as in the viewer by day.
COLORS = (
    *("#0072b2", "#d55e00", "#009e73", "#c46a9b", "#e69f00", "#3aa0dd", "#8a7a00"),
    *("#332288", "#882255", "#44aa99", "#999933", "#aa4499", "#cc6677", "#117733"),
)
_GOLDEN = 0.618034  # of a turn: hues of any number of colors stay apart
_LIGHTNESS = (0.35, 0.62, 0.48)  # one after the other, so that neighboring hues differ in lightness too


def color_of(number: int) -> str:
    """The color of a category by its number; no two of the first hundred are the same."""
    if number < len(COLORS):
        return COLORS[number]
    further = number - len(COLORS)
    rgb = colorsys.hls_to_rgb(further * _GOLDEN % 1, _LIGHTNESS[further % len(_LIGHTNESS)], 0.65)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def disc(ax: Any = None, *, c: float = 1.0, title: str = "") -> Any:
    """The empty disc: its rim, no axes. For c = 0 the plane has no rim.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> disc().get_aspect()
        1.0
    """
    if ax is None:
        _, ax = required("matplotlib.pyplot").subplots(figsize=(6, 6), layout="constrained")
    ax.set_aspect("equal")
    ax.set_axis_off()
    if c > 0:
        radius = 1 / math.sqrt(c)
        circle = required("matplotlib.pyplot").Circle
        ax.add_patch(circle((0, 0), radius, fill=False, color="#444444", linewidth=1.2, zorder=5, gid="rim"))
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
    order: Sequence[str] | None = None,
    colors: Mapping[str, Any] | None = None,
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
        order: Categories in the order of the legend; by name if not given. Those that do not occur are left out.
        colors: Colors of categories by name; those without one get a color of the palette by their place.

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
        there = list(map(str, np.unique(values)))
        first = [name for name in order or () if name in set(there)]
        there = first + [name for name in there if name not in set(first)]
        for number, name in enumerate(there):
            shade = (colors or {}).get(name, color_of(number))
            ax.scatter(*flat[values == name].T, color=shade, label=name, **style)
        if legend:
            columns = -(-len(there) // _NAMES)
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
        >>> from horoball.geometry import PoincareBall
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
