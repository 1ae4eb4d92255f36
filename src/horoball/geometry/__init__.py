"""The Poincaré ball, and the numerics beneath it: kernels, quadrature, autograd, curvature, random numbers."""

from horoball.geometry import gyrovector
from horoball.geometry.ball import PoincareBall
from horoball.geometry.curvature import Curvature
from horoball.geometry.manifold import MANIFOLDS, Manifold, register_manifold
from horoball.geometry.product import ProductSpace

__all__ = ["MANIFOLDS", "Curvature", "Manifold", "PoincareBall", "ProductSpace", "gyrovector", "register_manifold"]
