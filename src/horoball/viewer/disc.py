"""`view`: an embedding, a model, a graph or a tree as a page to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from horoball.graphs.run import GraphRun
from horoball.trees.tree import Tree
from horoball.viewer.points import View, coordinates_of, frame_policy, tree_page, view_points
from horoball.viewer.run import graph_page, model_of, run_page

__all__ = ["View", "frame_policy", "view", "view_points", "view_tree"]


def view(
    what: Any,
    rows: Any = None,
    *,
    c: float | None = None,
    columns: Any = None,
    labels: Any = None,
    color: str | None = None,
    scale: Any = None,
    edges: Any = None,
    images: Any = None,
    image_shape: tuple[int, ...] | None = None,
    features: Sequence[str] = (),
    tree: Tree | None = None,
    levels: Sequence[Any] = (),
    details: int | str = "auto",
    title: str = "",
    path: str | Path | None = None,
) -> View:
    """One HTML file with an interactive map of an embedding, a model, a graph or a tree; it needs no network.

    Args:
        what: Ball coordinates, √c|z| < 1, shape (n, d), as `PoincareVAE.transform` returns them; or a tree; or a fitted
            model of rows or of a graph, as an estimator or as its run. More than two dimensions are projected, and the
            page says so.
        rows: The rows that are shown: a table, an array or a data frame. A model of rows needs them; else the page can
            say by their columns what sets a branch or a selection apart. Values are kept in one byte.
        c: Minus the curvature of coordinates, 1 if not given; 0 shows a plane, which is moved and zoomed without a
            bend. Models know their own.
        columns: Values to show and to color by: a dict from names to arrays, or a pandas or polars data frame. Without
            any, a model of rows has their label, a graph the degrees of its nodes, and a tree its largest branches.
        labels: Names of the points, to search for; a table's ids, a graph's nodes or a tree's leaves if not given.
        color: Name of the column that colors the points at first; the first one without it.
        scale: Posterior scale of each point, in metric units, shape (n,). Models know their own.
        edges: Pairs of row numbers to join by geodesics, shape (m, 2). Graphs know their own.
        images: A picture of each point, shape (n, h, w) or (n, h, w, 3): bytes, or floats in [0, 1].
        image_shape: (h, w) or (h, w, 3) where a row of a model's table is a picture.
        features: Names of a model's columns to show exactly and to color by.
        tree: A tree of the points, or of groups of them: shown beside the map and in it.
        levels: Names of the group of each point, from coarse to fine: one sequence of n names a level, None where a
            point is in no group. Names are written on the map as many as fit, finer ones as it comes closer. Without
            levels these are the categories of the coloring.
        details: How many columns of `rows` the page holds, those first that differ most across the map; "auto" is as
            many as make it about a fifth larger, up to 60. Each more makes it larger by about a byte a row.
        title: Title of the page.
        path: Where to write the page; without it, it is only returned.

    Example:
        >>> z = [[0.0, 0.0], [0.5, 0.0], [0.0, -0.9]]
        >>> view(z, columns={"type": ["root", "leaf", "leaf"]}, labels=["a", "b", "c"])
        View(... characters)
        >>> view(Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], names=["cat", "dog", "oak"]))
        View(... characters)
    """
    given = {
        "c": c,
        "scale": scale,
        "edges": edges,
        "images": images,
        "image_shape": image_shape,
        "features": features or None,
        "tree": tree,
    }
    shown: dict[str, Any] = {"columns": columns, "labels": labels, "color": color, "levels": levels}
    shown |= {"details": details, "title": title, "path": path}
    if isinstance(what, Tree):
        _refuse(given, "A tree without a map", ())
        return tree_page(what, rows=rows, **shown)
    run = model_of(what)
    if isinstance(run, GraphRun):
        _refuse(given, "A graph, whose places and edges are known,", ("tree",))
        return graph_page(run, rows=rows, tree=tree, **shown)
    if run is not None:
        _refuse(given, "A model, which knows its own places,", ("edges", "image_shape", "features", "tree"))
        if rows is None:
            raise ValueError("A model of rows shows rows: view(model, rows), with the columns of the fit.")
        return run_page(run, rows, features=features, image_shape=image_shape, edges=edges, tree=tree, **shown)
    _refuse(given, "A map of coordinates", ("c", "scale", "edges", "images", "tree"))
    z, ball = coordinates_of(what, 1.0 if c is None else c)
    return view_points(z, ball, scale=scale, edges=edges, images=images, tree=tree, rows=rows, **shown)


def _refuse(given: dict[str, Any], what: str, takes: Sequence[str]) -> None:
    for name, value in given.items():
        if value is not None and name not in takes:
            raise ValueError(f"{what} takes no {name}=. Leave it out.")


def view_tree(
    tree: Tree,
    columns: Any = None,
    labels: Any = None,
    color: str | None = None,
    title: str = "",
    path: str | Path | None = None,
    rows: Any = None,
    details: int | str = "auto",
    levels: Sequence[Any] = (),
) -> View:
    """`view(tree, …)`: one HTML file with a tree to browse. For a tree beside its map, see `view`.

    Args:
        tree: The tree.
        columns: Values of the rows to show and to color branches by: a dict from names to arrays, or a pandas or
            polars data frame. Without any, the largest branches have colors.
        labels: Names of the rows, to search for; the tree's own names where each row is a leaf.
        color: Name of the column that colors the branches at first; the first one without it.
        title: Title of the page.
        path: Where to write the page; without it, it is only returned.
        rows: The rows that the tree was made of: a table, an array or a data frame, see `view`.
        details: How many columns of `rows` the page holds, see `view`.
        levels: Names of the group of each row, from coarse to fine, such as `Taxonomy.names`, see `view`.

    Example:
        >>> tree = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], names=["cat", "dog", "oak"])
        >>> view_tree(tree, {"kingdom": ["animal", "animal", "plant"]})
        View(... characters)
    """
    shown: dict[str, Any] = {"columns": columns, "labels": labels, "color": color, "levels": levels, "details": details}
    return view(tree, rows, **shown, title=title, path=path)
