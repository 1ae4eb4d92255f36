"""Tables: rows of numbers in memory or streamed, with labels, ids and covariates."""

__all__: list[str] = []
