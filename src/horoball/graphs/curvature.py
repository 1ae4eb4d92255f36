"""Whether a graph wants curvature: models of several curvatures, compared by their bounds.

Nothing can be held out of a graph without a leak (see `horoball.graphs.evaluation`), and nothing has to be: the
evidence lower bound of the whole graph already weighs what a model explains against what it has to know for it. All
models have the same steps and number of parameters. They are compared by the bound that they were trained for, whose
divergence has the weight β: at another weight, a taxonomy's deep nodes, which curved models place far out where β is
small, would count against them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch

from horoball.graphs.fit import GraphObjective
from horoball.graphs.graph import Graph
from horoball.graphs.pairs import PairSource
from horoball.graphs.run import GraphRun, train_graph
from horoball.tables.table import Order
from horoball.training.config import TrainConfig

CURVATURES = (0.0, 1.0)  # the simplest first
_DRAWS = 20  # of all posteriors, the same for every model


class Tried(NamedTuple):
    """A curvature, and what came of it."""

    c: float  # minus the curvature
    bound: float  # in nats a node, the mean over draws: the evidence lower bound where β is 1
    gain: float  # over the first of the curvatures
    error: float  # standard error of the gain, over draws


def choose_curvature(
    graph: Graph,
    model: dict[str, Any],
    config: TrainConfig,
    curvatures: Iterable[float] = CURVATURES,
    **options: Any,
) -> tuple[GraphRun, list[Tried]]:
    """Fit a graph with each of several curvatures, and take the one with the best bound.

    A curvature is taken in place of the first only if its bound gains more than twice the standard error over draws.

    Args:
        graph: The graph.
        model: Fields of `GraphConfig`; its c does not count.
        config: Training settings.
        curvatures: What is tried, the simplest first.
        options: See `train_graph`.

    Returns:
        The model that was taken, and what came of each.

    Example:
        >>> from horoball.datasets import random_tree
        >>> from horoball.graphs.run import graph_fit
        >>> tree = random_tree(30)
        >>> run, tried = choose_curvature(tree, *graph_fit(tree, max_epochs=30))
        >>> [each.c for each in tried], run.model.ball.c_value in (0.0, 1.0)
        ([0.0, 1.0], True)
    """
    runs = [train_graph(graph, model | {"c": c, "learn_c": False}, config, **options) for c in curvatures]
    bounds = np.array([_bounds(run) for run in runs])
    tried = []
    for run, found in zip(runs, bounds, strict=True):
        gain = found - bounds[0]
        error = float(gain.std(ddof=1) / math.sqrt(len(gain)))
        tried.append(Tried(run.model.ball.c_value, float(found.mean()), float(gain.mean()), error))
    sure = [each.gain - 2 * each.error for each in tried]
    best = int(np.argmax(sure))
    return runs[best if sure[best] > 0 else 0], tried


@torch.no_grad()
def _bounds(run: GraphRun) -> np.ndarray:
    """The bound in nats a node, with the weight of the divergence that the model was trained with, of some draws."""
    objective = GraphObjective(run.model, run.graph, run.record.training)
    source = PairSource(run.graph, run.record.non_edges)
    found = []
    for seed in range(_DRAWS):
        (batch,) = source.batches(Order(len(run.graph.edges), seed))
        generator = torch.Generator().manual_seed(seed)
        found.append(-float(objective(*batch.inputs, generator=generator)[0]) / batch.total)
    return np.array(found)
