"""A curvature that fits: the c of the hyperbolic space that is as far from a tree as the data."""

from __future__ import annotations

import math

from horoball.hierarchy.delta import Delta

__all__ = ["suggest_c"]


def suggest_c(measured: Delta, *, median: float = 2.0) -> float:
    """The c at which hyperbolic space has the δ of the data, c = (ln 2/δ)².

    ln 2/√c is δ of hyperbolic space of curvature −c in the four-point sense used here. (ln(1 + √2)/√c, often quoted, is
    for slim triangles.) δ has a unit, so c has one: it is meant for an embedding whose median distance is `median`.
    Data that fill a cloud have a large δ and get a c near 0, a tree gets infinity.

    It is a start for a search over a factor of ten, no more. δ is one extreme quadruple, so noise makes it larger and
    c smaller; a sample makes it smaller and c larger.

    Args:
        measured: δ of the data.
        median: The median distance between points of the embedding, in the ball's units. A standard Riemannian normal
            in the plane with c = 1 has about 2.

    Example:
        >>> from horoball.hierarchy import Space, delta
        >>> hexagon = Space.of_matrix([[min(abs(i - j), 6 - abs(i - j)) for j in range(6)] for i in range(6)])
        >>> print(f"{suggest_c(delta(hexagon)):.2f}")
        0.48
    """
    if not median > 0:
        raise ValueError(f"suggest_c expects a median distance above 0, got {median}.")
    if measured.delta == 0:
        return math.inf
    return (math.log(2) * measured.median / (measured.delta * median)) ** 2
