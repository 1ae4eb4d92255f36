"""Nearest neighbors, ancestors and descendants among the points of a ball, on FAISS; vectors for other engines."""

from horoball.neighbors.index import Index
from horoball.neighbors.lift import query_vectors, vectors

__all__ = ["Index", "query_vectors", "vectors"]
