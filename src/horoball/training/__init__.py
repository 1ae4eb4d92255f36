"""Training on Lightning Fabric."""

from horoball.training.config import TrainConfig
from horoball.training.fit import fit
from horoball.training.fit_graph import fit_graph
from horoball.training.loop import run_loop
from horoball.training.subgraph_objective import SubgraphObjective

__all__ = ["SubgraphObjective", "TrainConfig", "fit", "fit_graph", "run_loop"]
