"""The fit of a model to a table, from its rows as they are to a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from horoball.data.tables.standardizer import Standardized
from horoball.data.tables.table import Table
from horoball.models.table.decoder import Decoder
from horoball.models.table.vae import VAE, ModelConfig
from horoball.numerics.random import generator_for
from horoball.objectives import PlaceTerm
from horoball.runtime.memory import memory_asked
from horoball.storage.lock import only_run
from horoball.training.config import TrainConfig
from horoball.training.progress import Progress
from horoball.training.state import LAST, State, check_output_dir, check_resumable
from horoball.training.table.category_start import start_at_category_means
from horoball.training.table.fit import fit
from horoball.training.table.maps.head_start import head_start
from horoball.training.table.maps.term import with_map_term
from horoball.training.table.mixed_start import mixed_start
from horoball.training.table.record import TableRecord
from horoball.training.table.residuals import RESIDUAL_ROWS, residual_covariance
from horoball.training.table.run import Run
from horoball.training.table.start import uniform_start

__all__ = ["train"]


def train(
    table: Table,
    model: dict[str, Any],
    config: TrainConfig,
    folder: Path | None = None,
    *,
    label: str | None = None,
    ids: str | None = None,
    key: str | None = None,
    resume: bool = False,
    warm: Run | None = None,
    progress: Progress | None = None,
) -> Run:
    """Fit a model to a table: look at the numbers, scale them, hold some rows out, train.

    Args:
        table: Rows.
        model: Fields of `ModelConfig` other than features; likelihood may be "auto". See `table_fit`.
        config: Training settings.
        folder: Folder for checkpoints and the fitted model; None writes nothing.
        label: Name of the label column, for the record.
        ids: Name of the column with the rows' names, for the record.
        key: Key of the embedding in AnnData, for the record.
        resume: Resume the run in the folder.
        warm: A fitted model of the same columns to start from, with its scaling, whatever else is given.
        progress: Progress reporter.

    Example:
        >>> from horoball.data import ArrayTable
        >>> table = ArrayTable(torch.randn(200, 5))
        >>> run = train(table, {"d": 2, "hidden": (16,)}, TrainConfig(max_epochs=2))
        >>> next(run.embed(table)).shape
        torch.Size([200, 2])
    """
    with only_run(folder), memory_asked():
        check_output_dir(folder, resume=resume)
        names = {"label": label, "ids": ids, "key": key}
        return _train(table, model, config, folder, names, resume=resume, warm=warm, progress=progress)


def _train(
    table: Table,
    model: dict[str, Any],
    config: TrainConfig,
    folder: Path | None,
    names: dict[str, Any],
    *,
    resume: bool,
    warm: Run | None,
    progress: Progress | None,
) -> Run:
    """The same with the folder locked."""
    if warm is not None:
        start = warm.as_start()
    else:
        start = mixed_start(table, model) if table.mixed else uniform_start(table, model)
    scaler, model_config = start.scaler, ModelConfig(features=table.features, **start.fields)
    vae = VAE.from_config(model_config, generator=generator_for(config.seed)).float()  # as rows are
    output = start.apply(vae.likelihood)
    if isinstance(vae.decoder, Decoder):
        vae.decoder.start_at(output)
    if vae.covariates and warm is None:
        start_at_category_means(vae, table if scaler is None else Standardized(table, scaler))
    if warm is not None:
        vae.load_state_dict(warm.model.state_dict())
    record = TableRecord(
        model=model_config,
        training=config,
        columns=table.columns,
        rows=table.rows,
        data=table.fingerprint(),
        whole=start.whole,
        covariates={} if table.covariates is None else table.covariates.categories,
        reading=dict(table.reading),
        schema=warm.record.schema if warm is not None else [] if table.schema is None else table.schema.as_json(),
        **names,
    )
    run = Run(vae, record, scaler)
    if resume:
        check_resumable(folder, record)
    rows, held, term = with_map_term(run, table, warm=warm is not None)
    if (
        isinstance(term, PlaceTerm)
        and warm is None
        and not (resume and folder is not None and (folder / LAST).exists())
    ):
        head_start(vae, rows, config)
    options: dict[str, Any] = {"validation": held, "resume": resume, "progress": progress, "term": term}
    scaling = {} if scaler is None else scaler.tensors()
    state: State = fit(vae, rows, config, folder, extra=scaling, record=record, **options)
    run.history, run.digest = state.history, state.run
    vae.eval()
    if table.mixed and not vae.covariates:
        fewer = warm is not None and warm.residuals is not None and table.rows < warm.record.rows
        run.residuals = warm.residuals if warm is not None and fewer else _residuals(run, table, config.seed)
    if folder is not None and int(os.environ.get("RANK", "0")) == 0:
        run.save(folder)
    return run


def _residuals(run: Run, table: Table, seed: int) -> Tensor | None:
    """How residuals go together, from rows that are spread over the table."""
    step = -(-table.rows // RESIDUAL_ROWS)
    rows = torch.cat([block[::step] for block in run.scaled(table).blocks()])
    return residual_covariance(run.model, rows.to(run.device), seed)
