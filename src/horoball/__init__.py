"""Hierarchical representations: variational auto-encoders on the Poincaré ball."""

from importlib.metadata import version as _version

from horoball import distributions, manifolds, nn
from horoball.distributions import HyperbolicRadius, HypersphericalUniform, RiemannianNormal, WrappedNormal
from horoball.manifolds import PoincareBall

__version__ = _version("horoball")

__all__ = [
    "HyperbolicRadius",
    "HypersphericalUniform",
    "PoincareBall",
    "RiemannianNormal",
    "WrappedNormal",
    "__version__",
    "distributions",
    "manifolds",
    "nn",
]
