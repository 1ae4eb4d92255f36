"""Training on Lightning Fabric."""

from horoball.training.config import TrainConfig
from horoball.training.fit import fit
from horoball.training.fit_graph import fit_graph

__all__ = ["TrainConfig", "fit", "fit_graph"]
