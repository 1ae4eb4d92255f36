"""Rows of a mixed table as points between which distances are measured, with their gaps filled."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.training.table.residuals import MOST, RESIDUAL_ROWS, expected_covariance, given_observed

__all__ = ["filled_points"]

_CHUNK = 1024  # rows at a time


def filled_points(view: Any, x: Tensor) -> Tensor:
    """Numbers that an encoder sees of each row, without marks; gaps are filled with what the rest of the row says.

    A missing value is expected to be where a normal distribution of all numbers has it, given those of its row: at the
    mean of its column, two rows that are alike in all that is known would be far apart. With more than 100 numbers it
    is 0, as the encoder sees it.

    Args:
        view: The encoder's `ColumnView`.
        x: Rows as the model sees them.

    Example:
        >>> from horoball.models.table.column_view import ColumnView
        >>> x = torch.linspace(-1, 1, 101).unsqueeze(-1) * torch.ones(2)
        >>> x[0, 1] = torch.nan
        >>> filled_points(ColumnView("normal,normal", 2), x)[0].round(decimals=1)
        tensor([-1., -1.])
    """
    points = view.values(x)
    there = ~x.isnan().index_select(-1, view.owners)
    if points.shape[-1] > MOST or bool(there.all()):
        return points
    mean = points.sum(0) / there.sum(0).clamp_min(1)  # what is missing is 0
    apart = torch.where(there, points - mean, 0.0).double().unsqueeze(0)
    step = -(-len(x) // RESIDUAL_ROWS)
    covariance = expected_covariance(apart[:, ::step], there[::step])
    filled = [
        given_observed(covariance, part, known).expected[0]
        for part, known in zip(apart.split(_CHUNK, 1), there.split(_CHUNK), strict=True)
    ]
    return torch.where(there, points, torch.cat(filled).to(points) + mean)
