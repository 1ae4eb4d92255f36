"""Layers on the Poincaré ball."""

from horoball.nn.gyroplane import Gyroplane
from horoball.nn.mlp import mlp

__all__ = ["Gyroplane", "mlp"]
