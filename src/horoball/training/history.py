"""The metrics of every epoch, as a file may have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["SHOWN", "stored_history"]

SHOWN = ("loss", "kl", "c")  # what `info` shows of an epoch
_NAME = 40  # characters of a metric's name, at most


def stored_history(lines: Any, wanted: Sequence[str] = SHOWN) -> list[dict[str, float]]:
    """The metrics of the epochs 1, 2, … in their order; refuses what no run can have left.

    A line is a dict from names to finite numbers: it is written to `metrics.jsonl` again when a run goes on.

    Args:
        lines: What a checkpoint has as history.
        wanted: Metrics that every epoch must have.

    Example:
        >>> stored_history([{"epoch": 1.0, "loss": 3.0}], ["loss"])
        [{'epoch': 1.0, 'loss': 3.0}]
        >>> stored_history([{"epoch": 1.0, "loss": "$(rm)"}], ["loss"])
        Traceback (most recent call last):
        ...
        ValueError: its history has no number for 'loss' in epoch 1.
    """
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise ValueError("its history is no list of epochs.")
    for number, line in enumerate(lines, 1):
        for name, value in line.items():
            if not name.isidentifier() or not name.isascii() or len(name) > _NAME:
                raise ValueError(f"its history has the metric {name[:_NAME]!r}, which is no name.")
            if type(value) not in (int, float) or not math.isfinite(value):
                raise ValueError(f"its history has no number for {name!r} in epoch {number}.")
        for name in ("epoch", *wanted):
            if name not in line:
                raise ValueError(f"its history has no {name!r} in epoch {number}.")
        if line["epoch"] != number:
            raise ValueError(f"its history has epoch {line['epoch']:g} in place {number}.")
    return lines
