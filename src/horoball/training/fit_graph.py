"""Training of a model on a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horoball.data.graphs import Graph
from horoball.data.pairs import PairSource
from horoball.models.graph_vae import GraphVAE
from horoball.training.config import TrainConfig
from horoball.training.graph_objective import GraphObjective
from horoball.training.loop import run_loop
from horoball.training.progress import Progress
from horoball.training.state import State

__all__ = ["FREE_TRAINING", "PAPER_TRAINING", "fit_graph", "training_for"]

# Kipf & Welling's full-batch training, as far as the paper follows it: a step sees all edges.
PAPER_TRAINING = TrainConfig(max_epochs=800, batch_size=1 << 40, learning_rate=1e-2, validation=0.0, patience=0)
# Nodes with posteriors of their own have far to go, each by itself, and then to come to rest.
FREE_TRAINING = PAPER_TRAINING.replace(max_epochs=1000, learning_rate=0.2, decay=0.05)


def training_for(encoder: str, **changes: Any) -> TrainConfig:
    """Settings that suit an encoder, with some changed; what is None stays as it is.

    Example:
        >>> training_for("gcn", max_epochs=None).max_epochs, training_for("free", max_epochs=5).max_epochs
        (800, 5)
    """
    given = {name: value for name, value in changes.items() if value is not None}
    return (PAPER_TRAINING if encoder == "gcn" else FREE_TRAINING).replace(**given)


def fit_graph(
    model: GraphVAE,
    graph: Graph,
    config: TrainConfig = PAPER_TRAINING,
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
        config: Settings; batch_size counts edges. A graph convolution sees the whole graph at every step.
        folder: Where checkpoints and metrics go; nothing is written without one.
        non_edges: Pairs drawn for every edge of a step, for large graphs; None for all n² pairs, exactly.
        resume: Go on from the folder's last checkpoint, if there is one.
        progress: Who is told how it goes.
        about: JSON to keep in the checkpoints.

    Example:
        >>> from horoball.models import GraphConfig
        >>> graph = Graph.of([(0, 1), (1, 2), (2, 3)])
        >>> model = GraphVAE.from_config(GraphConfig(nodes=4))
        >>> len(fit_graph(model, graph, PAPER_TRAINING.replace(max_epochs=2)).history)
        2
    """
    source, objective = PairSource(graph, non_edges), GraphObjective(model, graph, config)
    return run_loop(objective, source, config, folder, resume=resume, progress=progress, about=about)
