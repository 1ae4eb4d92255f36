"""Readers: any source of rows or edges, by its type or file name extension."""

__all__: list[str] = []
