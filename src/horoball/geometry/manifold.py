"""What a model asks of a space, whether it comes from this package or from outside.

Points are carried in one chart: a point is its tangent vector at an origin, in units of length, so that it has d plain
numbers and |z| is its distance from the origin. Nothing else is assumed of a manifold that is no `PoincareBall`: what
is true of the ball alone, such as the entropy of its normals, is refused elsewhere rather than computed.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from horoball.plugins import Registry, lacking


@runtime_checkable
class Manifold(Protocol):
    """A space of points of shape (*batch, d). One that learns something of its own is an `nn.Module` too.

    Example:
        >>> from horoball import PoincareBall
        >>> isinstance(PoincareBall(1.0), Manifold)
        True
    """

    @property
    def injectivity_radius(self) -> float:
        """The length up to which `exp` takes different tangent vectors to different points; ∞ for a ball.

        The wrapped normal needs ∞: elsewhere its density would be a sum over all vectors that lead to a point.
        """

    def dist(self, z: Tensor, y: Tensor) -> Tensor:
        """Distances, shape (*batch)."""

    def exp(self, z: Tensor, v: Tensor) -> Tensor:
        """The point reached from z along a tangent vector v at z, given in an orthonormal frame there."""

    def log(self, z: Tensor, y: Tensor) -> Tensor:
        """The shortest tangent vector at z that leads to y, in the same frame."""

    def log_volume(self, v: Tensor) -> Tensor:
        """Log of the volume element of `exp` at v, shape (*batch). It is the same at every point."""


MANIFOLDS: Registry[type] = Registry("manifold")
register_manifold = MANIFOLDS.register  # a class decorator: models find the manifold under its `name`


def check_manifold(space: Any) -> None:
    """Refuse what is no manifold, and say what it lacks.

    Example:
        >>> check_manifold(object())
        Traceback (most recent call last):
        ...
        TypeError: A manifold (horoball.geometry.Manifold) needs dist, exp, injectivity_radius, log, log_volume; ...
    """
    missing = lacking(space, Manifold)
    if missing:
        raise TypeError(
            f"A manifold (horoball.geometry.Manifold) needs {', '.join(missing)}; {type(space).__name__} has none of "
            "that name. See the page on extending."
        )


def check_bijective(space: Any, what: str) -> None:
    """Refuse a manifold on which different tangent vectors lead to one point.

    Example:
        >>> from horoball import PoincareBall
        >>> check_bijective(PoincareBall(1.0), "WrappedNormal")
    """
    check_manifold(space)
    if space.injectivity_radius != math.inf:
        raise ValueError(
            f"{what} is defined where exp is one to one, and {type(space).__name__} has an injectivity radius of "
            f"{space.injectivity_radius:g}. Register a posterior family of its own; see the page on extending."
        )


def held(space: Any) -> Any:
    """The space as a module holds it beside others that hold it too; see `CurvedSpace.view`.

    Example:
        >>> from horoball import PoincareBall
        >>> held(PoincareBall(1.0))
        PoincareBall(c=1)
    """
    view = getattr(space, "view", None)
    return space if view is None else view()


def curvatures(space: Any) -> dict[str, float]:
    """Minus the curvatures of a space by name, as the metrics of a fit have them; none if it says none.

    Example:
        >>> from horoball import PoincareBall
        >>> curvatures(PoincareBall(0.5)), curvatures(object())
        ({'c': 0.5}, {})
    """
    factors = getattr(space, "factors", None)
    if factors is not None:
        return {f"c{i}": float(factor.c_value) for i, factor in enumerate(factors)}
    c = getattr(space, "c_value", None)
    return {} if c is None else {"c": float(c)}
