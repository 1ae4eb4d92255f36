"""From the options of a front end to the settings of a fit to a graph."""

from __future__ import annotations

from typing import Any, NamedTuple

from horoball.data.graphs.graph import Graph
from horoball.models.graph.vae import GraphConfig
from horoball.training.config import TrainConfig
from horoball.training.graph.fit import training_for
from horoball.training.graph.run import encoder_for
from horoball.training.request import split_options

__all__ = ["GRAPHS", "graph_fit"]


class GraphDefaults(NamedTuple):
    """What front ends for graphs use instead of the defaults of `GraphConfig`, which are the paper's."""

    encoder: str = "auto"
    edges: str = "fermi_dirac"
    prior_scale: float | str = "learn"
    non_edges: int | str | None = "auto"
    transitive: bool = True


GRAPHS = GraphDefaults()


def graph_fit(graph: Graph, **options: Any) -> tuple[dict[str, Any], TrainConfig]:
    """Fields of `GraphConfig` and the training settings for a graph, as `training.graph_run.train_graph` takes them.

    Args:
        graph: The graph.
        options: Any fields of `GraphConfig` and `TrainConfig`. c and prior_scale may be "learn", encoder may be "auto";
            training options that are None take the default of the encoder.

    Example:
        >>> model, training = graph_fit(Graph.of([(0, 1)]), d=5)
        >>> model["encoder"], model["learn_prior"], training.max_epochs
        ('free', True, 1000)
    """
    defaults = {name: value for name, value in GRAPHS._asdict().items() if name != "non_edges"}
    model, training = split_options(defaults | options, GraphConfig)
    model["directed"] = graph.directed
    model["transitive"] = graph.directed and model["transitive"]
    if model["encoder"] == "auto":
        model["encoder"] = encoder_for(graph)
    kind = {name: model[name] for name in ("directed", "transitive")}
    return model, training_for(model["encoder"], **kind, **training)
