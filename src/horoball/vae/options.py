"""Options of a fit to a table: from a front end to the settings, and the record that keeps them.

The estimator, `cells.fit` and the command line all call `table_fit`, and those of graphs `graph_fit`. A default has one
home: the field of `ModelConfig`, `GraphConfig` or `TrainConfig`, or, where a front end or a kind of rows differs from
it, a tuple of `horoball.vae.kinds`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, ClassVar, Unpack, cast

import numpy as np

from horoball.likelihoods.likelihood import LIKELIHOODS
from horoball.options import FitOptions, GraphOptions
from horoball.plugins import OUTSIDE
from horoball.storage.checkpoint import check_fields
from horoball.storage.settings import SettingError, Settings
from horoball.tables.read import Reading
from horoball.tables.schema import Schema
from horoball.tables.table import Table
from horoball.training.config import FitRecord, TrainConfig, short_value
from horoball.training.hooks import check_hook
from horoball.vae.kinds import TABLES, Kind, kind_named, kind_of
from horoball.vae.model import OWN, ModelConfig, ModelFields

TRIED = ("c", "log_likelihood", "behind", "error", "distortion", "more", "more_error")  # figures of a space


@dataclass(frozen=True, kw_only=True)
class TableRecord(FitRecord):
    """The record of a fit to a table.

    Example:
        >>> from horoball.training import TrainConfig
        >>> model = ModelConfig(features=2)
        >>> TableRecord(model=model, training=TrainConfig(), columns=["a", "b"], rows=10, data="0f").label is None
        True
        >>> TableRecord(model=model, training=TrainConfig(), columns=["a"], rows=10, data="0f")
        Traceback (most recent call last):
        ...
        ValueError: its columns are not the names of 2 features.
    """

    KIND: ClassVar[str] = "table"
    COMMAND: ClassVar[str] = "fit"
    READERS: ClassVar[str] = "`horoball embed`, `export`, `evaluate`, `sample`, `view` or `info`, or PoincareVAE.load"
    MODEL: ClassVar[type[Settings]] = ModelConfig
    FIXED: ClassVar[tuple[str, ...]] = ("rows",)

    model: ModelConfig
    columns: list[str]
    rows: int
    data: str  # fingerprint of the table
    whole: bool = False  # whether all values were whole numbers; counts then have to be
    label: str | None = None  # column kept aside
    ids: str | None = None  # column with the names of the rows
    covariates: dict[str, list[str]] = field(default_factory=dict)  # categories of each
    # Of cells: layer, batch keys and the scaling of numbers; of vectors: their column.
    reading: dict[str, Any] = field(default_factory=dict)
    schema: list[dict[str, Any]] = field(default_factory=list)  # what the columns are, see `Schema`; empty if plain
    key: str | None = None  # of AnnData: where `cells.fit` wrote the embedding
    estimator: dict[str, Any] | None = None  # parameters of the estimator that was fitted
    tried: list[dict[str, Any]] = field(default_factory=list)  # spaces that the model's was chosen among

    def __post_init__(self) -> None:
        """Refuse fields of other types, and columns or covariates that are not the model's."""
        if type(self.rows) is not int or self.rows < 1:
            raise ValueError(f"its number of rows is {str(self.rows)[:40]!r}.")
        columns, features = self.columns, self.model.features
        named = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
        if not named or len(columns) != features:
            raise ValueError(f"its columns are not the names of {features} features.")
        for names, kind, may_miss in (
            (("data", "version"), str, False),
            (("whole",), bool, False),
            (("covariates", "reading"), dict, False),
            (("label", "ids", "key"), str, True),
            (("estimator",), dict, True),
        ):
            for name in names:
                value = getattr(self, name)
                if not isinstance(value, kind) and not (may_miss and value is None):
                    raise ValueError(f"its {name} is {str(value)[:40]!r}.")
        if not isinstance(self.tried, list) or not all(isinstance(each, dict) for each in self.tried):
            raise ValueError(f"its spaces that were tried are {str(self.tried)[:40]!r}.")
        for each in self.tried:
            kinds = {"space": str, "manifold": str, "chosen": bool}
            check_fields(each, {*kinds, *TRIED}, "tried", {"version": self.version})
            wrong = [name for name, value in each.items() if not isinstance(value, kinds.get(name, int | float))]
            if wrong or len(each) != len(kinds) + len(TRIED):
                raise ValueError(f"a space that was tried has no {', '.join(wrong) or 'figures'}.")
        categories = self.covariates.values()
        if not all(isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in categories):
            raise ValueError("its covariates have categories that are not texts.")
        if tuple(len(texts) for texts in categories) != self.model.covariates:
            raise ValueError("its covariates are not those of its model.")
        if self.schema or self.mixed:
            described = self.columns_of
            if self.mixed and (described.names != columns or not described.used):
                raise ValueError("its description of the columns is not that of its features.")
        elif self.schema != []:
            raise ValueError(f"its schema is {str(self.schema)[:40]!r}.")
        check_fields(self.reading, {"layer", "batch", "numbers", "vectors"}, "reading", {"version": self.version})
        if not isinstance(self.reading.get("vectors", ""), str):
            raise ValueError(f"its column of vectors is {str(self.reading['vectors'])[:40]!r}.")

    @property
    def kind(self) -> Kind:
        """What the rows are."""
        return kind_of(self.model)

    @property
    def mixed(self) -> bool:
        """Whether columns have likelihoods of their own."""
        return self.kind.name == "mixed"

    @property
    def as_read(self) -> Reading:
        """How the rows were read, for `horoball.tables.read` of others."""
        kind = "vectors" if "vectors" in self.reading else "numbers" if self.kind.name == "vectors" else self.kind.name
        return Reading(kind, self.columns, self.columns_of, self.label, self.ids, self.reading)

    @property
    def columns_of(self) -> Schema:
        """What the columns of the source are; none are described where they are plain numbers."""
        return Schema.from_json(self.schema, uniform=not self.mixed)

    def _differences(self, old: TableRecord) -> Iterator[str]:
        if old.columns != self.columns:
            yield "is of a table with other columns. Resume with the file and the options of the first fit."
        yield from super()._differences(old)
        if old.data != self.data:
            yield "is of other rows. Resume with the file of the first fit."
        if old.covariates != self.covariates:
            yield "has other batches. Resume with the options of the first fit."
        if old.label != self.label:
            yield f"has the label {short_value(repr(old.label))}, not {short_value(repr(self.label))}. Resume with it."


