"""The fit of a model to a table, from its rows as they are to a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from horoball.geometry.kernels import wide
from horoball.geometry.random import generator_for
from horoball.process import memory_asked
from horoball.storage.stores import located
from horoball.storage.whole import only_run
from horoball.tables.scaling import Standardized
from horoball.tables.table import Table, spread_rows
from horoball.training.bounds import elbo
from horoball.training.config import FitRecord, TrainConfig
from horoball.training.hooks import Hooks
from horoball.training.loop import run_loop
from horoball.training.progress import Progress
from horoball.training.state import LAST, State, check_output_dir, check_resumable
from horoball.vae.distances import ChordPoints, DistanceTerm, PlaceTerm, chord_distance
from horoball.vae.kinds import kind_named
from horoball.vae.map_term import head_start, with_map_term
from horoball.vae.model import VAE, Decoder, ModelConfig, ModelFields
from horoball.vae.options import TableRecord, check_storable
from horoball.vae.parts import Parts
from horoball.vae.residuals import RESIDUAL_ROWS, residual_covariance
from horoball.vae.run import Run
from horoball.vae.start import start_at_category_means


class TableObjective(nn.Module):
    """Minus the bound and its parts, all summed over rows; a map adds a term, times `distance_weight`."""

    def __init__(self, model: VAE, config: TrainConfig, term: DistanceTerm | PlaceTerm | None = None) -> None:
        super().__init__()
        self.model, self.config, self.term = model, config, term
        # A tensor, for compiled code would be compiled anew for every number.
        self.register_buffer("kl_share", torch.ones(()) if config.kl_warmup > 0 else None, persistent=False)

    kl_share: Tensor | None

    def weigh_kl(self, share: float) -> None:
        """Have so much of beta count in the steps to come."""
        if self.kl_share is not None:
            self.kl_share.fill_(share)

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the numbers that `forward` returns."""
        map_terms = () if self.term is None else ("place" if isinstance(self.term, PlaceTerm) else "distance",)
        return ("loss", "reconstruction", "kl", *map_terms)

    @property
    def paces(self) -> list[dict[str, Any]]:
        """The encoder, the likelihood's own parameters, which may have far to go, and all others."""
        rates = {"encoder": self.config.encoder_rate, "likelihood": self.config.scale_rate}
        groups: list[dict[str, Any]]
        groups = [
            {"params": list(getattr(self.model, part).parameters()), "pace": rate}
            for part, rate in rates.items()
            if rate != 1  # a model that is trained in part may lack one
        ]
        apart = {id(p) for group in groups for p in group["params"]}
        groups.insert(0, {"params": [p for p in self.parameters() if id(p) not in apart], "pace": 1.0})
        return [group for group in groups if group["params"]]

    def forward(
        self,
        x: Tensor,
        side: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss and its terms.

        Args:
            x: Rows, shape (rows, features).
            side: What the term of a map compares them with: their distances to the landmarks, shape (rows, landmarks),
                or their places in a layout, shape (rows, d).
            generator: Where the noise comes from; torch's global generator if not given.
        """
        if not len(x):  # a rank without rows at this step still takes part in it, with a weight of 0
            side = None if side is None else side.new_zeros(1, side.shape[1])
            return 0 * self(x.new_zeros(1, x.shape[1]), side, generator)
        q = self.model.posterior(x)
        config = self.config
        beta: float | Tensor = config.beta
        if self.kl_share is not None and torch.is_grad_enabled():
            beta = beta * self.kl_share
        bound = elbo(self.model, x, beta=beta, samples=config.samples, kl=config.kl, posterior=q, generator=generator)
        # The parts are for reading: their gradients would be zeros that are added up.
        sums = [-bound.value.sum(), -bound.log_likelihood.detach().sum(), bound.kl.detach().sum()]
        if self.term is not None:
            if side is None:
                raise ValueError("The term of a map needs numbers beside the rows, and the table has none.")
            if isinstance(self.term, PlaceTerm):
                term = self.term(self.model.ball, q.loc, side).sum()
            else:
                term = self._distances(self.term, q.loc, side, generator).sum()
            sums[0] = sums[0] + config.distance_weight * term
            sums.append(term.detach())
        return torch.stack(sums)

    def _distances(self, term: DistanceTerm, loc: Tensor, side: Tensor, generator: torch.Generator | None) -> Tensor:
        """The distance term of each row."""
        ball = self.model.ball
        rows = ChordPoints(ball, wide(loc))
        if term.landmarks is None:
            index, g = term.among(side, generator)
            others = rows.take(index)
        else:
            landmarks, g = term.drawn(side, generator)
            others = ChordPoints(ball, wide(self.model.posterior(landmarks).loc))
        square = rows.between(others)
        distance: Tensor = term(chord_distance(ball, square).to(loc.dtype), g)
        return distance


def fit(
    model: VAE,
    table: Table,
    config: TrainConfig,
    folder: Path | None = None,
    *,
    validation: Table | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    term: DistanceTerm | PlaceTerm | None = None,
    extra: dict[str, Tensor] | None = None,
    record: FitRecord | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008
) -> State:
    """Train a model on a table; it ends with the weights of the best validation loss, if rows were held out.

    Args:
        model: The model, trained in place.
        table: Rows to train on.
        config: Settings.
        folder: Folder for checkpoints and metrics; None writes nothing.
        validation: Rows to watch for early stopping.
        resume: Resume from the folder's last checkpoint, if there is one.
        progress: Progress reporter.
        term: The term of a map; the tables then hold what it compares rows with.
        extra: Tensors to store in the checkpoints with the weights.
        record: Record of the fit, stored in the checkpoints and checked on resume.
        hooks: Callbacks, loggers, and what makes the optimizer and the schedule where their names do not.

    Example:
        >>> import torch
        >>> from horoball.tables import ArrayTable
        >>> from horoball.vae import ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=3, hidden=(8,)))
        >>> state = fit(model, ArrayTable(torch.randn(64, 3)), TrainConfig(max_epochs=2))
        >>> len(state.history)
        2
    """
    objective = TableObjective(model, config, term)
    return run_loop(
        objective,
        table,
        config,
        folder,
        validation=validation,
        resume=resume,
        progress=progress,
        extra=extra,
        record=record,
        hooks=hooks,
    )


def train(
    table: Table,
    model: ModelFields,
    config: TrainConfig,
    folder: Path | None = None,
    *,
    parts: Parts = Parts(),  # noqa: B008
    hooks: Hooks = Hooks(),  # noqa: B008
    label: str | None = None,
    ids: str | None = None,
    key: str | None = None,
    tried: Sequence[Any] = (),
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
        parts: What makes parts of the model that have no name; see `horoball.vae.parts`.
        hooks: Callbacks, loggers, and what makes the optimizer and the schedule; see `horoball.training.hooks`.
        label: Name of the label column, for the record.
        ids: Name of the column with the rows' names, for the record.
        key: Key of the embedding in AnnData, for the record.
        tried: Spaces that the model's was chosen among, see `horoball.vae.spaces`, for the record.
        resume: Resume the run in the folder.
        warm: A fitted model of the same columns to start from, with its scaling, whatever else is given.
        progress: Progress reporter.

    Example:
        >>> from horoball.tables import ArrayTable
        >>> table = ArrayTable(torch.randn(200, 5))
        >>> run = train(table, {"d": 2, "hidden": (16,)}, TrainConfig(max_epochs=2))
        >>> next(run.embed(table)).shape
        torch.Size([200, 2])
    """
    folder = None if folder is None else located(folder)
    with only_run(folder), memory_asked():
        check_output_dir(folder, resume=resume)
        names = {"label": label, "ids": ids, "key": key, "tried": [each._asdict() for each in tried]}
        return _train(table, model, config, folder, names, parts, hooks, resume=resume, warm=warm, progress=progress)


