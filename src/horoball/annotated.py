"""anndata, which is installed by the extra `cells` and imported where it is needed."""

from __future__ import annotations

from types import ModuleType

__all__ = ["annotated"]


def annotated() -> ModuleType:
    """The module anndata.

    Raises:
        ImportError: It is not installed; the message says how to.

    Example:
        >>> annotated().AnnData.__name__
        'AnnData'
    """
    try:
        import anndata
    except ModuleNotFoundError:
        raise ImportError('Cells need anndata. Install it with: pip install "horoball[cells]".') from None
    return anndata
