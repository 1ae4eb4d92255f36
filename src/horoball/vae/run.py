"""A fitted model with all it needs to be used: its scaling and the record of its fit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor

from horoball.devices import resolved
from horoball.distributions.base import drawn_from
from horoball.distributions.normal import BallNormal
from horoball.geometry.coordinates import rim_report
from horoball.geometry.random import generator_for
from horoball.storage.checkpoint import (
    load_checkpoint,
    model_tensors,
    reject_incomplete,
    save_checkpoint,
    stored_model,
    tensors_digest,
)
from horoball.storage.stores import located
from horoball.tables.read import read
from horoball.tables.scaling import Standardized, Standardizer, stored_scaler
from horoball.tables.table import Table
from horoball.training.bounds import elbo, log_likelihood
from horoball.training.state import FINAL, LAST, stored_history
from horoball.vae.encoder import ColumnView, Conditioning, Encoder, one_hot
from horoball.vae.model import VAE, ModelFields
from horoball.vae.options import TableRecord, check_storable
from horoball.vae.residuals import RESIDUALS, far_report, filled_points, stored_residuals
from horoball.vae.start import Start

_GIVEN = "rows.given"  # what rows of the fit are conditioned on, in a file
_TOLD = 64  # rows of `evaluate` between two calls of `told`


class Evaluation(NamedTuple):
    """How well a model describes the rows of a table: means over the rows, in nats."""

    elbo: float
    kl: float
    log_likelihood: float
    rows: int


@dataclass
class Run:
    """A fitted model with its scaling and the record of its fit; what `horoball fit` writes to a folder.

    Example:
        >>> import tempfile
        >>> from horoball.tables import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.vae.train import train
        >>> table = ArrayTable(torch.randn(200, 5))
        >>> run = train(table, {"hidden": (16,)}, TrainConfig(max_epochs=1))
        >>> folder = Path(tempfile.mkdtemp())
        >>> run.save(folder)
        >>> torch.equal(next(Run.load(folder).embed(table)), next(run.embed(table)))
        True
    """

    model: VAE
    record: TableRecord
    scaler: Standardizer | None = None
    residuals: Tensor | None = None  # covariance that columns have beyond the model; see `residual_covariance`
    given: Tensor | None = None  # of some rows of the fit, their sum and the codes of their covariates, if these matter
    history: list[dict[str, float]] = field(default_factory=list)
    digest: str = ""  # identifies the run that a folder's files belong to; see `run_digest`

    @property
    def columns(self) -> list[str]:
        """Names of the features, in the model's order."""
        return self.record.columns

    @property
    def kept(self) -> dict[str, float]:
        """Metrics of the epoch whose weights these are: that of the best validation loss, if any, or the last."""
        return min(self.history, key=lambda line: line.get("validation", -line["epoch"]), default={})

    @property
    def identity(self) -> str:
        """A digest of the weights and the scaling: files that belong to this model name it."""
        return tensors_digest(dict(self.model.state_dict()) | ({} if self.scaler is None else self.scaler.tensors()))

    @property
    def label(self) -> str | None:
        """Name of the label column."""
        return self.record.label

    @property
    def device(self) -> torch.device:
        """Where the model is, and rows are brought to."""
        return next(self.model.parameters()).device

    def to(self, device: str) -> Self:
        """Move the model to a device, by a name for `devices.resolved`; returns the run."""
        self.model.to(resolved(device))
        return self

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
        table = table.coded(self.record.covariates)
        return table if self.scaler is None else Standardized(table, self.scaler)

    def read(self, source: Any, ids: str | None = None, *, na: Sequence[str] = ()) -> Table:
        """A table for this model: its columns, or genes of cells, are found by their names; the label may miss.

        Words that stand for a missing value are those of the fit and those of `na`.
        """
        return read(source, ids=ids, na=na, like=self.record.as_read)

    def blocks(self, table: Table, rows: int = 8192, first: int = 0) -> Iterator[Tensor]:
        """Rows of a table as the model sees them, some at a time; refuses those that its likelihood cannot hold.

        In messages, the first row of the table has the number `first`. Warns of rows far outside of those of the fit.
        """
        model = self.record.model
        limit = 0.0 if self.scaler is None else model.input_limit
        with far_report(self.columns, model.columns, limit, first) as note:
            for block in self.scaled(table).blocks(rows):
                note(block)
                block = block.to(self.device)
                self.model.likelihood.check_rows(block[:, : table.features], first, whole=self.record.whole)
                first += len(block)
                yield block

    def seen(self, table: Table, first: int = 0) -> Tensor:
        """Features of a table as the encoder's network sees them: scaled, or counts as log(1 + x).

        In messages, the first row of the table has the number `first`.
        """
        x = torch.cat([block.cpu() for block in self.blocks(table, first=first)])[:, : table.features]
        return self.record.kind.seen(self, x)

    def distance_view(self, x: Tensor) -> Tensor:
        """Rows of a mixed model, as it sees them, as points whose distances mean something: gaps are filled.

        On the CPU, in float64 where gaps are filled.
        """
        view = cast(ColumnView, cast(Encoder, self.model.encoder).view)
        return filled_points(copy.deepcopy(view).cpu(), x)

    @torch.no_grad()
    def embed(self, table: Table) -> Iterator[Tensor]:
        """Posterior means in ball coordinates, float64, block by block."""
        for block in self.coordinates(table):
            yield block[:, :-2]

    @torch.no_grad()
    def posteriors(self, table: Table, first: int = 0) -> Iterator[BallNormal]:
        """q(z | x) of all rows, block by block; in messages, the first of them has the number `first`."""
        for block in self.blocks(table, first=first):
            q = self.model.posterior(block)
            broken = ~torch.isfinite(q.loc).all(-1)
            if bool(broken.any()):
                raise FloatingPointError(
                    f"The model gives no finite coordinates for row {first + int(broken.nonzero()[0])}. Its values may "
                    "be far beyond those of the fit, or the weights may be damaged."
                )
            first += len(block)
            yield q

    @torch.no_grad()
    def coordinates(self, table: Table, first: int = 0) -> Iterator[Tensor]:
        """Of every row its ball coordinates, its distance from the origin and its posterior's scale, block by block.

        Float64, shape (rows, d + 2). Warns of rows that lie farther out than coordinates can hold; the first of all
        rows has the number `first`.
        """
        with rim_report(self.model.ball, first=first) as note:
            for q in self.posteriors(table, first):
                z, radius, scale = q.coordinates()
                note(radius)
                yield torch.cat((z, radius.unsqueeze(-1), scale.unsqueeze(-1)), -1)

    def unscaled(self, x: Tensor) -> Tensor:
        """Rows of the model in their own units."""
        return x.cpu() if self.scaler is None else self.scaler.inverse(x.cpu())

    @torch.no_grad()
    def evaluate(
        self, table: Table, samples: int = 500, told: Callable[[int, int], None] = lambda done, of: None
    ) -> Evaluation:
        """Evidence lower bound and log-likelihood of a table.

        Args:
            table: Rows, in their own units.
            samples: Importance samples per row. More samples give a tighter lower bound of the log-likelihood and take
                proportionally longer; 100 to 5000 are useful.
            told: Called with the number of rows that are done, and of all.

        Example:
            >>> from horoball.tables import ArrayTable
            >>> from horoball.training import TrainConfig
            >>> from horoball.vae.train import train
            >>> table = ArrayTable(torch.randn(200, 5))
            >>> train(table, {"hidden": (16,)}, TrainConfig(max_epochs=1)).evaluate(table, samples=10).rows
            200
        """
        generator = generator_for(0)
        sums, done = torch.zeros(4, dtype=torch.float64), 0
        for block in self.blocks(table, 1024):
            bound = elbo(self.model, block, kl="sample", generator=generator)
            likelihoods = []
            for part in block.split(_TOLD):
                likelihoods.append(log_likelihood(self.model, part, samples, generator=generator))
                done += len(part)
                told(done, table.rows)
            terms = (bound.value, bound.kl, torch.cat(likelihoods), torch.ones(len(block)))
            sums += torch.stack([term.cpu().double().sum() for term in terms])
        mean_elbo, mean_kl, mean_likelihood = (sums[:3] / sums[3]).tolist()
        return Evaluation(mean_elbo, mean_kl, mean_likelihood, int(sums[3]))

    @torch.no_grad()
    def sample(self, n: int, seed: int = 0) -> Tensor:
        """Rows drawn from the model, in their own units: points from the prior, decoded.

        What a model is conditioned on, batches and the sums of counts, is that of rows of the fit, drawn at random.
        """
        generator = generator_for(seed)
        z = drawn_from(self.model.prior(), (n,), generator)
        distribution = self.model.decode(z, self._drawn_conditioning(n, generator))
        return self.unscaled(drawn_from(distribution, (), generator).float())

    def _drawn_conditioning(self, n: int, generator: torch.Generator) -> Conditioning | None:
        if not (self.model.covariates or self.model.likelihood.library):
            return None
        if self.given is None:
            raise ValueError(
                "This model is conditioned on batches or row sums, and its run, of an earlier version, does not tell "
                "those of its rows. Fit it again; or, in Python, give them to VAE.decode(z, conditioning)."
            )
        rows = self.given[torch.randint(len(self.given), (n,), generator=generator)].to(self.device)
        codes = one_hot(rows[:, 1:], self.model.covariates) if self.model.covariates else None
        return Conditioning(codes, rows[:, 0] if self.model.likelihood.library else None)

    def sample_rows(self, n: int, seed: int = 0) -> Any:
        """The same as an Arrow table; see `rows_of`."""
        return self.rows_of(self.sample(n, seed))

    def rows_of(self, x: Tensor) -> Any:
        """Rows in their own units as an Arrow table; of a mixed model, values are of their columns' types."""
        return self.record.kind.arrow(self, x[:, : len(self.columns)])

    def as_start(self) -> Start:
        """The start of another fit to rows with the same columns."""
        fields = {name: value for name, value in self.record.model.as_dict().items() if name != "features"}
        return Start(
            cast(ModelFields, fields),
            self.scaler,
            self.record.whole,
            lambda likelihood: torch.zeros(likelihood.outputs),
        )

    def save(self, folder: Path) -> None:
        """Write the model to a folder."""
        check_storable(self.record.model)
        folder = located(folder)
        folder.mkdir(parents=True, exist_ok=True)
        scaling = {} if self.scaler is None else self.scaler.tensors()
        scaling |= {} if self.residuals is None else {RESIDUALS: self.residuals}
        scaling |= {} if self.given is None else {_GIVEN: self.given}
        state = {"record": self.record.as_json(), "history": self.history, "run": self.digest}
        save_checkpoint(folder / FINAL, model_tensors(self.model) | scaling, state)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a model back from a folder; of a run that has not ended, its last checkpoint."""
        folder = located(folder)
        path = folder / FINAL if (folder / FINAL).exists() else folder / LAST
        if not path.exists():
            raise FileNotFoundError(
                f"{folder} holds no model: neither {FINAL} nor {LAST} is there. Give the folder that a fit wrote."
            )
        tensors, header = load_checkpoint(path)
        record = TableRecord.from_json(path, header)
        with reject_incomplete(path, "does not hold a whole model"):
            model = stored_model(
                lambda: VAE.from_config(record.model, generator=generator_for(0)),
                tensors,
                layers=len(record.model.hidden),
            )
            if any(weight.dtype != torch.float32 for weight in model.parameters()):
                raise ValueError("its weights are float64, expected float32, as rows are.")
            state = header["state"] if path.name == LAST else header
            history, scaler = stored_history(state["history"]), stored_scaler(tensors, len(record.columns))
            residuals = stored_residuals(tensors, model.likelihood)
            given = _stored_given(tensors, record.model.covariates)
            return cls(model.eval(), record, scaler, residuals, given, history, str(state.get("run", "")))


def _stored_given(tensors: dict[str, Tensor], sizes: tuple[int, ...]) -> Tensor | None:
    """What a file tells of the rows of the fit, if it does; refuses sums and codes that no rows have."""
    given = tensors.get(_GIVEN)
    if given is None:
        return None
    if given.dtype != torch.float32 or given.dim() != 2 or not len(given) or given.shape[1] != 1 + len(sizes):
        raise ValueError(f"what it tells of its rows is not a sum and {len(sizes)} codes.")
    codes, limits = given[:, 1:], torch.tensor(sizes, dtype=torch.float32)
    wrong = ((codes < 0) | (codes >= limits) | (codes != codes.round())) & (limits > 1)  # one of size 1 is a number
    if not bool(given.isfinite().all()) or bool(wrong.any()):
        raise ValueError("what it tells of its rows are not finite sums and codes of their categories.")
    return given


def _unnamed(columns: list[str]) -> bool:
    """Whether columns have the names that an array is given."""
    return all(name == f"x{i}" for i, name in enumerate(columns))