_log = logging.getLogger("horoball")
_MIN_ROWS_FOR_DISTANCES = 50  # rows below which a graph of 20 neighbors says nothing
_MAP_STEPS = 1000  # of a map
_LAID_OUT_ROWS = (1000, 2000)  # from which a map whose encoder has learned a layout takes the next of
_LAID_OUT_STEPS, _LAID_OUT_RATES = (100, 200, 400), (0.02, 0.02, 0.01)  # steps and learning rates
_CELL_STEPS = 15_000
# Part of the training of cells in which the KL divergence comes to count. At first the decoder knows nothing of the
# latent space, and the divergence is all that the encoder can lower: ten thousand cells × 2,000 genes ended with all
# posteriors at the prior. The distance term of a map keeps them apart.
_KL_WARMUP = 0.1
_MAP_WIDTH = 256  # of the hidden layers of a map
_MAP_RATE = 0.01  # learning rate
_MAP_SCHEDULE = {"warmup": 0.1, "decay": 0.02, "scale_rate": 5.0}  # of the learning rate
_ENCODER_RATE = 0.002  # of an encoder that has only to keep what it has learned
_MAP_ROWS, _MAP_BATCHES = (1000, 8000, 40_000), (128, 256, 512, 1024)  # rows from which batches are larger
_MANY_ROWS = 8000  # from which the layout has details that take a third layer to learn
_NO_LIMIT = 10_000  # epochs: training stops by itself before


