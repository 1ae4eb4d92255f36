"""The record of a fit: what was fitted to which data, with which settings, by which version of horoball.

A record is stored as JSON beside the weights. One that comes from a file may have been written by anybody, so its
fields are checked before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

from horoball._moved import moved_names
from horoball.storage.checkpoint import this_version
from horoball.storage.restore import check_fields, reject_incomplete, stored_settings
from horoball.storage.settings import Settings
from horoball.training.config import TrainConfig

__all__ = ["FitRecord", "short_value", "stored_record"]

# Where the record of each kind is. A folder may hold a run of any kind, and the loop knows none of them.
_HOMES = {
    "table": ("horoball.training.table.record", "TableRecord"),
    "graph": ("horoball.training.graph.record", "GraphRecord"),
}

# Seed, batch size and validation fraction decide which rows are held out and which rows a step sees: with other values,
# rows trained on would be used for validation. The two rates group the parameters of the optimizer, whose state is kept
# by their places in it. The others define the loss, which has to stay comparable.
_OF_LOSS = ("beta", "distance_weight", "locality", "kl", "samples")
_FIXED_TRAINING = ("seed", "batch_size", "validation", *_OF_LOSS, "encoder_rate", "scale_rate")


@dataclass(frozen=True, kw_only=True)
class FitRecord:
    """What the records of tables and graphs have in common.

    Example:
        >>> from horoball.models import GraphConfig
        >>> from horoball.training.graph.record import GraphRecord
        >>> from horoball.training.table.record import TableRecord
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
        found = _kind(said.get("kind"))
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
                was, given = short_value(was), short_value(given)
                yield f"has {name} = {was}, not {given}. Resume with the options of the first fit."


def stored_record(path: Path, header: dict[str, Any]) -> FitRecord | None:
    """The record of either kind in a checkpoint to resume from; None if the run was started without one.

    Example:
        >>> stored_record(Path("last.safetensors"), {"record": None}) is None
        True
    """
    said = header.get("record", False)
    if said is None:
        return None
    kind = _kind(said.get("kind") if isinstance(said, dict) else None)
    return (kind or _known("table")).from_json(path, header)


def _kind(name: Any) -> type[FitRecord] | None:
    """The record of a kind, imported when a file names it; None if there is no such kind."""
    return _known(name) if isinstance(name, str) and name in _HOMES else None


def _known(name: str) -> type[FitRecord]:
    module, record = _HOMES[name]
    found: type[FitRecord] = getattr(import_module(module), record)
    return found


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


def short_value(value: Any) -> str:
    """A value as a message shows it; one from a file may be of any length.

    Example:
        >>> short_value("x" * 100)[-3:], short_value(0.5)
        ('xx…', '0.5')
    """
    text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


__getattr__ = moved_names(__name__)
