"""The Poincaré ball."""

from horoball.manifolds import gyrovector
from horoball.manifolds.poincare_ball import PoincareBall

__all__ = ["PoincareBall", "gyrovector"]