def table_fit(table: Table, **options: Unpack[FitOptions]) -> tuple[ModelFields, TrainConfig]:
    """Fields of `ModelConfig` and the training settings for a table, as `vae.train.train` takes them.

    Args:
        table: Rows; their kind has defaults of its own.
        options: See `horoball.options`. c and prior_scale may be "learn"; distance_weight, likelihood, hidden,
            batch_size, learning_rate, max_epochs and patience may be "auto".

    Example:
        >>> from horoball.tables import ArrayTable
        >>> model, training = table_fit(ArrayTable(np.zeros((100, 40))), c="learn", max_epochs=5)
        >>> model
        {'likelihood': 'auto', 'hidden': (256, 256), 'c': 1.0, 'learn_c': True}
        >>> training.max_epochs, training.distance_weight, training.batch_size
        (5, 200.0, 128)
    """
    defaults = kind_named(table.kind).defaults
    model, training = split_options(TABLES._asdict() | defaults | dict(options), ModelConfig)
    if model["likelihood"] == "auto":  # numbers alone do not say that they are directions, or what a count is out of
        model["likelihood"] = defaults.get("likelihood", "auto")
    if table.kind == "cells" and "library" in LIKELIHOODS[model["likelihood"]].options:
        model["library"] = True
    if model.get("manifold", "ball") not in OWN["manifold"]:  # a layout is known of the ball alone
        if training["distance_weight"] not in ("auto", 0):
            raise SettingError("distance_weight", "is for the ball; on another manifold leave it out, or give 0.")
        training["distance_weight"] = 0.0
    weight, library = training["distance_weight"], bool(model.get("library"))
    training["distance_weight"] = distance_weight(weight, table, model.get("d", ModelConfig.d), library=library)
    if table.kind == "cells" and isinstance(training["max_epochs"], str) and training["max_epochs"] == "auto":
        training["max_epochs"] = cell_epochs(table.rows, training["batch_size"])
    if isinstance(model["hidden"], str) and model["hidden"] == "auto":
        model["hidden"] = map_hidden(table) if training["distance_weight"] > 0 else ModelConfig.hidden
    training |= pace(table, training)
    if table.kind == "cells" and training["distance_weight"] == 0 and "kl_warmup" not in training:
        training["kl_warmup"] = _KL_WARMUP
    return cast(ModelFields, model), TrainConfig(**training)


def cell_epochs(cells: int, batch_size: int | str) -> int:
    """Epochs of a model of cells: 15,000 steps, which are what is learned by, and no more than 200.

    Example:
        >>> [cell_epochs(cells, 128) for cells in (1000, 10_000, 50_000, 1_000_000)]
        [200, 192, 39, 2]
    """
    size = batch_size if isinstance(batch_size, int) and batch_size > 0 else TrainConfig.batch_size
    return min(TrainConfig.max_epochs, math.ceil(_CELL_STEPS * size / cells))


def map_hidden(table: Table) -> tuple[int, ...]:
    """Hidden layers of a map: two, or three for many rows; without the term of a map, posteriors would collapse.

    Example:
        >>> from horoball.tables import ArrayTable
        >>> map_hidden(ArrayTable(np.zeros((2000, 4))))
        (256, 256)
    """
    return (_MAP_WIDTH,) * (3 if table.rows >= _MANY_ROWS else 2)


