"""The learning rate of short trainings with a known number of steps."""

from __future__ import annotations

__all__ = ["rise_and_fall"]

_WARMUP = 0.05  # part of the steps in which the rate rises
_LAST = 0.02  # what is left of it at the end


def rise_and_fall(rate: float, part: float) -> float:
    """The rate after a part of all steps: it rises for a twentieth of them, then falls in a line to a fiftieth.

    Example:
        >>> [round(rise_and_fall(1.0, part), 3) for part in (0.0, 0.05, 0.5, 1.0)]
        [0.0, 0.951, 0.51, 0.02]
    """
    return rate * min(1.0, part / _WARMUP) * (_LAST + (1 - _LAST) * (1 - part))
