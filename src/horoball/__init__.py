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
    from horoball.viewer import View, view, view_run

__version__ = _version("horoball")

__all__ = [
    "VAE",
    "HyperbolicRadius",
    "HypersphericalUniform",
    "PoincareBall",
    "PoincareVAE",
    "RiemannianNormal",
    "View",
    "WrappedNormal",
    "__version__",
    "distributions",
    "likelihoods",
    "manifolds",
    "models",
    "nn",
    "objectives",
    "view",
    "view_run",
]

# Imported when they are first asked for: they bring packages that not every user needs.
_LATER = {
    "PoincareVAE": "horoball.estimator",
    "View": "horoball.viewer",
    "view": "horoball.viewer",
    "view_run": "horoball.viewer",
}


def __getattr__(name: str) -> _Any:
    """What is imported when it is first asked for."""
    if name in _LATER:
        return getattr(_import_module(_LATER[name]), name)
    raise AttributeError(f"module 'horoball' has no attribute {name!r}")
