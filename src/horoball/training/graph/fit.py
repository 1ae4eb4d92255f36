"""Training of a model on a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horoball.data.graphs.graph import Graph
from horoball.data.graphs.pairs import PairSource
from horoball.models.graph.vae import GraphVAE
from horoball.training.config import TrainConfig
from horoball.training.graph.objective import GraphObjective
from horoball.training.loop import run_loop
from horoball.training.progress import Progress
from horoball.training.record import FitRecord
from horoball.training.state import State

__all__ = ["DIRECTED_TRAINING", "FREE_TRAINING", "PAPER_TRAINING", "TAXONOMY_TRAINING", "fit_graph", "training_for"]

# Kipf & Welling's full-batch training, as far as the paper follows it: a step sees all edges.
PAPER_TRAINING = TrainConfig(max_epochs=800, batch_size=1 << 40, learning_rate=1e-2, validation=0.0, patience=0)
# Nodes with posteriors of their own have far to go, each by itself, and then to come to rest.
FREE_TRAINING = PAPER_TRAINING.replace(max_epochs=1000, learning_rate=0.2, decay=0.05)
# Parents and ancestors are asked for by rank, which the pull of the prior to the origin blurs.
DIRECTED_TRAINING = FREE_TRAINING.replace(beta=0.1)
# A taxonomy starts from nested cones, which are nearly right.
TAXONOMY_TRAINING = DIRECTED_TRAINING.replace(max_epochs=300, learning_rate=0.02, decay=0.1)


def training_for(encoder: str, *, directed: bool = False, transitive: bool = False, **changes: Any) -> TrainConfig:
    """Settings that suit an encoder and a kind of edges, with some changed; what is None stays as it is.

    Example:
        >>> training_for("gcn", max_epochs=None).max_epochs, training_for("free", max_epochs=5).max_epochs
        (800, 5)
    """
    given = {name: value for name, value in changes.items() if value is not None}
    free = TAXONOMY_TRAINING if transitive else DIRECTED_TRAINING if directed else FREE_TRAINING
    return (PAPER_TRAINING if encoder == "gcn" else free).replace(**given)


def fit_graph(
    model: GraphVAE,
    graph: Graph,
    config: TrainConfig = PAPER_TRAINING,
    folder: Path | None = None,
    *,
    non_edges: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    record: FitRecord | None = None,
) -> State:
    """Train a model on a graph.

    Args:
        model: The model, trained in place.
        graph: The graph, which is both what the encoder sees and what is to be predicted.
        config: Settings; batch_size counts edges. A graph convolution sees the whole graph at every step. Whatever the
            device, the model is on the CPU at the end.
        folder: Folder for checkpoints and metrics; None writes nothing.
        non_edges: Pairs drawn for every edge of a step, for large graphs; None for all n² pairs, exactly.
        resume: Resume from the folder's last checkpoint, if there is one.
        progress: Progress reporter.
        record: Record of the fit, stored in the checkpoints and checked on resume.

    Example:
        >>> from horoball.models import GraphConfig
        >>> graph = Graph.of([(0, 1), (1, 2), (2, 3)])
        >>> model = GraphVAE.from_config(GraphConfig(nodes=4))
        >>> len(fit_graph(model, graph, PAPER_TRAINING.replace(max_epochs=2)).history)
        2
    """
    source, objective = PairSource(graph, non_edges), GraphObjective(model, graph, config)
    state = run_loop(objective, source, config, folder, resume=resume, progress=progress, record=record)
    model.cpu()  # where its graph is
    return state
