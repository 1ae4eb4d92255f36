"""Training on Lightning Fabric."""

from horoball.training.config import TrainConfig
from horoball.training.fit import fit

__all__ = ["TrainConfig", "fit"]
