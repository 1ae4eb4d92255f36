"""A trained model with all it needs to be used: its scaling, its columns, and where it came from."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from horoball.data.array_table import held_out
from horoball.data.cells import cell_table, is_cells
from horoball.data.read import read
from horoball.data.standardize import Standardized, Standardizer, Summary, common_spread, summarize
from horoball.data.table import Table
from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.likelihoods import Normal
from horoball.models.decoder import Decoder
from horoball.models.encoder import network_input
from horoball.models.posterior import place
from horoball.models.vae import VAE, ModelConfig
from horoball.noise import seeded
from horoball.training.about import expect_columns, expect_described, expect_table
from horoball.training.checkpoint import load_checkpoint, save_checkpoint
from horoball.training.config import TrainConfig
from horoball.training.fit import fit
from horoball.training.landmarks import with_landmarks
from horoball.training.likelihood import expect_rows, observed_fields
from horoball.training.lock import only_run
from horoball.training.progress import Progress
from horoball.training.state import FINAL, LAST, State, expect_room, expect_to_go_on
from horoball.training.stored import expect_whole, stored_history, stored_model

__all__ = ["Run", "train"]

_log = logging.getLogger("horoball")


@dataclass
class Run:
    """A model and how its rows are scaled; what `horoball fit` leaves in a folder.

    Example:
        >>> import tempfile
        >>> from horoball.data import ArrayTable
        >>> table = ArrayTable(torch.randn(200, 5))
        >>> run = train(table, {"hidden": (16,)}, TrainConfig(max_epochs=1))
        >>> folder = Path(tempfile.mkdtemp())
        >>> run.save(folder)
        >>> torch.equal(next(Run.load(folder).embed(table)), next(run.embed(table)))
        True
    """

    model: VAE
    columns: list[str]
    scaler: Standardizer | None = None
    label: str | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    def scaled(self, table: Table) -> Table:
        """A table as the model sees it; refuses one with other columns."""
        if table.columns != self.columns and table.features != len(self.columns):
            raise ValueError(
                f"The model was fitted to {len(self.columns)} columns, the table has {table.features}. Give it those "
                f"of the fit, and a label apart: {', '.join(self.columns[:5])}{' …' if len(self.columns) > 5 else ''}."
            )
        if not _unnamed(table.columns) and table.columns != self.columns:
            mine, other = next(pair for pair in zip(self.columns, table.columns, strict=True) if pair[0] != pair[1])
            raise ValueError(
                f"The table has the column {other!r} where the model was fitted to {mine!r}. Give the fit's columns, "
                "in their order."
            )
        table = table.coded(self.about.get("covariates", {}))
        return table if self.scaler is None else Standardized(table, self.scaler)

    def read(self, source: Any, ids: str | None = None) -> Table:
        """A table for this model: its columns, or genes of cells, are found by their names; the label may miss."""
        if ids is not None or not is_cells(source):
            names: dict[str, Any] = {"ids": ids or self.about.get("ids"), "ids_may_miss": ids is None}
            columns = None if _unnamed(self.columns) else self.columns
            return read(source, self.label, label_may_miss=True, columns=columns, **names)
        options = self.about.get("reading", {})
        return cell_table(source, genes=self.columns, label=self.label, label_may_miss=True, **options)

    def blocks(self, table: Table, rows: int = 8192) -> Iterator[Tensor]:
        """Rows of a table as the model sees them, some at a time; refuses those that its likelihood cannot hold."""
        likelihood, first = self.model.likelihood, 0
        for block in self.scaled(table).blocks(rows):
            classes, whole = getattr(likelihood, "classes", None), bool(self.about.get("whole"))
            expect_rows(likelihood.name, block[:, : table.features], first, classes, whole=whole)
            first += len(block)
            yield block

    def seen(self, table: Table) -> Tensor:
        """Features of a table as the encoder's network sees them: scaled, or counts as log(1 + x)."""
        x = torch.cat(list(self.blocks(table)))[:, : table.features]
        model = self.about["model"]
        return network_input(x, log=model["log_input"], library=model.get("library", False))

    @torch.no_grad()
    def embed(self, table: Table) -> Iterator[Tensor]:
        """Posterior means in ball coordinates, float64, block by block."""
        for q in self.posteriors(table):
            yield self.model.ball.to_ball(q.mean.double())

    @torch.no_grad()
    def posteriors(self, table: Table) -> Iterator[RiemannianNormal | WrappedNormal]:
        """q(z | x) of all rows, block by block."""
        for block in self.blocks(table):
            yield self.model.posterior(block)

    @torch.no_grad()
    def places(self, table: Table) -> Iterator[Tensor]:
        """Of every row its ball coordinates, its distance from the origin and its posterior's scale, block by block.

        Float64, shape (rows, d + 2).
        """
        for q in self.posteriors(table):
            z, radius, scale = place(q)
            yield torch.cat((z, radius.unsqueeze(-1), scale.unsqueeze(-1)), -1)

    def unscaled(self, x: Tensor) -> Tensor:
        """Rows of the model in their own units."""
        return x if self.scaler is None else self.scaler.inverse(x)

    def save(self, folder: Path) -> None:
        """Write the model to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        save_checkpoint(folder / FINAL, weights | _scaling(self.scaler), {"about": self.about, "history": self.history})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a model back from a folder; of a run that has not ended, its last checkpoint."""
        path = folder / FINAL if (folder / FINAL).exists() else folder / LAST
        if not path.exists():
            raise FileNotFoundError(
                f"{folder} holds no model: neither {FINAL} nor {LAST} is there. Give the folder that a fit wrote."
            )
        tensors, header = load_checkpoint(path)
        about = expect_described(path, header)
        expect_table(folder, about)
        with expect_whole(path, "does not hold a whole model"):
            model = stored_model(lambda: VAE.from_config(ModelConfig.from_dict(about["model"])), tensors)
            columns = expect_columns(about, about["model"]["features"])
            scaler = Standardizer(tensors["scaler.mean"], tensors["scaler.std"]) if "scaler.mean" in tensors else None
            if scaler is not None and {scaler.mean.shape, scaler.std.shape} != {(len(columns),)}:
                raise ValueError(f"its scaling is not of {len(columns)} columns.")
            if scaler is not None and not bool((scaler.std > 0).all()):
                raise ValueError("its scaling divides by 0 or less.")
            return cls(model.eval(), columns, scaler, about.get("label"), stored_history(header), about)


