"""Mixed tables: what their columns are, and how their values become numbers and come back."""

__all__: list[str] = []