def pace(table: Table, training: dict[str, Any]) -> dict[str, Any]:
    """Batch size, learning rate, patience and maximum number of epochs, where they are "auto".

    A map has a fixed number of steps, over which the learning rate rises and falls: it ends settled. A step costs
    about as much for a few hundred rows as for a few, so batches are large, as long as an epoch has some steps. Other
    models train until the validation loss has not fallen for 20 epochs and 160 steps.

    Args:
        table: Rows.
        training: Options of the training, with the distance weight as a number.

    Example:
        >>> from horoball.tables import ArrayTable
        >>> auto = dict.fromkeys(("batch_size", "learning_rate", "patience", "max_epochs"), "auto")
        >>> pace(ArrayTable(np.zeros((2000, 4))), auto | {"distance_weight": 50.0})
        {'batch_size': 256, 'learning_rate': 0.01, 'patience': 0, 'max_epochs': 50, 'warmup': 0.1, 'decay': 0.02, ...}
        >>> pace(ArrayTable(np.zeros((2000, 4))), auto | {"distance_weight": 0.0})
        {'batch_size': 128, 'learning_rate': 0.001, 'patience': 20, 'max_epochs': 10000}
    """
    drawn = training["distance_weight"] > 0
    laid_out = drawn and table.covariates is None and training.get("locality", TABLES.locality) > 0
    batch = _MAP_BATCHES[int(np.searchsorted(_MAP_ROWS, table.rows, "right"))] if drawn else TrainConfig.batch_size
    size = int(np.searchsorted(_LAID_OUT_ROWS, table.rows, "right"))
    rate = _LAID_OUT_RATES[size] if laid_out else _MAP_RATE if drawn else TrainConfig.learning_rate
    chosen: dict[str, Any] = {"batch_size": batch, "learning_rate": rate}
    chosen |= {"patience": 0 if drawn else TrainConfig.patience}
    given: dict[str, Any] = {}
    for name in (*chosen, "max_epochs"):
        value, auto = _number_or("auto", name, training.get(name, "auto"))
        given |= {} if auto else {name: TrainConfig.checked(name, value)}
    held = int(table.rows * TrainConfig.checked("validation", training.get("validation", TrainConfig.validation)))
    steps = max(1, math.ceil((table.rows - held) / given.get("batch_size", batch)))
    wanted = _LAID_OUT_STEPS[size] if laid_out else _MAP_STEPS
    chosen["max_epochs"] = math.ceil(wanted / steps) if drawn else _NO_LIMIT if held else TrainConfig.max_epochs
    if drawn and "learning_rate" not in given:  # a rate that is given stays as it is
        schedule = _MAP_SCHEDULE | ({"encoder_rate": _ENCODER_RATE / rate} if laid_out else {})
        chosen |= {name: value for name, value in schedule.items() if name not in training}
    return chosen | given


def stored_options(record: FitRecord) -> dict[str, Any]:
    """The options of a fit, from its record: the inverse of `table_fit` and `graph_fit`.

    Example:
        >>> from horoball.graphs import GraphConfig
        >>> from horoball.graphs.run import GraphRecord
        >>> model = GraphConfig(nodes=4, learn_c=True)
        >>> options = stored_options(GraphRecord(model=model, training=TrainConfig(), edges=3, digest="0f"))
        >>> options["c"], options["hidden"], options["seed"]
        ('learn', 32, 0)
    """
    parts = (record.model, record.training)
    model, training = ({part.name: getattr(each, part.name) for part in fields(each)} for each in parts)
    model["c"] = "learn" if model["learn_c"] else model["c"]
    model["prior_scale"] = "learn" if model["learn_prior"] else model["prior_scale"]
    return model | training


def check_options(kind: type[Settings], options: FitOptions | GraphOptions) -> None:
    """Refuse options out of range, for callers that have long work to do before the fit.

    Example:
        >>> check_options(ModelConfig, {"c": "learn", "beta": -1.0})
        Traceback (most recent call last):
        ...
        horoball.storage.settings.SettingError: beta must be at least 0 and at most 1e+06, got -1.0. ...
    """
    model, training = split_options(dict(options), kind)
    for name, value in model.items():
        kind.checked(name, value)
    for name, value in training.items():
        if value != "auto":
            TrainConfig.checked(name, value)


