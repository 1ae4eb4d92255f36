"""Columns of a mixed table, none of which drowns the others in distances between rows."""

from __future__ import annotations

from torch import Tensor

__all__ = ["even_columns"]


def even_columns(points: Tensor, owners: Tensor) -> Tensor:
    """Rows whose columns have variance 1 at most: the sum over a column's numbers, as a category has several.

    Counts as log(1 + x) may have a spread of 5, and distances would be those of the counts. Smaller spreads stay: a
    rare truth tells few rows apart, and should.

    Args:
        points: Rows, shape (rows, numbers).
        owners: The column that each number belongs to, shape (numbers,).

    Example:
        >>> import torch
        >>> even_columns(torch.tensor([[0.0, 0.0, 1.0], [8.0, 1.0, 0.0]]), torch.tensor([0, 1, 1]))
        tensor([[0., 0., 1.],
                [2., 1., 0.]])
    """
    variance = points.var(0, correction=0)
    of_column = variance.new_zeros(int(owners.max()) + 1).index_add(0, owners, variance)
    return points * of_column.clamp_min(1.0).rsqrt().index_select(0, owners)
