"""Layers on the Poincaré ball."""

from horoball.nn.gyroplane import Gyroplane
from horoball.nn.linear import linear
from horoball.nn.mlp import mlp

__all__ = ["Gyroplane", "linear", "mlp"]
