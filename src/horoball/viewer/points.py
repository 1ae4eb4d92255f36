"""Points and trees as a page to look at.

Note [Escaping]: data never become markup. Numbers are base64, names are JSON in a block that no browser runs, with the
characters that could end the block written as escapes; the script puts them on the page as text only. The policy lets
the one script run by its hash and forbids every request, so a name that did become markup still could do nothing.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.geometry.coordinates import project
from horoball.storage.stores import located
from horoball.storage.whole import write_whole
from horoball.tables.numbers import check_unmasked
from horoball.tables.table import Table
from horoball.trees.tree import Tree
from horoball.viewer.compared import MOST_COMPARED, add_compared, cells_of, compared_columns
from horoball.viewer.payload import (
    Payload,
    add_column,
    add_edges,
    add_levels,
    add_points,
    add_scale,
    add_tree,
    make_atlas,
    make_columns,
)

if TYPE_CHECKING:
    from horoball.viewer.widget import Widget

# In the order of use: they share one scope.
SCRIPTS = (
    "mobius.js",
    "data.js",
    "palette.js",
    "shaders.js",
    "renderer.js",
    "nearest.js",
    "scene.js",
    "coloring.js",
    "ground.js",
    "frames.js",
    "names.js",
    "density.js",
    "overlay.js",
    "terms.js",
    "details.js",
    "legend.js",
    "search.js",
    "selection.js",
    "apart.js",
    "groups.js",
    "picture.js",
    "link.js",
    "input.js",
    "outside.js",
    "main.js",
)
# Of a page with a tree, before the last one.
TREE_SCRIPTS = ("clades.js", "branches.js", "dendrogram.js", "skeleton.js", "browsing.js", "treeinput.js")


# By how much values to compare rows by may make a page larger than it would be unpacked; a page of few rows, which is
# mostly program, may hold more: as many bytes as these, less ten a row.
_SHARE = 0.1
_FEW_ROWS = 100_000


def document(meta: dict[str, Any], data: bytes) -> str:
    r"""The whole page."""
    style, script = _source("page.css"), _script("tree" in meta)
    parts = {
        "policy": (
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
            "connect-src 'none'; base-uri 'none'; form-action 'none'"
        ),
        "style": style,
        "meta": safe_json(meta),
        "arrays": base64.b64encode(zlib.compress(data)).decode("ascii"),
        "script": script,
    }
    # In one pass: a name that reads {{script}} stays a name.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _source("page.html"))


def frame_policy() -> str:
    """What a page that shows a map in a frame must allow in its own policy, which holds in the frame too."""
    return f"script-src '{_hash(_script(tree=False))}'; img-src data: blob:"


def safe_json(value: Any) -> str:
    r"""JSON that cannot end the block it stands in."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Half a surrogate pair, as a file name may hold, has no UTF-8: it is written as an escape too.
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)


@cache
def _source(name: str) -> str:
    return files("horoball.viewer").joinpath("page", name).read_text(encoding="utf-8")


@cache
def _script(tree: bool) -> str:
    names = (*SCRIPTS[:-1], *TREE_SCRIPTS, SCRIPTS[-1]) if tree else SCRIPTS
    # Without comments, empty lines and indentation, a twentieth of the page: no string of the sources depends on them.
    body = "\n".join(_source(name) for name in names)
    body = re.sub(r"^ *(//.*)?\n|^ +| +// [^\"'`\n]*$", "", body, flags=re.MULTILINE)
    return f'"use strict";\n(async () => {{\n{body}}})();\n'  # it waits for the arrays to be unpacked


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


