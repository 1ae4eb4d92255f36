"""Layers on the Poincaré ball."""

from horoball.nn.gyroplane import Gyroplane

__all__ = ["Gyroplane"]
