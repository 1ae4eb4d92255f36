"""The two normals of the Poincaré ball and the laws they are made of; importing registers their divergences."""

from horoball.distributions import kl as _kl  # noqa: F401
from horoball.distributions.hyperbolic_radius import HyperbolicRadius
from horoball.distributions.hypersphere import HypersphericalUniform
from horoball.distributions.riemannian_normal import RiemannianNormal
from horoball.distributions.wrapped_normal import WrappedNormal

__all__ = ["HyperbolicRadius", "HypersphericalUniform", "RiemannianNormal", "WrappedNormal"]
