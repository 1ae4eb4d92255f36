"""Hierarchical representations: variational auto-encoders on the Poincaré ball."""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING
from typing import Any as _Any

from horoball import distributions, likelihoods, manifolds, models, nn, objectives
from horoball.distributions import HyperbolicRadius, HypersphericalUniform, RiemannianNormal, WrappedNormal
from horoball.manifolds import PoincareBall
from horoball.models import VAE

if TYPE_CHECKING:
    from horoball.estimator import PoincareVAE

__version__ = _version("horoball")

__all__ = [
    "VAE",
    "HyperbolicRadius",
    "HypersphericalUniform",
    "PoincareBall",
    "PoincareVAE",
    "RiemannianNormal",
    "WrappedNormal",
    "__version__",
    "distributions",
    "likelihoods",
    "manifolds",
    "models",
    "nn",
    "objectives",
]


def __getattr__(name: str) -> _Any:
    """The estimator, imported when it is first asked for: it brings scikit-learn, which not every user needs."""
    if name == "PoincareVAE":
        return _import_module("horoball.estimator").PoincareVAE
    raise AttributeError(f"module 'horoball' has no attribute {name!r}")
