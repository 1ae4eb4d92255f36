"""How a map is made: distances in the data, a layout that keeps them, and the encoder that learns it."""

__all__: list[str] = []
