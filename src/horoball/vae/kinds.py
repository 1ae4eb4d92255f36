"""What a model makes of each kind of rows: defaults, start, what networks and trees see, what groups are named by.

Verbs ask the kind, and nobody else knows that rows are counts, vectors or columns of several types. How rows of a kind
are read is in `horoball.tables.read`; these two modules are all that a new kind takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from horoball.distributions.sphere import direction
from horoball.tables.encoding import decode
from horoball.tables.read import KINDS
from horoball.tables.schema import Column, Feature, Schema
from horoball.tables.table import Table
from horoball.training.config import TrainConfig
from horoball.vae.encoder import ColumnView, Encoder, network_input
from horoball.vae.model import VAE, ModelConfig, ModelFields
from horoball.vae.residuals import even_columns
from horoball.vae.start import Start, mixed_start, uniform_start

__all__ = ["CELLS", "TABLES", "VECTORS", "Kind", "kind_named", "kind_of"]


class TableDefaults(NamedTuple):
    """What front ends for tables use instead of the defaults of `ModelConfig` and `TrainConfig`."""

    likelihood: str = "auto"
    distance_weight: float | str = "auto"
    locality: float = 0.5
    hidden: int | tuple[int, ...] | str = "auto"
    max_epochs: int | str = "auto"
    batch_size: int | str = "auto"
    learning_rate: float | str = "auto"
    patience: int | str = "auto"


class CellDefaults(NamedTuple):
    """What cells use instead of the defaults of tables: counts were tuned with the distance term alone."""

    likelihood: str = "negative_binomial"
    posterior: str = "wrapped"
    locality: float = TrainConfig.locality
    hidden: tuple[int, ...] = (128,)
    max_epochs: int | str = "auto"
    batch_size: int | str = TrainConfig.batch_size
    learning_rate: float | str = TrainConfig.learning_rate
    patience: int | str = TrainConfig.patience


class VectorDefaults(NamedTuple):
    """What vectors use instead of the defaults of tables."""

    likelihood: str = "von_mises_fisher"


TABLES, CELLS, VECTORS = TableDefaults(), CellDefaults(), VectorDefaults()


# Not those of `calendar`, which speaks the language of the machine.
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_CIRCLE = 31  # points of a circle that have names of their own, at most
_SEVERAL = ("bernoulli", "categorical", "ordinal", "circular")  # likelihoods whose numbers have a scale of their own


class Fitted(Protocol):
    """What a kind asks of a fitted model; see `horoball.vae.run.Run`."""

    model: VAE
    record: Any

    @property
    def columns(self) -> list[str]:
        """Names of the features."""

    def distance_view(self, x: Tensor) -> Tensor:
        """Rows of a mixed model as points whose distances mean something."""


class Kind:
    """Rows of real numbers, in columns that are alike; other kinds say where they differ."""

    name: ClassVar[str] = "numbers"
    defaults: ClassVar[dict[str, Any]] = {}  # beside `TABLES`
    joined: ClassVar[bool] = False  # whether a tree is the consensus of its replicates
    refuses: ClassVar[dict[str, str]] = {}  # verbs that a kind does not have, and why

    @property
    def said(self) -> str:
        """What rows of the kind are, in words."""
        return KINDS[self.name]

    standardize: ClassVar[bool] = True  # whether the columns of `points` are in units of their own

    def points(self, x: Tensor, table: Table) -> np.ndarray:
        """Rows of a table as points of a tree without a model; NaN for gaps."""
        return x.double().numpy()

    def owners(self, table: Table) -> np.ndarray | None:
        """The column that each number of `points` belongs to, from 0 on; None if each is a column of its own."""
        return None

    def point_names(self, table: Table) -> list[str] | None:
        """Names of the numbers that `points` gives, as `names` has those of `seen`."""
        return table.columns

    def marks(self, table: Table) -> tuple[np.ndarray, list[str]] | None:
        """Zeros and ones of the rows that groups are named by, beside `points`, and their names; None for no more."""
        return None

    def start(self, table: Table, fields: ModelFields) -> Start:
        """How a model of such a table starts."""
        return uniform_start(table, fields)

    def seen(self, run: Fitted, x: Tensor) -> Tensor:
        """Features, scaled, as the encoder's network sees them."""
        model = run.record.model
        return network_input(x, log=model.log_input, library=model.library, unit=model.unit_input)

    def filled(self, run: Fitted, x: Tensor) -> Tensor:
        """The same in the units in which a tree weighs columns; gaps are filled."""
        return self.seen(run, x)

    def map_points(self, run: Fitted) -> Callable[[Tensor], Tensor] | None:
        """What turns rows as the model sees them into points that a map is laid out from; None leaves them."""
        return None

    def standardized(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows as `seen` gives them as points of a tree, and what their columns were divided by."""
        spread = x.std(0)
        return (x - x.mean(0)) / np.where(spread > 0, spread, 1.0), spread

    def placed(self, x: np.ndarray) -> np.ndarray:
        """The same as points among which new rows are placed."""
        return x

    def names(self, run: Fitted) -> list[str] | None:
        """Names of the numbers that `seen` gives, by which groups are called; None if they mean nothing."""
        return run.columns

    def arrow(self, run: Fitted, x: Tensor) -> Any:
        """Rows in their own units as an Arrow table."""
        import pyarrow as pa

        return pa.table([pa.array(column) for column in x.T.numpy()], names=run.columns)


class Counts(Kind):
    """Whole numbers that were counted, seen as log(1 + x)."""

    name = "counts"
    defaults: ClassVar[dict[str, Any]] = {"likelihood": "negative_binomial"}  # who says that rows are counts is heard

    def map_points(self, run: Fitted) -> Callable[[Tensor], Tensor] | None:
        return torch.log1p


class Cells(Counts):
    """Counts of genes in cells: shares of the cell's total, which is given, as its batches are."""

    name = "cells"
    defaults: ClassVar[dict[str, Any]] = CELLS._asdict()


class Vectors(Kind):
    """Directions: rows at length 1, compared by their cosine, whose single columns mean nothing."""

    name = "vectors"
    defaults: ClassVar[dict[str, Any]] = VECTORS._asdict()
    joined, standardize = True, False
    refuses: ClassVar[dict[str, str]] = {"impute": "a vector is there or missing as a whole"}

    def points(self, x: Tensor, table: Table) -> np.ndarray:
        return direction(x).double().numpy()

    def point_names(self, table: Table) -> list[str] | None:
        return None

    def map_points(self, run: Fitted) -> Callable[[Tensor], Tensor] | None:
        return direction

    def standardized(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # All columns have one unit: distances are those of the vectors at length 1.
        spread = np.full(x.shape[1], x.shape[1] ** 0.5)
        return x / spread, spread

    def placed(self, x: np.ndarray) -> np.ndarray:
        return x / np.float32(x.shape[1] ** 0.5)

    def names(self, run: Fitted) -> list[str] | None:
        return None


class Mixed(Kind):
    """Columns of several types, with gaps: each has a likelihood of its own, and one or more numbers of a point."""

    name = "mixed"
    standardize = False

    def points(self, x: Tensor, table: Table) -> np.ndarray:
        schema = cast(Schema, table.schema)
        view = ColumnView(schema.likelihoods, table.features)
        shown = view.values(x).double()
        missing = x.isnan().index_select(-1, view.owners)
        mean = shown.sum(0) / (~missing).sum(0).clamp_min(1)
        spread = torch.where(missing, 0.0, shown - mean).square().mean(0).sqrt()
        plain = torch.tensor([not feature.likelihood.startswith(_SEVERAL) for feature in schema.features])
        scaled = torch.where(plain[view.owners] & (spread > 0), (shown - mean) / spread, shown)
        even = even_columns(torch.where(missing, 0.0, scaled), torch.from_numpy(self.owners(table)))
        return torch.where(missing, torch.nan, even).numpy()

    def owners(self, table: Table) -> np.ndarray:
        schema = cast(Schema, table.schema)
        column_of = np.repeat(np.arange(len(schema.used)), [len(column.features) for column in schema.used])
        return column_of[ColumnView(schema.likelihoods, table.features).owners.numpy()]

    def point_names(self, table: Table) -> list[str] | None:
        schema = cast(Schema, table.schema)
        return _number_names(schema, ColumnView(schema.likelihoods, table.features).owners.tolist())

    def marks(self, table: Table) -> tuple[np.ndarray, list[str]] | None:
        """Where values are missing, and the places on circles: a month, a weekday, an hour."""
        from horoball.trees.taxonomy import MISSING  # which only those who name groups import

        schema = cast(Schema, table.schema)
        x = torch.cat([block[:, : table.features] for block in table.blocks()]).numpy()
        made: dict[str, np.ndarray] = {}
        place = 0
        for column in schema.used:
            if np.isnan(x[:, place]).any():
                made[f"{column.name} = {MISSING}"] = np.isnan(x[:, place])
            for feature in column.features:
                if feature.likelihood.startswith("circular"):
                    for point, said in enumerate(_points_of_circle(column, feature)):
                        made[f"{feature.name} = {said}"] = x[:, place] == point  # never true of a gap
                place += 1
        return (np.stack(list(made.values()), 1).astype(np.float64), list(made)) if made else None

    def start(self, table: Table, fields: ModelFields) -> Start:
        return mixed_start(table, fields)

    def seen(self, run: Fitted, x: Tensor) -> Tensor:
        return even_columns(self.filled(run, x), _view(run).owners.cpu())

    def filled(self, run: Fitted, x: Tensor) -> Tensor:
        return run.distance_view(x)

    def map_points(self, run: Fitted) -> Callable[[Tensor], Tensor] | None:
        return lambda x: self.seen(run, x)

    def names(self, run: Fitted) -> list[str] | None:
        return _number_names(run.record.columns_of, _view(run).owners.tolist())

    def arrow(self, run: Fitted, x: Tensor) -> Any:
        return decode(run.record.columns_of, x.numpy())


def _points_of_circle(column: Column, feature: Feature) -> list[str]:
    """What the points of a circle are called; none where there are too many for a name to be of use."""
    if column.kind == "date":
        return _MONTHS if feature.likelihood == "circular:12" else _WEEKDAYS
    return [f"{point + column.start:g}" for point in range(column.period)] if column.period <= _CIRCLE else []


def _number_names(schema: Schema, owners: list[int]) -> list[str]:
    """A name for each number: the column's own, and the level where there is a number for it; none on a circle."""
    from horoball.trees.taxonomy import LATER

    feature_of: list[tuple[str, tuple[str, ...], bool]] = []
    for column in schema.used:
        for feature in column.features:
            name = f"{feature.name} = {LATER}" if column.kind == "date" else feature.name
            feature_of.append((name, column.levels, feature.likelihood.startswith("circular")))
    called = []
    for place, owner in enumerate(owners):
        name, levels, circular = feature_of[owner]
        level = place - owners.index(owner) if owners.count(owner) > 1 else len(levels) - 1
        apart = levels and (owners.count(owner) == len(levels) or len(levels) == 2)
        called.append("" if circular else f"{name} = {_level_name(levels[level])}" if apart else name)
    return called


def _level_name(level: str) -> str:
    """A level as it stands in the name of a group: in quotes if it says what a gap or a date does."""
    from horoball.trees.taxonomy import LATER, MISSING

    return repr(level) if level in (LATER, MISSING) else level


_KINDS = {kind.name: kind for kind in (Kind(), Counts(), Cells(), Vectors(), Mixed())}


def kind_named(name: str) -> Kind:
    """The kind of that name."""
    return _KINDS[name]


def kind_of(model: ModelConfig) -> Kind:
    """The kind of rows that a model was made for."""
    if model.likelihood == "mixed":
        return _KINDS["mixed"]
    if model.unit_input:
        return _KINDS["vectors"]
    if model.library:
        return _KINDS["cells"]
    return _KINDS["counts" if model.log_input else "numbers"]


def _view(run: Fitted) -> ColumnView:
    return cast(ColumnView, cast(Encoder, run.model.encoder).view)
