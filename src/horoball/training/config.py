"""Training settings, and the record of a fit: what was fitted to which data, with which settings, by which version.

The record of a fit: what was fitted to which data, with which settings, by which version of horoball. A record is
stored as JSON beside the weights. One that comes from a file may have been written by anybody, so its fields are
checked before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

from horoball.devices import check_name
from horoball.storage.checkpoint import check_fields, reject_incomplete, stored_settings, this_version
from horoball.storage.settings import Range, SettingError, Settings
from horoball.training.bounds import KL

__all__ = ["FitRecord", "TrainConfig", "short_value", "stored_record"]

_KL = ("auto", "exact", "sample")
_PRECISIONS = ("32-true", "bf16-mixed")
_MANY = 10**9  # of epochs: more than any run has time for
PATIENCE = 20  # epochs
# What 20 epochs of a thousand rows have. An epoch of a hundred rows is one step: 20 of them are no sign of anything.
_PATIENCE_STEPS = 160


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Training settings. The defaults suit tables of a thousand to a million rows.

    A new option is a field here, with its default and its range, and a parameter of the front ends that offer it: the
    estimators, `cells.fit` and the commands pass on options by the names of these fields.

    Example:
        >>> TrainConfig(max_epochs=5).batch_size
        128
    """

    max_epochs: int = 200
    batch_size: int = 128  # rows per step, over all ranks
    learning_rate: float = 1e-3
    decay: float = 1.0  # learning rate of the last epoch as a fraction of the first; geometric in between
    warmup: float = 0.0  # part of the epochs in which the learning rate rises to its value
    encoder_rate: float = 1.0  # learning rate of the encoder, in units of the others'
    scale_rate: float = 1.0  # learning rate of the likelihood's own parameters, such as scales, in units of the others'
    beta: float = 1.0  # weight of the KL divergence
    kl_warmup: float = 0.0  # part of the steps in which that weight rises from 0 to beta, of models of tables
    distance_weight: float = 0.0  # of the term of a map; 0 is the paper's objective
    locality: float = 0.0  # share of the neighbor term in the layout; 0 has none, and distances in the loss
    optimizer: str = "Adam"  # or another of torch.optim, or a registered one, with its settings; see `hooks`
    scheduler: str = "auto"  # warmup and decay; or one of torch.optim.lr_scheduler, or a registered one
    clip_norm: float = 0.0  # that the norm of all gradients is brought down to; 0 leaves them
    kl: str = KL
    samples: int = 1
    seed: int = 0
    validation: float = 0.1  # fraction of the rows held out; 0 for none
    patience: int = PATIENCE  # epochs without a lower validation loss before stopping; 0 for never
    # Steps that these epochs have to have. None is 160 with the default patience, and 0 with one that was chosen.
    patience_steps: int | None = None
    checkpoint_seconds: float = 60.0  # beside those at the ends of epochs
    compile: bool = False
    device: str = "cpu"  # where it is computed; see `devices`
    precision: str = "32-true"  # as Lightning Fabric has it

    RANGES: ClassVar[dict[str, Range]] = {
        "max_epochs": Range(1, _MANY, "Most tables need 50 to 500."),
        "batch_size": Range(1, 1 << 40, "128 suits most tables."),
        "learning_rate": Range(0, 10, "0.001 suits most tables.", above=True),
        "decay": Range(0, 100, "1 keeps the learning rate constant, 0.1 ends at a tenth of it.", above=True),
        "warmup": Range(0, 1, "0.1 lets large learning rates start well, 0 starts with the whole."),
        "encoder_rate": Range(0, 1000, "1 has the encoder learn as fast as the decoder."),
        "scale_rate": Range(0, 1000, "1 has scales learn as fast as weights."),
        "clip_norm": Range(0, 1e12, "1 is usual, 0 leaves gradients as they are."),
        "beta": Range(0, 1e6, "1 is the evidence lower bound, 0 leaves the KL divergence out."),
        "kl_warmup": Range(0, 1, "0.1 lets a decoder learn to use the latent space first, 0 has the whole at once."),
        "distance_weight": Range(0, 1e9, "0 leaves the terms of a map out."),
        "locality": Range(0, 1, "0 keeps distances only, 1 neighbors only."),
        "samples": Range(1, 10_000, "1 suits training."),
        "seed": Range(0, (1 << 63) - 1),
        "validation": Range(0, 1, "It is the fraction of the rows held out: 0.1 is a tenth, 0 is none.", below=True),
        "patience": Range(0, _MANY, "20 suits most tables, 0 never stops early."),
        "patience_steps": Range(0, 1 << 40, "160 suits most tables, 0 counts epochs alone."),
        "checkpoint_seconds": Range(0, _MANY, "60 is a checkpoint a minute."),
    }

    def __post_init__(self) -> None:
        """Refuse what no run can be made from."""
        super().__post_init__()
        if self.kl not in _KL:
            raise SettingError("kl", f"is one of {', '.join(_KL)}, got {self.kl!r}.")
        if self.precision not in _PRECISIONS:
            raise SettingError("precision", f"is one of {', '.join(_PRECISIONS)}, got {self.precision!r}.")
        try:
            check_name(self.device)
        except ValueError as error:
            raise SettingError("device", str(error)) from None
        if self.compile and self.distance_weight > 0:
            raise ValueError("compile does not go with a distance term. Set distance_weight=0 or compile=False.")

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that a run is told by: not the device it is computed on, nor the precision it has there."""
        return {name: value for name, value in self.as_dict().items() if name not in ("device", "precision")}

    def out_of_patience(self, epochs: int, steps: int) -> bool:
        """Whether to stop, after epochs of so many steps each without a lower validation loss.

        Example:
            >>> [TrainConfig().out_of_patience(20, steps) for steps in (1, 8)], TrainConfig().out_of_patience(160, 1)
            ([False, True], True)
            >>> TrainConfig(patience=5).out_of_patience(5, 1)
            True
        """
        least = self.patience_steps
        if least is None:
            least = _PATIENCE_STEPS if self.patience == PATIENCE else 0
        return 0 < self.patience <= epochs and epochs * steps >= least

    def kl_share(self, epoch: int, step: int, steps: int) -> float:
        """The share of beta that the KL divergence weighs at a step, both counted from 0, of an epoch of so many steps.

        Example:
            >>> config = TrainConfig(max_epochs=10, kl_warmup=0.2)
            >>> [config.kl_share(*at, 5) for at in ((0, 0), (0, 4), (1, 4), (7, 0))]
            [0.1, 0.5, 1.0, 1.0]
        """
        rising = self.kl_warmup * self.max_epochs * steps
        return min(1.0, (epoch * steps + step + 1) / max(1.0, rising))

    def rate_at(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0.

        Example:
            >>> TrainConfig(max_epochs=3, learning_rate=1.0, decay=0.01).rate_at(1)
            0.1
        """
        rising = min(1.0, (epoch + 1) / max(1.0, self.warmup * self.max_epochs))
        return self.learning_rate * rising * self.decay ** (epoch / max(1, self.max_epochs - 1))


# Where the record of each kind is. A folder may hold a run of any kind, and the loop knows none of them.
_HOMES = {
    "table": ("horoball.vae.options", "TableRecord"),
    "graph": ("horoball.graphs.run", "GraphRecord"),
}

# Seed, batch size and validation fraction decide which rows are held out and which rows a step sees: with other values,
# rows trained on would be used for validation. The two rates group the parameters of the optimizer, whose state is kept
# by their places in it. The others define the loss, which has to stay comparable.
_OF_LOSS = ("beta", "kl_warmup", "distance_weight", "locality", "kl", "samples")
_OF_STEPS = ("optimizer", "scheduler", "clip_norm")
_FIXED_TRAINING = ("seed", "batch_size", "validation", *_OF_LOSS, *_OF_STEPS, "encoder_rate", "scale_rate")


@dataclass(frozen=True, kw_only=True)
class FitRecord:
    """What the records of tables and graphs have in common.

    Example:
        >>> from horoball.graphs import GraphConfig
        >>> from horoball.graphs.run import GraphRecord
        >>> from horoball.vae.options import TableRecord
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
        """The record in a checkpoint's header."""
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
        """Refuse to resume a run of other data, of another model, or with another loss."""
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
