"""Distributions of counts."""

__all__: list[str] = []
