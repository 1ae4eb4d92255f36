"""PyTorch Geometric, which is installed by the extra `graph` and imported where it is needed."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

__all__ = ["geometric"]


def geometric(module: str) -> ModuleType:
    """A module of PyTorch Geometric.

    Args:
        module: Its name below `torch_geometric`.

    Raises:
        ImportError: It is not installed; the message says how to.

    Example:
        >>> geometric("nn").GCNConv.__name__
        'GCNConv'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch.jit.script, which the library calls when it is imported
        try:
            import torch_geometric  # noqa: F401  so that what is missing is the library, not a module of it
        except ModuleNotFoundError:
            raise ImportError('This needs PyTorch Geometric. Install it with: pip install "horoball[graph]".') from None
        return importlib.import_module(f"torch_geometric.{module}")
