"""The record of a fit: what was fitted to which data, with which settings, by which version of horoball.

A record is stored as JSON beside the weights. One that comes from a file may have been written by anybody, so its
fields are checked before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from horoball.data.tables.column_types import Schema
from horoball.models.graph.vae import GraphConfig
from horoball.models.table.vae import ModelConfig
from horoball.storage.checkpoint import this_version
from horoball.storage.restore import check_fields, reject_incomplete, stored_settings
from horoball.storage.settings import Settings
from horoball.training.config import TrainConfig

__all__ = ["FitRecord", "GraphRecord", "TableRecord", "stored_record"]

# Seed, batch size and validation fraction decide which rows are held out and which rows a step sees: with other values,
# rows trained on would be used for validation. The others define the loss, which has to stay comparable.
_FIXED_TRAINING = ("seed", "batch_size", "validation", "beta", "distance_weight", "locality", "kl", "samples")


@dataclass(frozen=True, kw_only=True)
class FitRecord:
    """What the records of tables and graphs have in common.

    Example:
        >>> record = GraphRecord(model=GraphConfig(nodes=4), training=TrainConfig(), edges=3, digest="0f")
        >>> header = {"record": record.as_json()}
        >>> GraphRecord.from_json(Path("run/model.safetensors"), header) == record
        True
        >>> TableRecord.from_json(Path("run/model.safetensors"), header)
        Traceback (most recent call last):
        ...
        ValueError: run holds the model of a graph, not of a table. Use `horoball graph embed`...
    """

    KIND: ClassVar[str]
    COMMAND: ClassVar[str]  # that fits and resumes
    READERS: ClassVar[str]  # what can be done with the run
    MODEL: ClassVar[type[Settings]]
    FIXED: ClassVar[tuple[str, ...]]  # fields that stay when a run is resumed

    model: Any
    training: TrainConfig
    version: str = field(default_factory=this_version)

    def as_json(self) -> dict[str, Any]:
        """The record as stored in checkpoints."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        plain = {name: value.as_dict() if isinstance(value, Settings) else value for name, value in values.items()}
        return {"kind": self.KIND, **plain}

    @classmethod
    def from_json(cls, path: Path, header: dict[str, Any]) -> Self:
        """The record in a checkpoint's header.

        Args:
            path: The checkpoint, for messages.
            header: Its header.

        Raises:
            ValueError: There is no record of this kind, or it has missing, unknown or invalid fields.
        """
        said = header.get("record")
        if not isinstance(said, dict) or not isinstance(said.get("model"), dict):
            raise ValueError(f"{path} holds weights without a description of their model. Point to a run's own folder.")
        found = _KINDS.get(str(said.get("kind")))
        if found is not None and found is not cls:
            raise ValueError(
                f"{path.parent} holds the model of a {found.KIND}, not of a {cls.KIND}. Use {found.READERS}."
            )
        with reject_incomplete(path, "does not hold a whole model"):
            if found is None:
                raise ValueError(f"its kind is {str(said.get('kind'))[:40]!r}, expected {cls.KIND!r}.")
            known = [part.name for part in fields(cls)]
            check_fields(said, {"kind", *known}, "record", header)
            needed = known if _must_have_all(header) else _without_default(cls)
            values = {name: said[name] for name in known if name in said or name in needed}
            values["model"] = _settings(cls.MODEL, said["model"], "model", header)
            values["training"] = _settings(TrainConfig, said["training"], "training", header)
            return cls(**values)

    def replace(self, **changes: Any) -> Self:
        """The same record with some fields changed."""
        return replace(self, **changes)

    def check_resumes(self, folder: Path, old: FitRecord) -> None:
        """Refuse to resume a run of other data, of another model, or with another loss.

        Args:
            folder: The folder of the run, for messages.
            old: The record found there.
        """
        if type(old) is not type(self):
            raise ValueError(
                f"{folder} holds the run of a {old.KIND}. Choose another folder, or resume it with "
                f"`horoball {old.COMMAND} --resume`."
            )
        for problem in self._differences(old):
            raise ValueError(f"The run in {folder} {problem}")

    def _differences(self, old: Any) -> Iterator[str]:
        """Why a run cannot be resumed, to be read after its folder."""
        before, now = old.model.as_dict(), self.model.as_dict()
        pairs = [(name, before[name], now[name]) for name in now if name != "input_limit"]  # of the rows
        pairs += [(name, getattr(old.training, name), getattr(self.training, name)) for name in _FIXED_TRAINING]
        pairs += [(name, getattr(old, name), getattr(self, name)) for name in self.FIXED]
        for name, was, given in pairs:
            if was != given:
                yield f"has {name} = {_short(was)}, not {_short(given)}. Resume with the options of the first fit."


