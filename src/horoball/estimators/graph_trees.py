"""The tree of a graph's nodes, from a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from horoball.estimators.trees import latent_source
from horoball.hierarchy.trees.grow import grow
from horoball.hierarchy.trees.tree import Tree
from horoball.training.graph.run import GraphRun

__all__ = ["graph_tree"]


def graph_tree(run: GraphRun, *, seed: int = 0, **options: Any) -> Tree:
    """The tree of a graph's nodes, from their posteriors; see `PoincareGraphVAE.tree`.

    Example:
        >>> from horoball.data.graphs.graph import Graph
        >>> from horoball.training.graph.fit import FREE_TRAINING
        >>> from horoball.training.graph.run import train_graph
        >>> run = train_graph(Graph.of([(0, 1), (1, 2), (2, 3)]), {"d": 5}, FREE_TRAINING.replace(max_epochs=1))
        >>> graph_tree(run, draws=2).names
        ('0', '1', '2', '3')
    """
    names = None if run.graph.names is None else [str(name) for name in run.graph.names]
    options = {"names": None if options.get("labels") is not None else names} | options
    with torch.no_grad():
        posterior = run.model.posterior(run.graph.features, run.model.propagation(run.graph))
    return grow([latent_source([posterior])], None, rng=np.random.default_rng(seed), **options)
