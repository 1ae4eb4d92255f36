"""What a file may be: names, limits by size, damaged contents."""

__all__: list[str] = []
