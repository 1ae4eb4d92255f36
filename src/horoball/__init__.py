"""Hierarchical representations: variational auto-encoders on the Poincaré ball."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from horoball import _moved

if TYPE_CHECKING:
    from horoball import (
        cells,
        datasets,
        distributions,
        geometry,
        graphs,
        hierarchy,
        likelihoods,
        neighbors,
        nn,
        plotting,
        tables,
        training,
        trees,
        vae,
    )
    from horoball.distributions import HyperbolicRadius, HypersphericalUniform, RiemannianNormal, WrappedNormal
    from horoball.geometry import PoincareBall
    from horoball.graphs import GraphVAE, PoincareGraphVAE
    from horoball.report.check import check, groups, tree
    from horoball.training.hub import load
    from horoball.vae import VAE, PoincareVAE
    from horoball.viewer import View, view, view_run

    __version__: str

__all__ = [
    "VAE",
    "GraphVAE",
    "HyperbolicRadius",
    "HypersphericalUniform",
    "PoincareBall",
    "PoincareGraphVAE",
    "PoincareVAE",
    "RiemannianNormal",
    "View",
    "WrappedNormal",
    "__version__",
    "cells",
    "check",
    "datasets",
    "distributions",
    "geometry",
    "graphs",
    "groups",
    "hierarchy",
    "likelihoods",
    "load",
    "neighbors",
    "nn",
    "plotting",
    "tables",
    "training",
    "tree",
    "trees",
    "vae",
    "view",
    "view_run",
]

# Everything is imported when it is first asked for: torch takes seconds, which `horoball --help` need not wait for.
_HOME = {
    "GraphVAE": "graphs",
    "HyperbolicRadius": "distributions",
    "HypersphericalUniform": "distributions",
    "PoincareBall": "geometry",
    "PoincareGraphVAE": "graphs",
    "PoincareVAE": "vae",
    "RiemannianNormal": "distributions",
    "VAE": "vae",
    "View": "viewer",
    "WrappedNormal": "distributions",
    "check": "report.check",
    "groups": "report.check",
    "load": "training.hub",
    "tree": "report.check",
    "view": "viewer",
    "view_run": "viewer",
}

_moved.find_old_paths()


def __getattr__(name: str) -> _Any:
    """Import what is asked for."""
    if name == "__version__":
        value: _Any = _import_module("importlib.metadata").version("horoball")
    elif name in _HOME:
        value = getattr(_import_module(f"horoball.{_HOME[name]}"), name)
    elif name in __all__ or f"horoball.{name}" in _moved.MODULES:
        value = _import_module(f"horoball.{name}")
    else:
        raise AttributeError(f"module 'horoball' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What there is, imported or not."""
    return sorted({*globals(), *__all__})
