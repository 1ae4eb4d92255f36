"""Where an embedding is in AnnData: obsm["X_poincare"] and its ball in uns["poincare"]."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.manifolds import PoincareBall
from horoball.manifolds.rim import in_ball, rim_report

__all__ = ["ball_of", "coordinates", "write"]


def write(cells: Any, z: Tensor, scale: Tensor, ball: PoincareBall, key: str = "poincare") -> None:
    """Write points and their posterior scales to AnnData.

    Args:
        cells: AnnData.
        z: Points in the tangent chart, shape (cells, d).
        scale: Posterior scales, shape (cells,).
        ball: The ball.
        key: Names the places: obsm["X_poincare"] for ball coordinates, obsm["X_poincare_std"], uns["poincare"].

    Example:
        >>> from horoball.runtime.extras import require_anndata
        >>> cells = require_anndata().AnnData(shape=(3, 1))
        >>> write(cells, torch.zeros(3, 2), torch.ones(3), PoincareBall(0.5))
        >>> coordinates(cells).shape, ball_of(cells)
        (torch.Size([3, 2]), PoincareBall(c=0.5))
    """
    with rim_report(ball, "cell") as note:
        note(torch.linalg.vector_norm(z, dim=-1))
    cells.obsm[f"X_{key}"] = in_ball(z, ball).numpy()
    cells.obsm[f"X_{key}_std"] = scale.double().unsqueeze(-1).numpy()
    cells.uns[key] = {"params": {"c": ball.c_value}}


def ball_of(cells: Any, key: str = "poincare") -> PoincareBall:
    """The ball of an embedding.

    Example:
        >>> from horoball.runtime.extras import require_anndata
        >>> ball_of(require_anndata().AnnData(shape=(3, 1)))
        Traceback (most recent call last):
        ...
        ValueError: There is no embedding in obsm['X_poincare']. Fit a model first: horoball.cells.fit(adata).
    """
    if f"X_{key}" not in cells.obsm or key not in cells.uns:
        raise ValueError(f"There is no embedding in obsm['X_{key}']. Fit a model first: horoball.cells.fit(adata).")
    return PoincareBall(float(cells.uns[key]["params"]["c"]))


def coordinates(cells: Any, key: str = "poincare") -> Tensor:
    """The points of an embedding in the tangent chart, float64.

    Example:
        >>> from horoball.runtime.extras import require_anndata
        >>> cells = require_anndata().AnnData(shape=(3, 1))
        >>> write(cells, torch.ones(3, 2), torch.ones(3), PoincareBall(1.0))
        >>> coordinates(cells)[0]
        tensor([1., 1.], dtype=torch.float64)
    """
    ball = ball_of(cells, key)
    return ball.from_ball(torch.from_numpy(np.array(cells.obsm[f"X_{key}"], np.float64)))
