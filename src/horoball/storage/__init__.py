"""Files of a folder: written whole or not at all, never through a link, and checked when they are read."""

__all__: list[str] = []
