"""A tree on paper: depth to the right, leaves from top to bottom."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from horoball.data.missing import category_names
from horoball.plotting.palette import color_of
from horoball.runtime.extras import require_pyplot

__all__ = ["tree"]

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
        tree: A `horoball.hierarchy.Tree`.
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
        >>> from horoball.hierarchy.trees import Tree
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
        _, ax = require_pyplot().subplots(figsize=(7, height), layout="constrained")
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
        marks = [require_pyplot().Line2D([], [], color=color_of(k), linewidth=3) for k in range(len(paint.categories))]
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
