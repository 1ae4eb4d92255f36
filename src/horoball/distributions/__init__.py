"""Normal distributions on the Poincaré ball and their parts; importing registers their KL divergences."""

from horoball.distributions import kl as _kl  # noqa: F401
from horoball.distributions.mixture import BallMixture
from horoball.distributions.normal import POSTERIORS, BallNormal, register_posterior
from horoball.distributions.product import ProductNormal
from horoball.distributions.radius import HyperbolicRadius
from horoball.distributions.riemannian_normal import RiemannianNormal
from horoball.distributions.sphere import HypersphericalUniform
from horoball.distributions.wrapped_normal import WrappedNormal

__all__ = [
    "POSTERIORS",
    "BallMixture",
    "BallNormal",
    "HyperbolicRadius",
    "HypersphericalUniform",
    "ProductNormal",
    "RiemannianNormal",
    "WrappedNormal",
    "register_posterior",
]
