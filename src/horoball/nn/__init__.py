"""Layers on the Poincaré ball."""

from horoball.nn.gyroplane import Gyroplane
from horoball.nn.mlp import linear, mlp
from horoball.nn.product import ProductGyroplane

__all__ = ["Gyroplane", "ProductGyroplane", "linear", "mlp"]
