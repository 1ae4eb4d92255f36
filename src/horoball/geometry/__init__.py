"""The Poincaré ball, and the numerics beneath it: kernels, quadrature, autograd, curvature, random numbers."""

from horoball.geometry import gyrovector
from horoball.geometry.ball import PoincareBall
from horoball.geometry.curvature import Curvature

__all__ = ["Curvature", "PoincareBall", "gyrovector"]
