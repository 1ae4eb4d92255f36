"""Training of a model on a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horoball.data.graphs import Graph
from horoball.data.pairs import PairSource
from horoball.models.graph_vae import GraphVAE
from horoball.training.config import TrainConfig
from horoball.training.graph_objective import GraphObjective
from horoball.training.loop import State, run_loop
from horoball.training.progress import Progress

__all__ = ["GRAPH_TRAINING", "fit_graph"]

# Kipf & Welling's full-batch training, as far as the paper follows it.
GRAPH_TRAINING = TrainConfig(max_epochs=800, batch_size=1 << 40, learning_rate=1e-2, validation=0.0, patience=0)


def fit_graph(
    model: GraphVAE,
    graph: Graph,
    config: TrainConfig = GRAPH_TRAINING,
    folder: Path | None = None,
    *,
    non_edges: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    about: dict[str, Any] | None = None,
) -> State:
    """Train a model on a graph.

    Args:
        model: The model, trained in place.
        graph: The graph, which is both what the encoder sees and what is to be predicted.
        config: Settings; batch_size counts edges, and a step propagates through the whole graph.
        folder: Where checkpoints and metrics go; nothing is written without one.
        non_edges: Pairs drawn for every edge of a step, for large graphs; None for all n² pairs, exactly.
        resume: Go on from the folder's last checkpoint, if there is one.
        progress: Who is told how it goes.
        about: JSON to keep in the checkpoints.

    Example:
        >>> from horoball.models import GraphConfig
        >>> graph = Graph.of([(0, 1), (1, 2), (2, 3)])
        >>> model = GraphVAE.from_config(GraphConfig(nodes=4))
        >>> len(fit_graph(model, graph, GRAPH_TRAINING.replace(max_epochs=2)).history)
        2
    """
    source, objective = PairSource(graph, non_edges), GraphObjective(model, graph, config)
    return run_loop(objective, source, config, folder, resume=resume, progress=progress, about=about)
