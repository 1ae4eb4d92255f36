"""The process: signals that stop it, memory that runs out, cores it may use, optional dependencies."""

__all__: list[str] = []