@dataclass(frozen=True, kw_only=True)
class TableRecord(FitRecord):
    """The record of a fit to a table.

    Example:
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
    def mixed(self) -> bool:
        """Whether columns have likelihoods of their own."""
        return self.model.likelihood == "mixed"

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
            yield f"has the label {_short(repr(old.label))}, not {_short(repr(self.label))}. Resume with it."


@dataclass(frozen=True, kw_only=True)
class GraphRecord(FitRecord):
    """The record of a fit to a graph.

    Example:
        >>> GraphRecord(model=GraphConfig(nodes=4), training=TrainConfig(), edges=3, digest="0f", non_edges=-1)
        Traceback (most recent call last):
        ...
        ValueError: its non_edges is '-1'.
    """

    KIND: ClassVar[str] = "graph"
    COMMAND: ClassVar[str] = "graph fit"
    READERS: ClassVar[str] = (
        "`horoball graph embed`, `horoball graph evaluate` and `horoball graph info`, or PoincareGraphVAE.load"
    )
    MODEL: ClassVar[type[Settings]] = GraphConfig
    FIXED: ClassVar[tuple[str, ...]] = ("non_edges",)

    model: GraphConfig
    edges: int
    digest: str  # of edges, features, names and held-out pairs
    non_edges: int | None = None  # pairs drawn for every edge; None for all pairs
    test: float = 0.0  # fraction of the edges held out

    def __post_init__(self) -> None:
        """Refuse fields of other types."""
        drawn = self.non_edges
        for name, good in (
            ("edges", type(self.edges) is int and self.edges >= 0),
            ("digest", isinstance(self.digest, str)),
            ("non_edges", drawn is None or (type(drawn) is int and drawn >= 0)),
            ("test", type(self.test) in (int, float) and 0 <= self.test < 1),
            ("version", isinstance(self.version, str)),
        ):
            if not good:
                raise ValueError(f"its {name} is {str(getattr(self, name))[:40]!r}.")

    def _differences(self, old: GraphRecord) -> Iterator[str]:
        if (old.digest, old.edges, old.model.nodes) != (self.digest, self.edges, self.model.nodes):
            yield "is of another graph. Resume with the file and the options of the first fit."
        yield from super()._differences(old)


_KINDS: dict[str, type[FitRecord]] = {kind.KIND: kind for kind in (TableRecord, GraphRecord)}


def stored_record(path: Path, header: dict[str, Any]) -> FitRecord | None:
    """The record of either kind in a checkpoint to resume from; None if the run was started without one.

    Example:
        >>> stored_record(Path("last.safetensors"), {"record": None}) is None
        True
    """
    said = header.get("record", False)
    if said is None:
        return None
    kind = said.get("kind") if isinstance(said, dict) else None
    return _KINDS.get(str(kind), TableRecord).from_json(path, header)


def _must_have_all(header: dict[str, Any]) -> bool:
    """Whether a record was written by this version, as it was released.

    One of an older version may lack fields that came later, and so may one of a version that was under development.
    """
    return header.get("version") == this_version() and ".dev" not in this_version()


def _without_default(kind: type[FitRecord]) -> list[str]:
    return [part.name for part in fields(kind) if part.default is MISSING and part.default_factory is MISSING]


def _settings(kind: type[Settings], said: Any, what: str, header: dict[str, Any]) -> Settings:
    """Settings in a record; a field that an older version did not write has its default."""
    settings = stored_settings(kind, said, what, header)
    if _must_have_all(header):
        for name in settings.as_dict().keys() - said.keys():
            raise KeyError(name)
    return settings


def _short(value: Any) -> str:
    """A value as a message shows it; one from a file may be of any length."""
    text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
