"""Vectors, one in each row, as embedding models and vector databases give them."""

__all__: list[str] = []
