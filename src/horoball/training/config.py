"""How a model is trained: numbers and names only, as they stand in a run's folder."""

from __future__ import annotations

from dataclasses import dataclass

from horoball.settings import Settings

__all__ = ["TrainConfig"]


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Settings of a run; the defaults suit a table of a thousand to a million rows.

    Example:
        >>> TrainConfig(max_epochs=5).batch_size
        128
    """

    max_epochs: int = 200
    batch_size: int = 128  # rows of a step, over all ranks
    learning_rate: float = 1e-3
    decay: float = 1.0  # the last epoch's learning rate, as a part of the first's; geometric in between
    beta: float = 1.0  # weight of the divergence
    distance_weight: float = 0.0  # of the distance term; 0 is the paper's objective
    kl: str = "sample"
    samples: int = 1
    seed: int = 0
    validation: float = 0.1  # part of the rows held out; 0 for none
    patience: int = 20  # epochs without a better validation loss before stopping; 0 for never
    checkpoint_seconds: float = 60.0  # beside those at the ends of epochs
    compile: bool = False

    def __post_init__(self) -> None:
        """Refuse what no run can be made from."""
        super().__post_init__()
        for name in ("max_epochs", "batch_size", "samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}.")
        if not 0 <= self.validation < 1:
            raise ValueError(f"validation is a part of the rows, 0 <= validation < 1, got {self.validation}.")
        if not self.distance_weight >= 0:
            raise ValueError(f"distance_weight must be at least 0, got {self.distance_weight}.")
        if self.compile and self.distance_weight > 0:
            raise ValueError("compile does not go with a distance term. Set distance_weight=0 or compile=False.")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be above 0, got {self.learning_rate}.")
        if not self.decay > 0:
            raise ValueError(f"decay must be above 0, got {self.decay}.")

    def rate_at(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0.

        Example:
            >>> TrainConfig(max_epochs=3, learning_rate=1.0, decay=0.01).rate_at(1)
            0.1
        """
        return self.learning_rate * self.decay ** (epoch / max(1, self.max_epochs - 1))
