"""FAISS, which is installed by the extra `search` and imported where it is needed."""

from __future__ import annotations

from types import ModuleType

__all__ = ["library"]


def library() -> ModuleType:
    """The module of FAISS.

    Raises:
        ImportError: It is not installed; the message says how to.

    Example:
        >>> library().IndexFlatIP(3).d
        3
    """
    try:
        import faiss
    except ModuleNotFoundError:
        raise ImportError('Search needs FAISS. Install it with: pip install "horoball[search]".') from None
    return faiss
