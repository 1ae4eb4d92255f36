"""How far cells have come: the hyperbolic distance from a root."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from horoball.cells.embedding_keys import ball_of, coordinates
from horoball.manifolds.projection import frechet_mean

__all__ = ["pseudotime"]


def pseudotime(cells: Any, root: str | int, *, groupby: str | None = None, key: str = "poincare") -> None:
    """Write the distance of every cell from a root, from 0 at the root to 1 at the farthest cell.

    It goes to `obs["poincare_pseudotime"]`, the root's name to `uns["poincare"]["root"]`.

    Args:
        cells: AnnData with an embedding by `fit` or `CellModel.embed`.
        root: Name of the root cell, or its number; with `groupby` a group, whose cell nearest to its mean is the root.
        groupby: Column of obs with the groups.
        key: Which embedding.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> _ = fit(cells, max_epochs=1, hidden=(8,))
        >>> pseudotime(cells, "0", groupby="branch")
        >>> float(cells.obs["poincare_pseudotime"].min()), float(cells.obs["poincare_pseudotime"].max())
        (0.0, 1.0)
    """
    ball, z = ball_of(cells, key), coordinates(cells, key)
    if groupby is None:
        number = _number(cells, root)
    else:
        members = _members(cells, groupby, root)
        mean = frechet_mean(z[members], ball)
        number = int(members[int(ball.dist(mean.expand_as(z[members]), z[members]).argmin())])
    distance = ball.dist(z[number].expand_as(z), z)
    distance[number] = 0.0
    farthest = float(distance.max())
    cells.obs[f"{key}_pseudotime"] = (distance / (farthest or 1.0)).numpy()
    cells.uns[key]["root"] = str(cells.obs_names[number])


def _number(cells: Any, root: str | int) -> int:
    if isinstance(root, Integral):
        if not -cells.n_obs <= int(root) < cells.n_obs:
            raise ValueError(f"There is no cell {root}: there are {cells.n_obs}, counted from 0.")
        return int(root) % cells.n_obs
    found = np.flatnonzero(np.asarray(cells.obs_names) == root)
    if len(found) != 1:
        many = f"{len(found)} cells are" if len(found) else "No cell is"
        raise ValueError(f"{many} named {root!r}. Give a name of obs_names, a number, or a group with groupby=.")
    return int(found[0])


def _members(cells: Any, groupby: str, root: str | int) -> np.ndarray:
    if groupby not in cells.obs:
        raise ValueError(f"There is no column {groupby!r} in obs. Its columns are: {', '.join(list(cells.obs)[:20])}.")
    groups = np.asarray(cells.obs[groupby].astype(str))
    members = np.flatnonzero(groups == str(root))
    if not len(members):
        known = ", ".join(map(repr, np.unique(groups)[:20]))
        raise ValueError(f"There is no group {str(root)!r} in obs[{groupby!r}]. Its groups are: {known}.")
    return members
