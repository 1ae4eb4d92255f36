"""The record of a fit to a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from horoball.data.tables.column_types import Schema
from horoball.models.table.vae import ModelConfig
from horoball.storage.restore import check_fields
from horoball.storage.settings import Settings
from horoball.training.record import FitRecord, short_value

__all__ = ["TableRecord"]


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
            yield f"has the label {short_value(repr(old.label))}, not {short_value(repr(self.label))}. Resume with it."
