"""Cells: AnnData and .h5ad files as tables of counts."""

__all__: list[str] = []
