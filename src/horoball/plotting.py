"""Pictures of the disc, with matplotlib: `pip install "horoball[plot]"`.

Points are given in ball coordinates, as `PoincareVAE.transform` returns them, with the c of their ball; for c = 0 they
are points of the plane. Every function draws on `ax`, makes one if there is none, and returns it, so that pictures are
put together: points on a density, edges under points. Embeddings of more than two dimensions are projected, and the
picture says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.manifolds import PoincareBall
from horoball.nn import Gyroplane
from horoball.palette import colour_of, named
from horoball.projection import project

__all__ = ["cloud", "density", "disc", "distance_map", "edges", "gyroplanes", "points", "thumbnails", "tree"]

_ARC = 48  # points of a geodesic
_GRID = 400  # pixels across a heat-map


def disc(ax: Any = None, *, c: float = 1.0, title: str = "") -> Any:
    """The empty disc: its rim, no axes. For c = 0 the plane has no rim.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> disc().get_aspect()
        1.0
    """
    if ax is None:
        _, ax = _pyplot().subplots(figsize=(6, 6), layout="constrained")
    ax.set_aspect("equal")
    ax.set_axis_off()
    if c > 0:
        radius = 1 / math.sqrt(c)
        rim = _pyplot().Circle((0, 0), radius, fill=False, color="#444444", linewidth=1.2, zorder=5, gid="rim")
        ax.add_patch(rim)
        ax.set_xlim(-1.02 * radius, 1.02 * radius)
        ax.set_ylim(-1.02 * radius, 1.02 * radius)
    if title:
        ax.set_title(title)
    return ax


def points(
    x: ArrayLike,
    *,
    c: float = 1.0,
    labels: ArrayLike | None = None,
    ax: Any = None,
    size: float | None = None,
    colour: str = colour_of(0),
    marker: str = "o",
    title: str = "",
    legend: bool = True,
) -> Any:
    """Points, coloured by category with a legend, or by number with a scale.

    Args:
        x: Ball coordinates, shape (n, d).
        c: Minus the curvature of their ball.
        labels: A category or a number for each point; floats are numbers, anything else is a category.
        ax: Where to draw.
        size: Area of a point in square points; chosen from n if not given.
        colour: Of points without labels.
        marker: Their form, by matplotlib's letters.
        title: Heading.
        legend: Whether categories are named.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(points([[0.1, 0.2], [0.5, 0.0]], labels=["a", "b"]).get_legend().get_texts())
        2
    """
    flat, note = _on_disc(x, c)
    ax = _prepared(ax, c, title)
    size = size if size is not None else float(np.clip(6000 / max(len(flat), 1), 2, 40))
    width = 0.6 if marker in ("+", "x", "|", "_", "1", "2", "3", "4") else 0  # these are lines, others have an inside
    style: dict[str, Any] = {"s": size, "marker": marker, "linewidths": width, "zorder": 4, "alpha": 0.85}
    values = None if labels is None else np.asarray(labels)
    if values is not None and len(values) != len(flat):
        raise ValueError(f"points expects one label for each of {len(flat)} points, got {len(values)}.")
    if values is None:
        ax.scatter(*flat.T, color=colour, **style)
    elif values.dtype.kind == "f":
        shown = ax.scatter(*flat.T, c=values, cmap="viridis", **style)
        ax.figure.colorbar(shown, ax=ax, shrink=0.7)
    else:
        values = named(values)
        for number, name in enumerate(np.unique(values)):
            ax.scatter(*flat[values == name].T, color=colour_of(number), label=str(name), **style)
        if legend:
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, markerscale=max(1, 6 / size**0.5))
    _annotate(ax, note)
    return ax


def edges(
    x: ArrayLike, pairs: ArrayLike, *, c: float = 1.0, ax: Any = None, colour: str = "#999999", width: float = 0.7
) -> Any:
    """Geodesics between pairs of points.

    Args:
        x: Ball coordinates, shape (n, 2).
        pairs: Numbers of the points to join, shape (m, 2).
        c: Minus the curvature.
        ax: Where to draw.
        colour: Of the lines.
        width: Of the lines, in points.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> edges([[0.1, 0.2], [0.5, 0.0]], [[0, 1]]).collections[0].get_paths()[0].vertices.shape
        (48, 2)
    """
    from matplotlib.collections import LineCollection

    ax = _prepared(ax, c)
    z = torch.from_numpy(_on_disc(x, c)[0])
    ball, index = PoincareBall(c), np.asarray(pairs, np.int64).reshape(-1, 2)
    z = ball.from_ball(z)
    s = torch.linspace(0, 1, _ARC, dtype=torch.float64)
    arcs = ball.to_ball(ball.geodesic(z[index[:, :1]], z[index[:, 1:]], s.expand(len(index), _ARC)))
    ax.add_collection(LineCollection(list(arcs.numpy()), colors=colour, linewidths=width, zorder=2))
    return ax


def tree(x: ArrayLike, parents: ArrayLike, *, c: float = 1.0, ax: Any = None, **style: Any) -> Any:
    """A tree laid over points: a geodesic from each point to its parent; a root is its own.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(tree([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]], [0, 0, 0]).collections[0].get_paths())
        2
    """
    parent = np.asarray(parents)
    child = np.flatnonzero(parent != np.arange(len(parent)))
    return edges(x, np.stack((child, parent[child]), 1), c=c, ax=ax, **style)


def density(
    law: RiemannianNormal | WrappedNormal,
    *,
    ax: Any = None,
    levels: int | Sequence[float] = 8,
    highest: float | None = None,
    title: str = "",
) -> Any:
    """The density of a normal on the disc, with respect to the ball's own measure, with level lines.

    Args:
        law: A single normal.
        ax: Where to draw.
        levels: How many lines, or at which densities.
        highest: Density of the darkest colour, so that several pictures share a scale; without it the law's own.
        title: Heading.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> ax = density(WrappedNormal(torch.zeros(2), torch.ones(1), PoincareBall(1.0)))
        >>> len(ax.images)
        1
    """
    c = law.ball.c_value
    ax = _prepared(ax, c, title)
    across, z, inside = _grid(ax, c)
    with torch.no_grad():
        height = np.where(inside, law.log_prob(z.to(law.loc.dtype)).double().exp().numpy(), np.nan)
    options: dict[str, Any] = {"cmap": "Blues", "vmin": 0.0, "vmax": highest, "interpolation": "bilinear"}
    ax.imshow(height, extent=_extent(across), origin="lower", zorder=1, **options)
    ax.contour(across, across, height, levels, colors="#0b3c66", linewidths=0.5, zorder=2)
    return ax


def cloud(law: RiemannianNormal | WrappedNormal, count: int = 200, *, ax: Any = None, **style: Any) -> Any:
    """Samples of a normal, or of each of a batch of normals in a colour of its own: posteriors as they are.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> law = WrappedNormal(torch.zeros(3, 2), torch.ones(3, 1), PoincareBall(1.0))
        >>> len(cloud(law, 10).collections)
        3
    """
    with torch.no_grad():
        x = law.ball.to_ball(law.sample((count,)).double()).reshape(count, -1, law.loc.shape[-1])
    which = np.tile(np.arange(x.shape[1]).astype(str), count) if x.shape[1] > 1 else None
    return points(x.reshape(-1, x.shape[-1]).numpy(), c=law.ball.c_value, labels=which, ax=ax, legend=False, **style)


def gyroplanes(layer: Gyroplane, *, ax: Any = None, colour: str = "#d55e00", width: float = 1.0) -> Any:
    """The hyperplanes of a layer on the disc, which are geodesics.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(gyroplanes(Gyroplane(2, 5, PoincareBall(1.0))).lines)
        5
    """
    c = layer.ball.c_value
    ax = _prepared(ax, c)
    with torch.no_grad():
        w = layer.weight.double()
        b = layer.bias.double() if layer.bias is not None else w.new_zeros(len(w))
        length = w.norm(dim=-1, keepdim=True).clamp_min(1e-30)
        foot = -(b.unsqueeze(-1) / length) * w / length  # the point of the hyperplane that is nearest to the origin
        along = torch.stack((-w[:, 1], w[:, 0]), -1) / length
        reach = torch.linspace(-12, 12, 200, dtype=torch.float64) / math.sqrt(c or 1.0)
        line = layer.ball.exp(foot.unsqueeze(1), along.unsqueeze(1) * reach.unsqueeze(-1))
        for arc in layer.ball.to_ball(line).numpy():
            ax.plot(*arc.T, color=colour, linewidth=width, zorder=3)
    return ax


def distance_map(
    layer: Gyroplane,
    index: int = 0,
    *,
    ax: Any = None,
    log: bool = False,
    limits: tuple[float, float] | None = None,
    colour: str = "#222222",
    scale: bool = True,
    title: str = "",
) -> Any:
    """The signed distance to a hyperplane of a layer, as a heat-map, with the hyperplane on it.

    Args:
        layer: The layer.
        index: Number of its hyperplane.
        ax: Where to draw.
        log: Shows the decimal logarithm of the distance, without its sign.
        limits: Values at the ends of the colours, so that several pictures share a scale.
        colour: Of the hyperplane.
        scale: Whether the values of the colours are shown beside.
        title: Heading.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(distance_map(Gyroplane(2, 5, PoincareBall(1.0)), 3).images)
        1
    """
    c = layer.ball.c_value
    ax = _prepared(ax, c, title)
    across, z, inside = _grid(ax, c)
    with torch.no_grad():
        length = layer.weight[index].norm()
        height = np.where(inside, (layer(z.to(layer.weight.dtype))[..., index] / length).double().numpy(), np.nan)
    shown = np.log10(np.maximum(np.abs(height), 1e-12)) if log else height
    if limits is None:  # distances grow without bound towards the rim, and their logarithms fall so at the hyperplane
        most = float(np.nanmax(shown) if log else np.nanquantile(np.abs(height), 0.95))
        limits = (float(np.nanquantile(shown, 0.02)), most) if log else (-most, most)
    options: dict[str, Any] = {"cmap": "viridis" if log else "RdBu_r", "vmin": limits[0], "vmax": limits[1]}
    picture = ax.imshow(shown, extent=_extent(across), origin="lower", zorder=1, **options)
    ax.contour(across, across, height, [0.0], colors=colour, linewidths=1.2, zorder=3)
    if scale:
        name = "log₁₀ distance" if log else "signed distance"
        ax.figure.colorbar(picture, ax=ax, shrink=0.7, label=name, extend="min" if log else "both")
    return ax


def thumbnails(
    x: ArrayLike, images: ArrayLike, *, c: float = 1.0, ax: Any = None, size: float = 0.05, title: str = ""
) -> Any:
    """Images at their points. One that would lie on an earlier one is left out, so that the rest can be seen.

    Args:
        x: Ball coordinates, shape (n, d).
        images: Grey values from 0 (see-through) to 1 (black), shape (n, height, width).
        c: Minus the curvature.
        ax: Where to draw.
        size: Width of an image, as a part of the picture's.
        title: Heading.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(thumbnails([[0.1, 0.2], [0.1, 0.2], [0.5, 0.0]], np.ones((3, 8, 8))).images)
        2
    """
    flat, note = _on_disc(x, c)
    grey = np.asarray(images, np.float64)
    if grey.ndim != 3 or len(grey) != len(flat):
        raise ValueError(f"thumbnails expects images of shape ({len(flat)}, height, width), got {grey.shape}.")
    ax = _prepared(ax, c, title)
    if c == 0 and len(flat):
        middle, half = (flat.max(0) + flat.min(0)) / 2, float(np.ptp(flat, axis=0).max()) / 2 * (1 + size) or 1.0
        ax.set_xlim(middle[0] - half, middle[0] + half)
        ax.set_ylim(middle[1] - half, middle[1] + half)
    wide = size * float(np.ptp(ax.get_xlim()))
    tall = wide * grey.shape[1] / grey.shape[2]
    limits, kept = (ax.get_xlim(), ax.get_ylim()), np.empty((0, 2))
    for place, image in zip(flat, grey, strict=True):
        if (np.abs(kept - place) < (wide, tall)).all(1).any():
            continue
        kept = np.vstack((kept, place))
        extent = (place[0] - wide / 2, place[0] + wide / 2, place[1] - tall / 2, place[1] + tall / 2)
        ax.imshow(np.zeros_like(image), alpha=image.clip(0, 1), extent=extent, cmap="gray", zorder=4)
    ax.set_xlim(limits[0])  # each image has moved them to its own
    ax.set_ylim(limits[1])
    _annotate(ax, note)
    return ax


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError('Pictures need matplotlib. Install it with: pip install "horoball[plot]"') from None
    return pyplot


def _prepared(ax: Any, c: float, title: str = "") -> Any:
    """The axes with the disc on them, drawn once."""
    if ax is not None and any(patch.get_gid() == "rim" for patch in ax.patches):
        if title:
            ax.set_title(title)
        return ax
    return disc(ax, c=c, title=title)


def _annotate(ax: Any, note: str) -> None:
    if note:
        ax.annotate(note, (0.5, -0.02), xycoords="axes fraction", ha="center", va="top", fontsize=7, wrap=True)


def _on_disc(x: ArrayLike, c: float) -> tuple[np.ndarray, str]:
    """Two coordinates of each point, and what was done to get them."""
    coordinates = np.asarray(x, np.float64)
    if coordinates.ndim != 2:
        raise ValueError(f"Points have shape (n, d), got {coordinates.shape}.")
    if coordinates.shape[1] == 2:
        return coordinates, ""
    ball = PoincareBall(c)
    shown = project(ball.from_ball(torch.from_numpy(coordinates)), ball)
    return ball.to_ball(torch.from_numpy(shown.points)).numpy(), shown.note


def _grid(ax: Any, c: float) -> tuple[np.ndarray, Tensor, np.ndarray]:
    """Pixel centres along an axis, the points of the ball at all pixels, and which of these lie inside."""
    edge = 1 / math.sqrt(c) if c > 0 else max(map(abs, (*ax.get_xlim(), *ax.get_ylim())))
    across = (np.arange(_GRID) + 0.5) / _GRID * 2 * edge - edge
    x = torch.from_numpy(np.stack(np.meshgrid(across, across), -1))
    inside = (x.norm(dim=-1) * math.sqrt(c) < 0.9999).numpy() if c > 0 else np.ones((_GRID, _GRID), bool)
    return across, PoincareBall(c).from_ball(torch.where(torch.from_numpy(inside).unsqueeze(-1), x, 0.0)), inside


def _extent(across: np.ndarray) -> tuple[float, float, float, float]:
    edge = float(across[-1] + (across[1] - across[0]) / 2)
    return -edge, edge, -edge, edge
