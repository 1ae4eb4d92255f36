"""Nearest neighbours, ancestors and descendants among the points of a ball, on FAISS."""

from horoball.neighbors.index import Index

__all__ = ["Index"]
