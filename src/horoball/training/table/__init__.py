"""Fits of tables: from rows to a run, with its objective and landmarks."""

__all__: list[str] = []
