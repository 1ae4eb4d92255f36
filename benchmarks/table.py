"""Rows of a benchmark and their print as an aligned Markdown table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

__all__ = ["Row", "markdown", "short", "worst"]


@dataclass(frozen=True)
class Row:
    """One measured quantity: its worst error, the bar it has to stay under, and geoopt's error on the same inputs."""

    quantity: str
    over: str
    dtype: torch.dtype
    error: float
    bar: float | None = None
    peer: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the error is under the bar, if there is one; an error that is no number is not."""
        return self.bar is None or self.error <= self.bar

    def cells(self) -> list[str]:
        """What is printed."""
        verdict = "" if self.bar is None else ("pass" if self.passed else "FAIL")
        numbers = (self.error, self.bar, self.peer)
        error, bar, peer = ("" if x is None else f"{x:.1e}" for x in numbers)
        return [self.quantity, self.over, short(self.dtype), error, bar, verdict, peer]


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def worst(errors: Iterable[float]) -> float:
    """The largest; infinite if one of them is no number."""
    return max((math.inf if math.isnan(e) else e for e in errors), default=0.0)


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """An aligned table."""
    lines = [list(header), *(list(line) for line in lines)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    padded = ["| " + " | ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)) + " |" for line in lines]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([padded[0], rule, *padded[1:]])
