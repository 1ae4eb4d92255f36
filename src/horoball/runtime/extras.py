"""Optional dependencies, imported where they are used: the error says which extra to install."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import Any

__all__ = [
    "require_anndata",
    "require_faiss",
    "require_geometric",
    "require_geoopt",
    "require_networkx",
    "require_openpyxl",
    "require_pyplot",
]


def require_anndata() -> Any:
    """The module anndata, from the extra `cells`.

    Raises:
        ImportError: It is not installed; the message says how to install it.

    Example:
        >>> require_anndata().AnnData.__name__
        'AnnData'
    """
    return _required("anndata", "Cells need anndata", "cells")


def require_faiss() -> Any:
    """The module faiss, from the extra `search`.

    Example:
        >>> require_faiss().IndexFlatIP(3).d
        3
    """
    return _required("faiss", "Search needs FAISS", "search")


def require_geoopt() -> Any:
    """The module geoopt, from the extra `benchmarks`.

    Example:
        >>> require_geoopt().Manifold.__name__
        'Manifold'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit.script, at import
        return _required("geoopt", "GeooptBall needs geoopt", "benchmarks")


def require_openpyxl() -> Any:
    """The module openpyxl, from the extra `excel`.

    Example:
        >>> callable(require_openpyxl)
        True
    """
    return _required("openpyxl", "Spreadsheets (.xlsx) need openpyxl", "excel")


def require_pyplot() -> Any:
    """The module matplotlib.pyplot, from the extra `plot`.

    Example:
        >>> require_pyplot().__name__
        'matplotlib.pyplot'
    """
    return _required("matplotlib.pyplot", "Plots need matplotlib", "plot")


def require_networkx() -> Any:
    """The module networkx, which comes with the extra `graph`.

    Example:
        >>> require_networkx().DiGraph().number_of_nodes()
        0
    """
    return _required("networkx", "A networkx graph needs networkx", "graph")


def require_geometric(module: str) -> Any:
    """A module of PyTorch Geometric, from the extra `graph`.

    Args:
        module: Its name below `torch_geometric`.

    Example:
        >>> require_geometric("nn").GCNConv.__name__
        'GCNConv'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch_geometric calls the deprecated torch.jit.script when it is imported
        _required("torch_geometric", "This needs PyTorch Geometric", "graph")
        return importlib.import_module(f"torch_geometric.{module}")


def _required(module: str, need: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ImportError(f'{need}. Install it with: pip install "horoball[{extra}]".') from None