@dataclass(frozen=True)
class View:
    """A page; a notebook shows it inline.

    Attributes:
        html: Its text.
        index: Labels of the rows it shows.

    Example:
        >>> import tempfile
        >>> path = View("<!doctype html>").save(Path(tempfile.mkdtemp()) / "map.html")
        >>> path.read_text(encoding="utf-8")[:15]
        '<!doctype html>'
    """

    html: str
    index: Sequence[Any] = ()

    def save(self, path: str | Path) -> Path:
        """Write the page to a file; returns its path."""
        path = located(path)
        write_whole(path, self.html)  # a page that is open keeps its file until the new one is whole
        return path

    def __repr__(self) -> str:
        return f"View({len(self.html):,} characters)"

    def frame(self) -> str:
        """The page in a frame of another: its policy holds in it, and the other's styles do not."""
        return (
            '<iframe title="Poincaré disc" sandbox="allow-scripts allow-downloads" width="100%" height="640" '
            f'style="border:0" srcdoc="{html.escape(self.html)}"></iframe>'
        )

    def _repr_html_(self) -> str:
        return self.frame()

    def widget(self, height: int = 640) -> Widget:
        """The page as a notebook's widget, whose `selection` has the labels of the rows selected in it.

        Args:
            height: Height in pixels.

        Example:
            >>> widget = View("<!doctype html>", index=["ann", "ben"]).widget()
            >>> widget.selection
            []
        """
        from horoball.viewer.widget import Widget  # which needs an extra

        return Widget(self.html, self.index, height)


def coordinates_of(z: Any, c: float) -> tuple[Tensor, PoincareBall]:
    """Ball coordinates in the tangent chart, checked, and their ball."""
    if not (math.isfinite(c) and c >= 0):
        raise ValueError(f"view shows the Poincaré disc, or a plane for c = 0: c must be 0 or more, got c = {c:g}.")
    check_unmasked(z, "z")
    x = torch.as_tensor(np.asarray(z.detach().cpu() if hasattr(z, "detach") else z, np.float64))
    if x.dim() != 2 or 0 in x.shape:
        raise ValueError(f"view expects points of shape (n, d), got {tuple(x.shape)}.")
    outside = ~((c * x.square().sum(-1)) < 1)  # true of NaN too, and of c = 0 of infinity
    if outside.any():
        row = int(outside.nonzero()[0, 0])
        if c == 0:
            raise ValueError(f"view expects finite coordinates, but row {row} has {x[row].tolist()[:5]}.")
        norm = float(math.sqrt(c) * x[row].norm())
        raise ValueError(
            f"view expects points inside the ball, sqrt(c)·|z| < 1, but row {row} has {norm:.9g}. Is c right, and are "
            "these ball coordinates in float64?"
        )
    ball = PoincareBall(c)
    return ball.from_ball(x), ball


def view_points(
    z: Tensor,
    ball: PoincareBall,
    *,
    columns: Any,
    labels: Any,
    color: str | None,
    scale: Any,
    edges: Any = None,
    images: Any = None,
    tree: Tree | None = None,
    levels: Sequence[Any] = (),
    rows: Any = None,
    details: int | str = "auto",
    title: str = "",
    path: str | Path | None = None,
) -> View:
    """`view` of points in the tangent chart, where those far out are still told apart.

    Example:
        >>> far = torch.tensor([[30.0, 0.0], [31.0, 0.0]])
        >>> view_points(far, PoincareBall(1.0), columns=None, labels=None, color=None, scale=None)
        View(... characters)
    """
    # Of another space than the ball a plane is shown, with the distances from its middle.
    n, c = len(z), ball.c_value if isinstance(ball, PoincareBall) else 0.0
    flat = project(z, ball)
    payload = Payload()
    add_points(payload, flat.points, c)
    add_rows(payload, n, columns=columns, labels=labels, color=color, tree=tree, title=title, note=flat.note)
    add_levels(payload, levels, n)
    if scale is not None:
        add_scale(payload, scale, n)
    if edges is not None:
        add_edges(payload, edges, n)
    if images is not None:
        payload.meta["images"] = make_atlas(images, n)
        rows = None if details == "auto" else rows  # pictures tell more than the means of their pixels
    return _finished(payload, labels, rows, details, flat.points, tree, path)


