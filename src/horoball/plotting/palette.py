"""Colors of categories, the same in every picture."""

from __future__ import annotations

import colorsys

__all__ = ["COLORS", "color_of"]

# Colors that color-blind readers can tell apart: Okabe and Ito's, then Tol's muted ones, as in the viewer by day.
COLORS = (
    *("#0072b2", "#d55e00", "#009e73", "#c46a9b", "#e69f00", "#3aa0dd", "#8a7a00"),
    *("#332288", "#882255", "#44aa99", "#999933", "#aa4499", "#cc6677", "#117733"),
)
_GOLDEN = 0.618034  # of a turn: hues of any number of colors stay apart
_LIGHTNESS = (0.35, 0.62, 0.48)  # one after the other, so that neighboring hues differ in lightness too


def color_of(number: int) -> str:
    """The color of a category by its number; no two of the first hundred are the same.

    Example:
        >>> color_of(0), color_of(14)
        ('#0072b2', '#931f1f')
    """
    if number < len(COLORS):
        return COLORS[number]
    further = number - len(COLORS)
    rgb = colorsys.hls_to_rgb(further * _GOLDEN % 1, _LIGHTNESS[further % len(_LIGHTNESS)], 0.65)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)
