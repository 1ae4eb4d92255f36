"""Whether training came to anything: a loss above its start has diverged, one that still falls is not done."""

from __future__ import annotations

import math
import warnings

from horoball.training.config import TrainConfig

__all__ = ["early_end", "warn_if_diverged", "warn_if_unfinished"]

_NOISE = 0.25, 1.0  # part of the first loss, and nats, that batches may differ by
_EARLY = 9.0, 10.0  # the same for a run that has hardly begun: large steps lead away before they lead anywhere
_SETTLED = 20  # epochs after which a run has begun
_LATEST = 10  # epochs, at most, whose mean loss is compared with that of as many before them
_FALLING = 1e-3  # part of the loss, or of a nat, by which the later mean has to be lower


def warn_if_diverged(first: float | None, history: list[dict[str, float]], config: TrainConfig) -> None:
    """Warn if the weights that are kept fit worse than those that training began with.

    Args:
        first: The loss of the first step, before any update.
        history: The metrics of every epoch.
        config: Settings, for the advice.

    Example:
        >>> with warnings.catch_warnings(record=True, action="always") as caught:
        ...     warn_if_diverged(11.0, [{"epoch": 1.0, "loss": 1.2e5}], TrainConfig(learning_rate=1.0))
        >>> str(caught[0].message)[:66]
        'Training diverged: the loss was 11 before it and is 1.2e+05 after '
    """
    if first is None or not history or not math.isfinite(first):
        return
    # The weights are those of the best validation loss, where rows were held out, else those of the last epoch.
    kept = min(history, key=lambda line: line.get("validation", -line["epoch"]))
    last = min(kept["loss"], kept.get("validation", math.inf))  # a few rows held out may all be odd ones
    part, nats = _NOISE if len(history) >= _SETTLED else _EARLY
    if last <= first + max(part * abs(first), nats):
        return
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"Training diverged: the loss was {first:.4g} before it and is {last:.4g} after {len(history)} epochs. Do not "
        f"trust this model. Lower learning_rate, now {config.learning_rate:g}, to a tenth, and look for values far "
        "beyond the others.",
        ConvergenceWarning,
        stacklevel=4,
    )


def early_end(history: list[dict[str, float]], config: TrainConfig) -> str | None:
    """How training ended early, in words to be read after "ended"; None if it did not.

    Args:
        history: The metrics of every epoch.
        config: Settings.

    Example:
        >>> lines = [{"epoch": float(i + 1), "validation": abs(9.0 - i)} for i in range(30)]
        >>> early_end(lines, TrainConfig())
        'early, after epoch 30 of 200: the validation loss is lowest in epoch 10, whose weights are kept'
    """
    if not history or "validation" not in history[-1] or len(history) >= config.max_epochs or config.patience == 0:
        return None
    best = int(min(history, key=lambda line: line["validation"])["epoch"])
    if len(history) - best < config.patience:  # it was interrupted
        return None
    return (
        f"early, after epoch {len(history)} of {config.max_epochs}: the validation loss is lowest in epoch {best}, "
        "whose weights are kept"
    )


def warn_if_unfinished(history: list[dict[str, float]], config: TrainConfig) -> None:
    """Warn if training ended at its last epoch while the validation loss was still falling.

    A fit without rows held out, or with patience 0, is one of a number of epochs that was chosen, and is not judged.

    Args:
        history: The metrics of every epoch.
        config: Settings.

    Example:
        >>> lines = [{"epoch": float(i), "validation": 10.0 - i} for i in range(8)]
        >>> with warnings.catch_warnings(record=True, action="always") as caught:
        ...     warn_if_unfinished(lines, TrainConfig(max_epochs=8))
        >>> str(caught[0].message)[:75]
        'Training ended at its last epoch, 8, while the validation loss was falling:'
    """
    watched = [line["validation"] for line in history if "validation" in line]
    latest = min(_LATEST, len(watched) // 4)
    if config.patience == 0 or len(watched) < config.max_epochs or latest < 2:
        return
    last = sum(watched[-latest:]) / latest
    before = sum(watched[-2 * latest : -latest]) / latest
    if not before - last > _FALLING * max(1.0, abs(last)):
        return
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"Training ended at its last epoch, {len(watched)}, while the validation loss was falling: from {before:.4g} "
        f"to {last:.4g} over {latest} epochs. Go on with warm_start=True, or `horoball fit --resume --max-epochs "
        f"{2 * len(watched)}`; or set max_epochs higher at once.",
        ConvergenceWarning,
        stacklevel=4,
    )