def _finished(
    payload: Payload,
    labels: Any,
    rows: Any,
    details: int | str,
    points: np.ndarray | None,
    tree: Tree | None,
    path: str | Path | None,
) -> View:
    """The page of what was gathered, with as many columns of the rows to compare them by as it has room for."""
    if details != "auto" and (not isinstance(details, int) or details < 0):
        raise ValueError(f'details is a number of columns from 0, or "auto", got {details!r}.')
    if rows is not None and details != 0:
        held = _rows_of(rows)
        if held != payload.meta["n"]:
            raise ValueError(f"rows has {held} rows for {payload.meta['n']} points. Give the rows that are shown.")
        skip = {column["name"] for column in payload.meta["columns"]}
        most = MOST_COMPARED if details == "auto" else int(details)
        found, of = compared_columns(rows, cells_of(payload.meta["n"], points, tree), skip, most)
        room = math.inf
        if details == "auto":
            packed, plain = (len(document(payload.meta, data)) for data in (payload.data, b""))
            room = (1 + _SHARE) * (plain + 4 / 3 * len(payload.data)) - packed
            room = max(room, _FEW_ROWS - 10 * payload.meta["n"])
        add_compared(payload, found, of, room)
    shown = View(document(payload.meta, payload.data), _index(payload, labels, rows))
    if path is not None:
        shown.save(path)
    return shown


def _index(payload: Payload, labels: Any, rows: Any) -> Sequence[Any]:
    """What rows are called in Python: by the index of their data frame, else by the names given, else by numbers."""
    if type(rows).__module__.startswith("pandas."):
        return list(rows.index)
    if labels is not None:
        return _listed(labels)
    return payload.meta.get("names") or range(payload.meta["n"])


def _rows_of(rows: Any) -> int:
    return rows.rows if isinstance(rows, Table) else len(rows)


def add_rows(
    payload: Payload,
    n: int,
    *,
    columns: Any,
    labels: Any,
    color: str | None,
    tree: Tree | None,
    title: str,
    note: str = "",
    derived: bool = False,
) -> None:
    """What a page tells of rows, with a map or without: their columns, which may be `derived`, names and tree."""
    made = make_columns(columns, n)
    names = [column.name for column in made]
    if color is not None and color not in names:
        raise ValueError(f"There is no column {color!r} to color by. Columns: {', '.join(names[:20]) or 'none'}.")
    payload.meta |= {"title": str(title), "note": note, "columns": [], "color": color}
    for column in made:
        add_column(payload, replace(column, derived=derived))
    if tree is not None:
        if not add_tree(payload, tree, n) and labels is None:
            labels = tree.names
        if tree.verdict is not None:
            payload.meta["tree"]["verdict"] = tree.verdict.sentence
            payload.meta["note"] = f"{note} {tree.verdict.sentence}".strip()
    if labels is not None:
        payload.meta["names"] = _names(labels, n)


def _listed(labels: Any) -> list[Any]:
    as_list = getattr(labels, "to_pylist", None) or getattr(labels, "tolist", None)  # of Arrow, of NumPy and pandas
    return list(as_list() if as_list else labels)


def _names(labels: Any, n: int) -> list[str]:
    names = [str(label) for label in _listed(labels)]
    if len(names) != n:
        raise ValueError(f"labels must name every point: got {len(names)} names for {n} points.")
    return names


_GROUPS = 8  # branches that get a color of their own where there is no column to color by


def tree_page(
    tree: Tree,
    *,
    rows: Any,
    columns: Any,
    labels: Any,
    color: str | None,
    levels: Sequence[Any],
    details: int | str,
    title: str,
    path: str | Path | None,
) -> View:
    """`view` of a tree without a map."""
    n = tree.leaves if tree.leaf is None else len(tree.leaf)
    derived = False
    if columns is None and len(levels):
        columns = {}  # colored by the finest groups, which have names
    elif columns is None:
        group = tree.cut(min(_GROUPS, tree.leaves))
        group = group if tree.leaf is None else group[tree.leaf]
        columns = {"branch": [None if one < 0 else one for one in group.tolist()]}
        derived = True
    payload = Payload()
    payload.meta["n"] = n
    add_rows(payload, n, columns=columns, labels=labels, color=color, tree=tree, title=title, derived=derived)
    add_levels(payload, levels, n)
    if not columns and color is None:
        payload.meta["color"] = f"level {len(levels)}"
    return _finished(payload, labels, rows, details, None, tree, path)
