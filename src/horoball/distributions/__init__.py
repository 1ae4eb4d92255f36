"""The two normals of the Poincaré ball and the laws they are made of."""

from horoball.distributions.hyperbolic_radius import HyperbolicRadius
from horoball.distributions.hypersphere import HypersphericalUniform
from horoball.distributions.riemannian_normal import RiemannianNormal
from horoball.distributions.wrapped_normal import WrappedNormal

__all__ = ["HyperbolicRadius", "HypersphericalUniform", "RiemannianNormal", "WrappedNormal"]
