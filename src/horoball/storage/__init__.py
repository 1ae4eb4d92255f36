"""Files: written whole, locked, named; checkpoints and settings."""

__all__: list[str] = []