def split_options(options: dict[str, Any], kind: type[Settings]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the model, which has settings of this kind, and of the training.

    Example:
        >>> split_options({"d": 3, "c": "learn", "beta": 0.5}, ModelConfig)
        ({'d': 3, 'c': 1.0, 'learn_c': True}, {'beta': 0.5})
    """
    names = {part.name for part in fields(TrainConfig)}
    training = {name: value for name, value in options.items() if name in names}
    model = {name: value for name, value in options.items() if name not in names}
    for name in model.keys() - {part.name for part in fields(kind)}:
        raise TypeError(f"A fit has no option {name!r}.")
    for name in ("optimizer", "scheduler"):
        if name in training:
            check_hook(name, training[name])
    if "prior_scale" in model:
        model |= prior_fields(model["prior_scale"])
    if "c" in model:
        model |= curvature_fields(model["c"])
    return model, training


def check_storable(model: ModelConfig) -> None:
    """Refuse a model with parts that no file can name.

    Example:
        >>> check_storable(ModelConfig(features=2))
    """
    for kind in ("encoder", "decoder", "prior", "manifold"):
        if getattr(model, kind) == OUTSIDE:
            raise ValueError(
                f"The {kind} of this model has no name, so it cannot be read back from a file. Register its class "
                f"(horoball.vae.parts.register_{kind}; the page on extending says how), and give the class or its name."
            )


def curvature_fields(c: float | str) -> dict[str, Any]:
    """Fields of `ModelConfig` for a curvature: a number, or "learn", which starts at 1.

    Example:
        >>> curvature_fields(0.5), curvature_fields("learn")
        ({'c': 0.5, 'learn_c': False}, {'c': 1.0, 'learn_c': True})
    """
    value, learn = _number_or("learn", "c", c)
    return {"c": 1.0 if learn else ModelConfig.checked("c", value), "learn_c": learn}


def prior_fields(scale: float | str) -> dict[str, Any]:
    """Fields of `ModelConfig` for the prior's standard deviation: a number, or "learn", which starts at 1.

    Example:
        >>> prior_fields(1.7), prior_fields("learn")
        ({'prior_scale': 1.7, 'learn_prior': False}, {'prior_scale': 1.0, 'learn_prior': True})
    """
    value, learn = _number_or("learn", "prior_scale", scale)
    return {"prior_scale": 1.0 if learn else ModelConfig.checked("prior_scale", value), "learn_prior": learn}


def distance_weight(given: float | str, table: Table, d: int, *, library: bool = False) -> float:
    """The weight of the distance term: the given number, or for "auto" that of `map_weight`.

    Example:
        >>> from horoball.tables import ArrayTable
        >>> import numpy as np
        >>> distance_weight("auto", ArrayTable(np.zeros((100, 40))), 2), distance_weight(3, ArrayTable(np.eye(2)), 2)
        (200.0, 3.0)
    """
    value, auto = _number_or("auto", "distance_weight", given)
    if auto:
        return map_weight(table, ModelConfig.checked("d", d), library=library)
    return float(TrainConfig.checked("distance_weight", value))


def _number_or(word: str, name: str, given: Any) -> tuple[Any, bool]:
    """The value, and whether it is the word."""
    if isinstance(given, str) and given == word:
        return given, True
    if not isinstance(given, Real) or isinstance(given, bool | np.bool_):
        raise SettingError(name, f'is a number or "{word}", got {given!r}.')
    return given, False


def map_weight(table: Table, d: int, *, library: bool = False) -> float:
    """A distance weight for a map, of the size of the likelihood: 5 per feature, for d = 2 or 3.

    0 where no map is drawn. A count holds less information than a real number, so counts of cells get 0.1 per feature,
    chosen on trees by `horoball.cells.simulate`.

    Example:
        >>> from horoball.tables import ArrayTable
        >>> import numpy as np
        >>> table = ArrayTable(np.zeros((100, 40)))
        >>> map_weight(table, d=2), map_weight(table, d=10)
        (200.0, 0.0)
    """
    if not 2 <= d <= 3 or table.rows < _MIN_ROWS_FOR_DISTANCES:
        return 0.0
    return max(50.0, (0.1 if library else 5.0) * table.features)