def _train(
    table: Table,
    model: ModelFields,
    config: TrainConfig,
    folder: Path | None,
    names: dict[str, Any],
    parts: Parts,
    hooks: Hooks,
    *,
    resume: bool,
    warm: Run | None,
    progress: Progress | None,
) -> Run:
    """The same with the folder locked."""
    if warm is not None:
        start = warm.as_start()
    else:
        start = kind_named(table.kind).start(table, model)
    scaler, model_config = start.scaler, ModelConfig(features=table.features, **start.fields)
    if folder is not None:
        check_storable(model_config)
    vae = VAE.from_config(model_config, parts=parts, generator=generator_for(config.seed)).float()  # as rows are
    output = start.apply(vae.likelihood)
    if isinstance(vae.decoder, Decoder):
        vae.decoder.start_at(output)
    if warm is None and hasattr(vae.prior, "start_from_rows"):
        vae.prior.start_from_rows(_some_rows(table if scaler is None else Standardized(table, scaler), config.seed))
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
    options: dict[str, Any] = {"validation": held, "resume": resume, "progress": progress, "term": term, "hooks": hooks}
    scaling = {} if scaler is None else scaler.tensors()
    state: State = fit(vae, rows, config, folder, extra=scaling, record=record, **options)
    run.history, run.digest = state.history, state.run
    vae.eval()
    if table.kind == "mixed" and not vae.covariates:
        fewer = warm is not None and warm.residuals is not None and table.rows < warm.record.rows
        run.residuals = warm.residuals if warm is not None and fewer else _residuals(run, table, config.seed)
    if vae.covariates or vae.likelihood.library:
        run.given = _given(run, table)
    if folder is not None and int(os.environ.get("RANK", "0")) == 0:
        run.save(folder)
    return run


_START_ROWS = 4096  # that a prior may start from


def _some_rows(table: Table, seed: int) -> Tensor:
    """Rows of a table as the model sees them, in an order drawn at random."""
    rows = spread_rows(table, _START_ROWS)
    return rows[torch.randperm(len(rows), generator=generator_for(seed))]


_GIVEN_ROWS = 1024  # whose sums and covariates are kept, for `Run.sample`


def _given(run: Run, table: Table) -> Tensor:
    """Sums and covariates of rows that are spread over the table."""
    rows = spread_rows(run.scaled(table), _GIVEN_ROWS)
    return torch.cat((rows[:, : table.features].sum(1, keepdim=True), rows[:, table.features :]), 1)


def _residuals(run: Run, table: Table, seed: int) -> Tensor | None:
    """How residuals go together, from rows that are spread over the table."""
    rows = spread_rows(run.scaled(table), RESIDUAL_ROWS)
    return residual_covariance(run.model, rows.to(run.device), seed)
