"""Main axes of counts: where distances between cells are measured, since single genes are mostly noise."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from horoball.data.tables.array_table import ArrayTable

__all__ = ["AXES", "count_axes"]

AXES = 50  # as is common for cells


def count_axes(table: ArrayTable, axes: int = AXES) -> np.ndarray:
    """Coordinates along the main axes of log(1 + x·features/Σx), shape (rows, axes); sparse rows stay sparse.

    A table with no more rows or features than axes is not turned, and has as many columns as features.

    Args:
        table: Rows of counts.
        axes: Number of main axes; a table with fewer features keeps them all.

    Example:
        >>> count_axes(ArrayTable(np.random.default_rng(0).poisson(1.0, (100, 80)))).shape
        (100, 50)
    """
    held = table.matrix()
    # Dense counts become sparse as well: both then give the same numbers to the last digit.
    counts = held.astype(np.float64) if hasattr(held, "tocsr") else csr_matrix(held.numpy().astype(np.float64))
    total = np.maximum(np.asarray(counts.sum(1)).ravel(), 1.0)
    counts.data = np.log1p(counts.data * np.repeat(table.features / total, np.diff(counts.indptr)))
    if min(counts.shape) <= axes + 1:
        return counts.toarray()
    from sklearn.decomposition import PCA  # as large as torch: only who asks for axes pays

    return PCA(axes, svd_solver="arpack", random_state=0).fit_transform(counts)
