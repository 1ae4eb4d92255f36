"""Training on Lightning Fabric."""

from horoball.training.config import TrainConfig
from horoball.training.graph.fit import fit_graph
from horoball.training.loop import run_loop
from horoball.training.table.fit import fit

__all__ = ["TrainConfig", "fit", "fit_graph", "run_loop"]
