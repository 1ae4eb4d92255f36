"""Layers on the Poincaré ball."""

from horoball.nn.gyroplane import Gyroplane
from horoball.nn.mlp import linear, mlp

__all__ = ["Gyroplane", "linear", "mlp"]
