"""The report: is a table hierarchical, and does the hyperbolic model fit it better than its Euclidean baseline?"""

__all__: list[str] = []
