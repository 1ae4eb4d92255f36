"""Heat-maps over the disc: densities, and distances to a hyperplane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.distributions import BallNormal
from horoball.manifolds import PoincareBall
from horoball.nn import Gyroplane
from horoball.plotting.frame import prepared

__all__ = ["density", "distance_map"]

_GRID = 400  # pixels across


def density(
    distribution: BallNormal,
    *,
    ax: Any = None,
    levels: int | Sequence[float] = 8,
    highest: float | None = None,
    title: str = "",
) -> Any:
    """The density of a normal on the disc, with respect to the ball's own measure, with level lines.

    Args:
        distribution: A single normal.
        ax: Where to draw.
        levels: How many lines, or at which densities.
        highest: Density of the darkest color, so that several pictures share a scale; by default its own.
        title: Heading.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> from horoball import WrappedNormal
        >>> ax = density(WrappedNormal(torch.zeros(2), torch.ones(1), PoincareBall(1.0)))
        >>> len(ax.images)
        1
    """
    c = distribution.ball.c_value
    ax = prepared(ax, c, title)
    reach = (
        float((distribution.loc.norm() + 4 * distribution.mean_scale).detach()) / 2
    )  # as `to_ball` halves it for c = 0
    across, z, inside = _grid(ax, c, reach)
    with torch.no_grad():
        height = np.where(inside, distribution.log_prob(z.to(distribution.loc.dtype)).double().exp().numpy(), np.nan)
    options: dict[str, Any] = {"cmap": "Blues", "vmin": 0.0, "vmax": highest, "interpolation": "bilinear"}
    ax.imshow(height, extent=_extent(across), origin="lower", zorder=1, **options)
    ax.contour(across, across, height, levels, colors="#0b3c66", linewidths=0.5, zorder=2)
    return ax


def distance_map(
    layer: Gyroplane,
    index: int = 0,
    *,
    ax: Any = None,
    log: bool = False,
    limits: tuple[float, float] | None = None,
    color: str = "#222222",
    scale: bool = True,
    title: str = "",
) -> Any:
    """The signed distance to a hyperplane of a layer, as a heat-map, with the hyperplane on it.

    Args:
        layer: The layer.
        index: Number of its hyperplane.
        ax: Where to draw.
        log: Shows the decimal logarithm of the distance, without its sign.
        limits: Values at the ends of the colors, so that several pictures share a scale.
        color: Of the hyperplane.
        scale: Whether the values of the colors are shown beside.
        title: Heading.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(distance_map(Gyroplane(2, 5, PoincareBall(1.0)), 3).images)
        1
    """
    c = layer.ball.c_value
    ax = prepared(ax, c, title)
    across, z, inside = _grid(ax, c)
    with torch.no_grad():
        length = layer.weight[index].norm()
        height = np.where(inside, (layer(z.to(layer.weight.dtype))[..., index] / length).double().numpy(), np.nan)
    shown = np.log10(np.maximum(np.abs(height), 1e-12)) if log else height
    if limits is None:  # distances grow without bound toward the rim, and their logarithms fall so at the hyperplane
        most = float(np.nanmax(shown) if log else np.nanquantile(np.abs(height), 0.95))
        limits = (float(np.nanquantile(shown, 0.02)), most) if log else (-most, most)
    options: dict[str, Any] = {"cmap": "viridis" if log else "RdBu_r", "vmin": limits[0], "vmax": limits[1]}
    picture = ax.imshow(shown, extent=_extent(across), origin="lower", zorder=1, **options)
    ax.contour(across, across, height, [0.0], colors=color, linewidths=1.2, zorder=3)
    if scale:
        name = "log₁₀ distance" if log else "signed distance"
        ax.figure.colorbar(picture, ax=ax, shrink=0.7, label=name, extend="min" if log else "both")
    return ax


def _grid(ax: Any, c: float, reach: float = 1.0) -> tuple[np.ndarray, Tensor, np.ndarray]:
    """Pixel centers along an axis, the points of the ball at all pixels, and which of these lie inside.

    The plane, c = 0, has no rim: there it is what is drawn already that is covered, or as far as is asked.
    """
    if c > 0:
        edge = 1 / math.sqrt(c)
    else:
        edge = max(map(abs, (*ax.get_xlim(), *ax.get_ylim()))) if ax.has_data() else reach
    across = (np.arange(_GRID) + 0.5) / _GRID * 2 * edge - edge
    x = torch.from_numpy(np.stack(np.meshgrid(across, across), -1))
    inside = (x.norm(dim=-1) * math.sqrt(c) < 0.9999).numpy() if c > 0 else np.ones((_GRID, _GRID), bool)
    return across, PoincareBall(c).from_ball(torch.where(torch.from_numpy(inside).unsqueeze(-1), x, 0.0)), inside


def _extent(across: np.ndarray) -> tuple[float, float, float, float]:
    edge = float(across[-1] + (across[1] - across[0]) / 2)
    return -edge, edge, -edge, edge
