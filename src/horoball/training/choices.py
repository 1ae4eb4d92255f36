"""What is chosen for those who do not choose: where curvature and prior start, the weight of distances."""

from __future__ import annotations

import logging
from numbers import Real
from typing import Any

from horoball.data.array_table import ArrayTable
from horoball.data.count_axes import AXES
from horoball.data.table import Table

__all__ = ["curvature_fields", "distance_weight", "map_weight", "prior_fields"]

_FEW = 50  # rows below which a graph of 20 neighbours says nothing
_COSTLY = 1e12  # multiplications of a search for nearest neighbours, some ten seconds
_log = logging.getLogger("horoball")


def curvature_fields(c: float | str) -> dict[str, Any]:
    """Fields of `ModelConfig` for a curvature: a number, or "learn", which starts at 1.

    Example:
        >>> curvature_fields(0.5), curvature_fields("learn")
        ({'c': 0.5, 'learn_c': False}, {'c': 1.0, 'learn_c': True})
    """
    if c != "learn" and not isinstance(c, Real):
        raise ValueError(f'c is a number or "learn", got {c!r}.')
    return {"c": 1.0 if c == "learn" else float(c), "learn_c": c == "learn"}


def prior_fields(scale: float | str) -> dict[str, Any]:
    """Fields of `ModelConfig` for the prior's standard deviation: a number, or "learn", which starts at 1.

    Example:
        >>> prior_fields(1.7), prior_fields("learn")
        ({'prior_scale': 1.7, 'learn_prior': False}, {'prior_scale': 1.0, 'learn_prior': True})
    """
    if scale != "learn" and not isinstance(scale, Real):
        raise ValueError(f'prior_scale is a number or "learn", got {scale!r}.')
    return {"prior_scale": 1.0 if scale == "learn" else float(scale), "learn_prior": scale == "learn"}


def distance_weight(given: float | str, table: Table, d: int, *, library: bool = False) -> float:
    """The weight of the distance term: what is given, or for "auto" what suits; see `map_weight`.

    Example:
        >>> import numpy as np
        >>> distance_weight("auto", ArrayTable(np.zeros((100, 40))), 2), distance_weight(3, ArrayTable(np.eye(2)), 2)
        (200.0, 3.0)
    """
    if given == "auto":
        return map_weight(table, d, library=library)
    if not isinstance(given, Real):
        raise ValueError(f'distance_weight is a number or "auto", got {given!r}.')
    return float(given)


def map_weight(table: Table, d: int, *, library: bool = False) -> float:
    """A distance weight that suits a map: of the likelihood's own size, 5 a feature, for d = 2, 3 in memory.

    0 where no map is drawn, and where finding the nearest neighbours would take longer than training. A count out of a
    library says less than a real number, so there it is a tenth a feature, as was chosen on trees by
    `horoball.cells.simulate`.

    Example:
        >>> import numpy as np
        >>> table = ArrayTable(np.zeros((100, 40)))
        >>> map_weight(table, d=2), map_weight(table, d=10)
        (200.0, 0.0)
    """
    if 2 <= d <= 3 and not isinstance(table, ArrayTable):
        _log.info("Distance weight: 0, as the table is streamed; for tables in memory, such as .csv, it is more.")
    drawn = 2 <= d <= 3 and isinstance(table, ArrayTable) and table.rows >= _FEW
    if not drawn or table.rows**2 * (min(AXES, table.features) if library else table.features) > _COSTLY:
        return 0.0
    return max(50.0, (0.1 if library else 5.0) * table.features)
