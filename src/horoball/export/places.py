"""Where rows belong among groups, as a table."""

from __future__ import annotations

from typing import Any

from horoball.hierarchy.taxonomies import Placed

__all__ = ["places_table"]


def places_table(placed: Placed, threshold: float | None = None, *, names: Any = None, id_column: str = "row") -> Any:
    """An Arrow table with a line per row: its path, the probability of each step, and its place.

    The place is the deepest group that holds the truth with the probability `placed.coverage`; none is the root.

    Args:
        placed: Where the rows belong.
        threshold: Deprecated: probability that the deepest group has at least, in place of the coverage.
        names: Names of the rows; their numbers if not given.
        id_column: What the column of names is called.

    Example:
        >>> import numpy as np
        >>> names, sure = (("fruit",), ("apple", "pear")), np.array([[0.97, 0.6]])
        >>> placed = Placed(np.array([[0, 1]]), np.array([[0.9, 0.4]]), names, sure, coverage=0.9)
        >>> places_table(placed).to_pylist()[0]
        {'row': 0, 'level_1': 'fruit', 'probability_1': 0.9, 'level_2': 'pear', 'probability_2': 0.4, 'place': 'fruit'}
    """
    import pyarrow as pa

    n, levels = placed.path.shape
    columns: dict[str, Any] = {id_column: pa.array(range(n) if names is None else [str(name) for name in names])}
    called = placed.names
    for level in range(levels):
        at = [path[level] if level < len(path) else None for path in called]
        columns[f"level_{level + 1}"] = pa.array(at, pa.string())
        columns[f"probability_{level + 1}"] = pa.array(placed.probability[:, level], mask=placed.path[:, level] < 0)
    columns["place"] = pa.array(placed.deepest(threshold), pa.string())
    return pa.table(columns)
