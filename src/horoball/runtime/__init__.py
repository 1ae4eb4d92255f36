"""The process: signals that stop it, memory that runs out, optional dependencies."""

__all__: list[str] = []
