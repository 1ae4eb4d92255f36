"""The Poincaré ball."""

from horoball.manifolds import gyrovector
from horoball.manifolds.poincare_ball import PoincareBall
from horoball.numerics.curvature import Curvature

__all__ = ["Curvature", "PoincareBall", "gyrovector"]
