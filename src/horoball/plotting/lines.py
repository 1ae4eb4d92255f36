"""Geodesics: edges, trees and the hyperplanes of a layer."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.distributions.normal import BallNormal
from horoball.geometry.ball import PoincareBall
from horoball.nn.gyroplane import Gyroplane
from horoball.plotting.marks import annotate, color_of, on_disc, prepared
from horoball.plugins import required
from horoball.tables.cell_values import category_names

_ARC = 48  # points of a geodesic


def edges(
    x: ArrayLike, pairs: ArrayLike, *, c: float = 1.0, ax: Any = None, color: str = "#999999", width: float = 0.7
) -> Any:
    """Geodesics between pairs of points.

    Args:
        x: Ball coordinates, shape (n, d). Of more than two dimensions give the same points as to `points`: another set
            would be projected by itself, otherwise.
        pairs: Numbers of the points to join, shape (m, 2).
        c: Minus the curvature.
        ax: Where to draw.
        color: Of the lines.
        width: Of the lines, in points.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> edges([[0.1, 0.2], [0.5, 0.0]], [[0, 1]]).collections[0].get_paths()[0].vertices.shape
        (48, 2)
    """
    from matplotlib.collections import LineCollection

    ax = prepared(ax, c)
    flat, note = on_disc(x, c)
    z = torch.from_numpy(flat)
    ball, index = PoincareBall(c), np.asarray(pairs, np.int64).reshape(-1, 2)
    z = ball.from_ball(z)
    s = torch.linspace(0, 1, _ARC, dtype=torch.float64)
    arcs = ball.to_ball(ball.geodesic(z[index[:, :1]], z[index[:, 1:]], s.expand(len(index), _ARC)))
    ax.add_collection(LineCollection(list(arcs.numpy()), colors=color, linewidths=width, zorder=2))
    annotate(ax, note)
    return ax


def tree_edges(x: ArrayLike, parents: ArrayLike, *, c: float = 1.0, ax: Any = None, **style: Any) -> Any:
    """The edges of a tree over its points: a geodesic from each point to its parent; a root is its own.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(tree_edges([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]], [0, 0, 0]).collections[0].get_paths())
        2
    """
    parent = np.asarray(parents)
    child = np.flatnonzero(parent != np.arange(len(parent)))
    return edges(x, np.stack((child, parent[child]), 1), c=c, ax=ax, **style)


def gyroplanes(layer: Gyroplane, *, ax: Any = None, color: str = "#d55e00", width: float = 1.0) -> Any:
    """The hyperplanes of a layer on the disc, which are geodesics.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(gyroplanes(Gyroplane(2, 5, PoincareBall(1.0))).lines)
        5
    """
    c = layer.ball.c_value
    ax = prepared(ax, c)
    with torch.no_grad():
        w = layer.weight.double()
        b = layer.bias.double() if layer.bias is not None else w.new_zeros(len(w))
        length = w.norm(dim=-1, keepdim=True).clamp_min(1e-30)
        foot = -(b.unsqueeze(-1) / length) * w / length  # the point of the hyperplane that is nearest to the origin
        along = torch.stack((-w[:, 1], w[:, 0]), -1) / length
        reach = torch.linspace(-12, 12, 200, dtype=torch.float64) / math.sqrt(c or 1.0)
        line = layer.ball.exp(foot.unsqueeze(1), along.unsqueeze(1) * reach.unsqueeze(-1))
        for arc in layer.ball.to_ball(line).numpy():
            ax.plot(*arc.T, color=color, linewidth=width, zorder=3)
    return ax


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


_GRAY = "#9aa3b3"  # of branches in which no category has more than half of the rows
_ROW = 0.15  # inches of a leaf


def tree(
    tree: Any,
    labels: ArrayLike | None = None,
    *,
    support: float = 0.5,
    max_leaves: int = 60,
    ax: Any = None,
    title: str = "",
    legend: bool = True,
) -> Any:
    """A rectangular dendrogram with support on its branches; branches of many leaves are drawn as triangles.

    A branch has the color of the category that more than half of its rows have, the paler the fewer, and gray if there
    is none. It is the wider the more rows it has, on a logarithmic scale.

    Args:
        tree: A `horoball.trees.Tree`.
        labels: A category for each row.
        support: Branches with less are dashed and pale; those with as much or more say how much, where there is room.
            To leave weak branches out, draw `tree.collapse(support)`.
        max_leaves: How many leaves and triangles there are at most. Larger values show more of a large tree, up to
            about 200 on a page.
        ax: Where to draw. A figure that is made here is as tall as its leaves need.
        title: Heading.
        legend: Whether categories are named.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> from horoball.trees import Tree
        >>> animals = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], names=["cat", "dog", "oak"])
        >>> ax = tree(animals, ["animal", "animal", "plant"])
        >>> [text.get_text() for text in ax.get_yticklabels()]
        ['oak', 'cat', 'dog']
    """
    if max_leaves < 2:
        raise ValueError(f"tree expects max_leaves of at least 2, got {max_leaves}.")
    paint = _Paint(tree, labels)
    opened = _opened(tree, max_leaves)
    low, high, y, ends = _places(tree, opened)
    if ax is None:
        height = max(2.0, _ROW * high[-1] + 0.8)
        _, ax = required("matplotlib.pyplot").subplots(figsize=(7, height), layout="constrained")
    seen = sorted([*opened, *ends])
    _draw_branches(ax, tree, seen, y, paint, support)
    deepest = _deepest(tree)
    for v in ends:
        if v >= tree.leaves:
            corners = [(tree.depth[v], y[v]), (deepest[v], low[v] + 0.15), (deepest[v], high[v] - 0.15)]
            ax.fill(*zip(*corners, strict=True), color=paint.color(v), alpha=0.6, linewidth=0, zorder=3)
    guides: dict[str, Any] = {"colors": "#d8dce3", "linewidths": 0.5, "zorder": 1}  # from each end to its name
    ax.hlines([y[v] for v in ends], [deepest[v] for v in ends], deepest[-1], **guides)
    start, reach = float(tree.depth[-1]), float(tree.depth.max() - tree.depth[-1]) or 1.0
    ax.set_xlim(start - 0.02 * reach, start + 1.01 * reach)
    ax.set_ylim(high[-1], 0)
    ax.yaxis.tick_right()
    ax.set_yticks([y[v] for v in ends], [paint.name(v) for v in ends], fontsize=7)
    ax.tick_params(axis="y", length=0)
    for v, text in zip(ends, ax.get_yticklabels(), strict=True):
        text.set_color(paint.color(v) if labels is not None else "#222222")
    ax.spines[["left", "right", "top"]].set_visible(False)
    ax.set_xlabel("depth")
    if tree.support is not None:
        _write_support(ax, tree, [v for v in seen if tree.leaves <= v < tree.nodes - 1], low, y, support)
    if title:
        ax.set_title(title)
    if labels is not None and legend:
        line = required("matplotlib.pyplot").Line2D
        marks = [line([], [], color=color_of(k), linewidth=3) for k in range(len(paint.categories))]
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.45 / _inches(ax)[1]), "ncols": 4}
        ax.legend(marks, paint.categories, frameon=False, fontsize=8, **place)
    return ax


class _Paint:
    """The color and the name of a branch, from the labels of its rows."""

    def __init__(self, tree: Any, labels: ArrayLike | None) -> None:
        self.tree = tree
        self.categories: list[str] = []
        if labels is None:
            return
        values = category_names(labels)
        rows = tree.leaves if tree.leaf is None else len(tree.leaf)
        if len(values) != rows:
            raise ValueError(f"tree expects one label for each of {rows} rows, got {len(values)}.")
        names, code = np.unique(values, return_inverse=True)
        self.categories = [str(name) for name in names]
        self.code = code
        leaf = np.arange(rows) if tree.leaf is None else np.asarray(tree.leaf)
        self.place = tree.spans[1][leaf]  # of each row's leaf, from top to bottom

    def majority(self, v: int) -> tuple[int, float]:
        _, first, last = self.tree.spans
        inside = (self.place >= first[v]) & (self.place < last[v])
        count = np.bincount(self.code[inside], minlength=len(self.categories))
        return int(count.argmax()), float(count.max() / max(1, count.sum()))

    def color(self, v: int) -> Any:
        from matplotlib.colors import to_rgb

        if not self.categories:
            return "#444444"
        category, share = self.majority(v)
        part = max(0.0, 2 * share - 1)
        return tuple((1 - part) * np.array(to_rgb(_GRAY)) + part * np.array(to_rgb(color_of(category))))

    def name(self, v: int) -> str:
        if v < self.tree.leaves:
            return str(self.tree.names[v])
        many = f"{int(self.tree.rows[v]):,}"
        if not self.categories:
            return f"{many} rows"
        category, share = self.majority(v)
        return f"{self.categories[category]} ({many})" if share > 0.5 else f"mixed ({many})"


def _opened(tree: Any, most: int) -> set[int]:
    """The branches whose children are drawn: the largest is opened next, while there is room for its children."""
    root = tree.nodes - 1
    opened: set[int] = set()
    ends = 1
    waiting = [(-int(tree.rows[root]), root)]
    while waiting:
        _, v = heapq.heappop(waiting)
        children = tree.children[v]
        if not len(children) or (v != root and ends - 1 + len(children) > most):
            continue
        opened.add(v)
        ends += len(children) - 1
        for child in children:
            heapq.heappush(waiting, (-int(tree.rows[child]), int(child)))
    return opened


def _places(tree: Any, opened: set[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """The room of each node from top to bottom, its place in it, and the ends; a triangle has that of a few leaves."""
    low, high, y = np.zeros(tree.nodes), np.zeros(tree.nodes), np.zeros(tree.nodes)
    order: list[int] = []
    stack = [tree.nodes - 1]
    while stack:
        v = stack.pop()
        order.append(v)
        if v in opened:
            stack += [int(child) for child in tree.children[v][::-1]]
    ends = [v for v in order if v not in opened]
    place = 0.0
    for v in ends:
        low[v] = place
        count = len(tree.members(v))
        place += 1 if count == 1 else 1 + 0.2 * np.log2(count)
        high[v], y[v] = place, (low[v] + place) / 2
    for v in reversed(order):
        if v in opened:
            first, last = tree.children[v][0], tree.children[v][-1]
            low[v], high[v], y[v] = low[first], high[last], (y[first] + y[last]) / 2
    return low, high, y, ends


def _draw_branches(ax: Any, tree: Any, seen: list[int], y: np.ndarray, paint: _Paint, support: float) -> None:
    from matplotlib.collections import LineCollection

    most = np.log(max(2, int(tree.rows[-1])))
    for weak in (True, False):
        chosen = [v for v in seen if v != tree.nodes - 1 and _is_weak(tree, v, support) == weak]
        corners = [
            [(tree.depth[up], y[up]), (tree.depth[up], y[v]), (tree.depth[v], y[v])]
            for v, up in ((v, int(tree.parent[v])) for v in chosen)
        ]
        widths = [0.7 + 2 * np.log(max(1, int(tree.rows[v]))) / most for v in chosen]
        style: dict[str, Any] = {"linestyles": (0, (2, 1.2)), "alpha": 0.6} if weak else {"capstyle": "projecting"}
        colors = [paint.color(v) for v in chosen]
        ax.add_collection(LineCollection(corners, colors=colors, linewidths=widths, zorder=2, **style))


def _is_weak(tree: Any, v: int, support: float) -> bool:
    return tree.support is not None and v >= tree.leaves and bool(tree.support[v] < support or not tree.supported[v])


def _write_support(ax: Any, tree: Any, branches: list[int], low: np.ndarray, y: np.ndarray, support: float) -> None:
    """Numbers over branches that are long enough for one and have room above."""
    width, height = _inches(ax)
    row = height / abs(float(np.ptp(ax.get_ylim())))
    length = width / float(np.ptp(ax.get_xlim()))
    for v in branches:
        long = length * (tree.depth[v] - tree.depth[tree.parent[v]])
        if _is_weak(tree, v, support) or long < 0.28 or row * (y[v] - low[v]) < 0.14:
            continue
        at = (tree.depth[v], y[v])
        style: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 6, "color": "#444444"}
        ax.annotate(f"{tree.support[v]:.2f}", at, (-2, 2), textcoords="offset points", **style)


def _inches(ax: Any) -> tuple[float, float]:
    """Width and height of the axes."""
    box = ax.get_position()
    wide, tall = ax.figure.get_size_inches()
    return float(box.width * wide), float(box.height * tall)


def _deepest(tree: Any) -> np.ndarray:
    """The greatest depth below each node."""
    deepest = np.array(tree.depth, np.float64)
    for v in range(tree.nodes - 1):
        deepest[tree.parent[v]] = max(deepest[tree.parent[v]], deepest[v])
    return deepest