def _unnamed(columns: list[str]) -> bool:
    """Whether columns have the names that an array is given."""
    return all(name == f"x{i}" for i, name in enumerate(columns))


def _scaler(summary: Summary) -> Standardizer:
    """How real numbers are scaled: columns of one unit together, others each by itself."""
    spread = common_spread(summary.std)
    how = "one factor for all columns, whose spreads are alike" if spread is not None else "each column by itself"
    _log.info("Scaling: %s.", how)
    return Standardizer.of(summary) if spread is None else Standardizer(summary.mean, spread.repeat(len(summary.std)))


def _scaling(scaler: Standardizer | None) -> dict[str, Tensor]:
    return {} if scaler is None else {"scaler.mean": scaler.mean, "scaler.std": scaler.std}


def train(
    table: Table,
    model: dict[str, Any],
    config: TrainConfig,
    folder: Path | None = None,
    *,
    label: str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    about: Mapping[str, Any] = MappingProxyType({}),
) -> Run:
    """Fit a model to a table: look at the numbers, scale them, hold some rows out, train.

    Args:
        table: Rows.
        model: Fields of `ModelConfig` other than features; likelihood may be "auto".
        config: Settings of the training.
        folder: Where the run is kept; nothing is written without one.
        label: Name of the label column, for the record.
        resume: Go on with the folder's run.
        progress: Who is told how it goes.
        about: More for the record that is kept with the run.

    Example:
        >>> from horoball.data import ArrayTable
        >>> table = ArrayTable(torch.randn(200, 5))
        >>> run = train(table, {"d": 2, "hidden": (16,)}, TrainConfig(max_epochs=2))
        >>> next(run.embed(table)).shape
        torch.Size([200, 2])
    """
    with only_run(folder):
        expect_room(folder, resume=resume)
        return _train(table, model, config, folder, label=label, resume=resume, progress=progress, about=about)


def _train(
    table: Table,
    model: dict[str, Any],
    config: TrainConfig,
    folder: Path | None,
    *,
    label: str | None,
    resume: bool,
    progress: Progress | None,
    about: Mapping[str, Any],
) -> Run:
    """The same in a folder that no other run is in."""
    summary = summarize(table)
    fields = observed_fields(model, summary)
    if table.covariates is not None:
        fields["covariates"] = table.covariates.sizes
    model_config = ModelConfig(features=table.features, **fields)
    with seeded(config.seed):
        vae = VAE.from_config(model_config).float()  # as rows are, whatever torch's default
    scaler = _scaler(summary) if fields["likelihood"] == "normal" else None
    if scaler is not None and isinstance(vae.likelihood, Normal):
        vae.likelihood.start_from(summary.std / scaler.std)
    run = Run(vae, table.columns, scaler, label)
    mean = torch.zeros(table.features) if scaler is not None else summary.mean
    if isinstance(vae.decoder, Decoder):
        vae.decoder.start_at(vae.likelihood.start_at(mean))
    run.about = {
        "model": model_config.as_dict(),
        "training": config.as_dict(),
        "columns": table.columns,
        "label": label,
        "rows": table.rows,
        "data": table.fingerprint(),
        "whole": summary.whole,
        "version": version("horoball"),
        **about,
    }
    if table.covariates is not None:
        run.about["covariates"] = table.covariates.categories
    if table.reading:
        run.about["reading"] = dict(table.reading)
    if resume:
        expect_to_go_on(folder, run.about)
    seen, distances = run.scaled(table), None
    options: dict[str, Any]
    if config.distance_weight > 0:
        _log.info(
            "Distance weight: %g; geodesics of the 20-neighbour graph are computed first.", config.distance_weight
        )
        options = {"log": model_config.log_input, "library": model_config.library}
        # Landmarks are trained on, so none is drawn from the rows that are held out below.
        candidates = np.setdiff1d(np.arange(table.rows), held_out(table.rows, config.validation, config.seed))
        seen, distances = with_landmarks(seen, candidates=candidates, **options)
    rows, held = seen.split(config.validation, config.seed)
    options = {"validation": held, "resume": resume, "progress": progress, "distances": distances}
    state: State = fit(vae, rows, config, folder, extra=_scaling(scaler), about=run.about, **options)
    run.history = state.history
    vae.eval()
    if folder is not None and int(os.environ.get("RANK", "0")) == 0:
        run.save(folder)
    return run
