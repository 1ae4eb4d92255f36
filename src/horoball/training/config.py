"""Training settings: numbers and names only, as stored in checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from horoball.objectives.bounds import KL
from horoball.runtime.devices import check_name
from horoball.storage.settings import Range, SettingError, Settings

__all__ = ["TrainConfig"]

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
    distance_weight: float = 0.0  # of the term of a map; 0 is the paper's objective
    locality: float = 0.0  # share of the neighbor term in the layout; 0 has none, and distances in the loss
    kl: str = KL
    samples: int = 1
    seed: int = 0
    validation: float = 0.1  # fraction of the rows held out; 0 for none
    patience: int = PATIENCE  # epochs without a lower validation loss before stopping; 0 for never
    # Steps that these epochs have to have. None is 160 with the default patience, and 0 with one that was chosen.
    patience_steps: int | None = None
    checkpoint_seconds: float = 60.0  # beside those at the ends of epochs
    compile: bool = False
    device: str = "cpu"  # where it is computed; see `runtime.devices`
    precision: str = "32-true"  # as Lightning Fabric has it

    RANGES: ClassVar[dict[str, Range]] = {
        "max_epochs": Range(1, _MANY, "Most tables need 50 to 500."),
        "batch_size": Range(1, 1 << 40, "128 suits most tables."),
        "learning_rate": Range(0, 10, "0.001 suits most tables.", above=True),
        "decay": Range(0, 100, "1 keeps the learning rate constant, 0.1 ends at a tenth of it.", above=True),
        "warmup": Range(0, 1, "0.1 lets large learning rates start well, 0 starts with the whole."),
        "encoder_rate": Range(0, 1000, "1 has the encoder learn as fast as the decoder."),
        "scale_rate": Range(0, 1000, "1 has scales learn as fast as weights."),
        "beta": Range(0, 1e6, "1 is the evidence lower bound, 0 leaves the KL divergence out."),
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
        """The fields that a run is told by: not the device it is computed on, nor the precision it has there.

        Example:
            >>> TrainConfig(device="cuda").identity == TrainConfig().identity
            True
        """
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

    def rate_at(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0.

        Example:
            >>> TrainConfig(max_epochs=3, learning_rate=1.0, decay=0.01).rate_at(1)
            0.1
        """
        rising = min(1.0, (epoch + 1) / max(1.0, self.warmup * self.max_epochs))
        return self.learning_rate * rising * self.decay ** (epoch / max(1, self.max_epochs - 1))
