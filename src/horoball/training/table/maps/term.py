"""The term of a map, and the rows with what it compares them with."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from horoball.data.tables.array_table import held_out
from horoball.data.tables.table import Table
from horoball.distributions.von_mises_fisher import direction
from horoball.objectives import DistanceTerm, PlaceTerm
from horoball.training.table.maps.landmarks import searches_all_pairs, surveyed, with_landmarks
from horoball.training.table.maps.layout import layout
from horoball.training.table.maps.sampled import with_sample
from horoball.training.table.run import Run

__all__ = ["with_map_term"]

_log = logging.getLogger("horoball")


def with_map_term(run: Run, table: Table, *, warm: bool) -> tuple[Table, Table | None, DistanceTerm | PlaceTerm | None]:
    """Rows to train on, rows held out, and the term of a map, if there is one.

    Args:
        run: The model, before its training, with its settings.
        table: Rows, in their own units.
        warm: Whether the model was fitted before; a layout then starts at its map.

    Example:
        >>> from horoball.data import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.table.train import train
        >>> table = ArrayTable(torch.randn(100, 5))
        >>> run = train(table, {"hidden": (16,)}, TrainConfig(max_epochs=1, distance_weight=50.0, locality=0.5))
        >>> rows, held, term = with_map_term(run, table, warm=True)
        >>> rows.rows, held.rows, term
        (90, 10, PlaceTerm())
    """
    config, model, seen = run.record.training, run.record.model, run.scaled(table)
    if config.distance_weight == 0:
        return *seen.split(config.validation, config.seed), None
    _log.info("Distance weight: %g; geodesics of the 20-neighbor graph are computed first.", config.distance_weight)
    laid_out = config.locality > 0 and table.covariates is None  # how batches lie to each other is the model's to find

    def places(x: Tensor, graph: csr_matrix, lengths: Tensor, landmarks: np.ndarray) -> Tensor:
        with torch.no_grad():
            start = run.model.posterior(x).loc if warm else None
        shape: dict[str, Any] = {"locality": config.locality, "start": start, "seed": config.seed}
        return layout(run.model.ball, model.d, graph, lengths, landmarks, **shape)

    if searches_all_pairs(table, library=model.library) or table.covariates is not None:
        # Landmarks are trained on, so none is drawn from the rows that are held out.
        candidates = np.setdiff1d(np.arange(table.rows), held_out(table.rows, config.validation, config.seed))
        view = run.map_view if table.mixed else direction if model.unit_input else None
        options: dict[str, Any] = {"log": model.log_input, "library": model.library, "view": view}
        term: DistanceTerm | PlaceTerm
        if laid_out:
            found = surveyed(seen, candidates=candidates, **options)
            x = torch.cat(list(found.table.blocks()))
            term, seen = PlaceTerm(), found.table.beside(places(x, found.graph, found.lengths, found.landmarks))
        else:
            seen, term = with_landmarks(seen, candidates=candidates, **options)
        return *seen.split(config.validation, config.seed), term

    def points(x: Tensor) -> Tensor:
        if table.mixed:
            return run.map_view(x)
        return direction(x) if model.unit_input else x.log1p() if model.log_input else x

    parts = seen.split(config.validation, config.seed)
    return with_sample(*parts, points, seed=config.seed, places=places if laid_out else None)
