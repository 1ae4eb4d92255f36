"""Numerical building blocks: stable kernels, quadrature, autograd helpers, random numbers."""

__all__: list[str] = []
