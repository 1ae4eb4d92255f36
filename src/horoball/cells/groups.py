"""Groups of cells: types, clusters or samples, as a column of obs names them."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

_log = logging.getLogger("horoball")


def groups_of(cells: Any, column: str, *, whole: bool = False) -> np.ndarray:
    """The name of each cell's group, as text; an empty one for cells whose group is missing.

    Args:
        cells: AnnData.
        column: Column of obs.
        whole: Whether cells without a group are refused; they are told of in the log otherwise.

    Example:
        >>> import pandas as pd
        >>> from horoball.plugins import required
        >>> cells = required("anndata").AnnData(obs=pd.DataFrame({"type": ["B", None, "T"]}, index=list("abc")))
        >>> groups_of(cells, "type").tolist()
        ['B', '', 'T']
    """
    if column not in cells.obs:
        known = ", ".join(map(repr, list(cells.obs)[:20])) or "none"
        raise ValueError(f"obs has no column {column!r} to group cells by. Its columns are: {known}.")
    values = cells.obs[column]
    names = np.where(values.isna(), "", values.astype(str)).astype(object)
    blank = np.array([not name.strip() for name in names])
    names[blank] = ""
    if blank.all():
        raise ValueError(f"No cell has a group in obs[{column!r}]: its values are missing or empty.")
    if blank.any():
        told = f"{int(blank.sum()):,} of {len(blank):,} cells have no group in obs[{column!r}]"
        if whole:
            raise ValueError(f"{told}: it is missing or empty. Give them a group, or leave these cells out.")
        _log.info("%s, and are left out.", told)
    return names.astype(str)


def check_group(names: np.ndarray, group: str, column: str) -> None:
    """Refuse a group that no cell is of.

    Example:
        >>> check_group(np.array(["B", "T"]), "NK", "type")
        Traceback (most recent call last):
        ...
        ValueError: There is no group 'NK' in obs['type']. Its groups are: 'B', 'T'.
    """
    if not group or group not in names:
        known = ", ".join(map(repr, [name for name in np.unique(names).tolist() if name][:20]))
        raise ValueError(f"There is no group {group!r} in obs[{column!r}]. Its groups are: {known}.")
