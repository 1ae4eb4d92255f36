"""Pictures of the disc, with matplotlib: `pip install "horoball[plot]"`.

Points are given in ball coordinates, as `PoincareVAE.transform` returns them, with the c of their ball; for c = 0 they
are points of the plane. Every function draws on `ax`, makes one if there is none, and returns it, so that pictures are
put together: points on a density, edges under points. Embeddings of more than two dimensions are projected, and the
picture says so.
"""

from __future__ import annotations

import math
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

__all__ = ["cloud", "density", "disc", "distance_map", "edges", "gyroplanes", "points", "tree"]

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
    style: dict[str, Any] = {"s": size, "linewidths": 0, "zorder": 4, "alpha": 0.85}
    values = None if labels is None else np.asarray(labels)
    if values is not None and len(values) != len(flat):
        raise ValueError(f"points expects one label for each of {len(flat)} points, got {len(values)}.")
    if values is None:
        ax.scatter(*flat.T, color=colour_of(0), **style)
    elif values.dtype.kind == "f":
        shown = ax.scatter(*flat.T, c=values, cmap="viridis", **style)
        ax.figure.colorbar(shown, ax=ax, shrink=0.7)
    else:
        values = named(values)
        for number, name in enumerate(np.unique(values)):
            ax.scatter(*flat[values == name].T, color=colour_of(number), label=str(name), **style)
        if legend:
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, markerscale=max(1, 6 / size**0.5))
    if note:
        ax.annotate(note, (0.5, -0.02), xycoords="axes fraction", ha="center", va="top", fontsize=7, wrap=True)
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


def density(law: RiemannianNormal | WrappedNormal, *, ax: Any = None, levels: int = 8, title: str = "") -> Any:
    """The density of a normal on the disc, with respect to the ball's own measure, with level lines.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> ax = density(WrappedNormal(torch.zeros(2), torch.ones(1), PoincareBall(1.0)))
        >>> len(ax.images)
        1
    """
    c = _fixed(law.ball)
    ax = _prepared(ax, c, title)
    across, z, inside = _grid(ax, c)
    with torch.no_grad():
        height = np.where(inside, law.log_prob(z.to(law.loc.dtype)).double().exp().numpy(), np.nan)
    ax.imshow(height, extent=_extent(across), origin="lower", cmap="Blues", zorder=1, interpolation="bilinear")
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
    return points(x.reshape(-1, x.shape[-1]).numpy(), c=_fixed(law.ball), labels=which, ax=ax, legend=False, **style)


def gyroplanes(layer: Gyroplane, *, ax: Any = None, colour: str = "#d55e00", width: float = 1.0) -> Any:
    """The hyperplanes of a layer on the disc, which are geodesics.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(gyroplanes(Gyroplane(2, 5, PoincareBall(1.0))).lines)
        5
    """
    c = _fixed(layer.ball)
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


def distance_map(layer: Gyroplane, index: int = 0, *, ax: Any = None, title: str = "") -> Any:
    """The signed distance to a hyperplane of a layer, as a heat-map, with the hyperplane on it.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(distance_map(Gyroplane(2, 5, PoincareBall(1.0)), 3).images)
        1
    """
    c = _fixed(layer.ball)
    ax = _prepared(ax, c, title)
    across, z, inside = _grid(ax, c)
    with torch.no_grad():
        scale = layer.weight[index].norm()
        height = np.where(inside, (layer(z.to(layer.weight.dtype))[..., index] / scale).double().numpy(), np.nan)
    most = float(np.nanquantile(np.abs(height), 0.95))  # distances grow without bound towards the rim
    options: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "zorder": 1}
    shown = ax.imshow(height, extent=_extent(across), origin="lower", **options)
    ax.contour(across, across, height, [0.0], colors="#222222", linewidths=1.2, zorder=3)
    ax.figure.colorbar(shown, ax=ax, shrink=0.7, label="signed distance", extend="both")
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


def _fixed(ball: PoincareBall) -> float:
    return float(torch.as_tensor(ball.c).detach())


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
