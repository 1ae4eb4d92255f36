"""PoincareGraphVAE: the model of a graph as an estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from horoball.data.read_graph import read_graph
from horoball.training.choices import curvature_fields, prior_fields
from horoball.training.fit_graph import training_for
from horoball.training.graph_run import GraphRun, encoder_for, train_graph
from horoball.training.progress import Bar, Silent
from horoball.training.stored import expect_whole

__all__ = ["PoincareGraphVAE"]


class PoincareGraphVAE(BaseEstimator):
    """A variational graph auto-encoder in the Poincaré ball: from edges to a point for every node.

    Args:
        n_components: Dimension of the ball.
        c: Minus the curvature; 0 for the Euclidean model, "learn" to learn it from 1.
        encoder: "free", a posterior for each node by itself; "gcn", the paper's, two graph convolutions; "auto" is the
            latter for nodes with features.
        edges: Law of an edge: "fermi_dirac", with radius and temperature learnt, or "tanh", the paper's.
        posterior: "wrapped" or "riemannian".
        hidden: Size of the hidden layer of graph convolutions.
        prior_scale: Standard deviation σ₀ of the prior, or "learn" to learn it from 1.
        beta: Weight of the divergence.
        non_edges: Pairs drawn for every edge of a step; None for all there are; "auto" decides by the graph's size.
        max_epochs: Passes over the edges; None is 1000 for "free", 800 for "gcn".
        batch_size: Edges of a step; None is all of them.
        learning_rate: Of Adam; None is 0.2, falling to 0.01, for "free", and 0.01 for "gcn".
        random_state: Seed; an int gives the same model every time.
        verbose: 1 shows a progress bar.

    Attributes:
        embedding_: Ball coordinates of the nodes, float64, shape (nodes, n_components).
        nodes_: The nodes in the order of the embedding: names, or numbers.
        graph_: The graph.
        run_: The model with its graph; `run_.history` has the metrics of every epoch.
        c_: Minus the curvature of the model.

    Example:
        >>> model = PoincareGraphVAE(max_epochs=20, random_state=0)
        >>> model.fit_transform([("animal", "dog"), ("animal", "cat"), ("cat", "lion")]).shape
        (4, 2)
        >>> model.nodes_.tolist(), model.predict_proba([("cat", "dog")]).shape
        (['animal', 'cat', 'dog', 'lion'], (1,))
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        c: float | str = 1.0,
        encoder: str = "auto",
        edges: str = "fermi_dirac",
        posterior: str = "wrapped",
        hidden: int = 32,
        prior_scale: float | str = "learn",
        beta: float = 1.0,
        non_edges: int | str | None = "auto",
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.c = c
        self.encoder = encoder
        self.edges = edges
        self.posterior = posterior
        self.hidden = hidden
        self.prior_scale = prior_scale
        self.beta = beta
        self.non_edges = non_edges
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, features: Any = None) -> Self:
        """Fit the model to a graph.

        Args:
            X: The graph, anything that `data.read_graph` takes: a path, pairs of ids, networkx, scipy, PyG.
            y: Not used.
            features: Numbers known of the nodes, shape (nodes, k).

        Example:
            >>> PoincareGraphVAE(max_epochs=1).fit([(0, 1), (1, 2)]).graph_
            Graph(nodes=3, edges=2)
        """
        graph = read_graph(X, features)
        encoder = encoder_for(graph) if self.encoder == "auto" else self.encoder
        config = training_for(
            encoder,
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            beta=self.beta,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )
        model = {
            "d": self.n_components,
            "encoder": encoder,
            "edges": self.edges,
            "posterior": self.posterior,
            "hidden": self.hidden,
            **prior_fields(self.prior_scale),
            **curvature_fields(self.c),
        }
        progress = Bar() if self.verbose else Silent()
        self._take(train_graph(graph, model, config, non_edges=self.non_edges, progress=progress))
        return self

    def fit_transform(self, X: Any, y: Any = None, *, features: Any = None) -> np.ndarray:
        """Fit the model, and return the nodes' ball coordinates.

        Example:
            >>> PoincareGraphVAE(max_epochs=1).fit_transform([(0, 1), (1, 2)]).shape
            (3, 2)
        """
        return self.fit(X, features=features).embedding_

    def predict_proba(self, pairs: Any) -> np.ndarray:
        """Probability of an edge between pairs of nodes, by name or number, at the nodes' posterior means.

        Example:
            >>> PoincareGraphVAE(max_epochs=1).fit([(0, 1), (1, 2)]).predict_proba([(0, 2)]).shape
            (1,)
        """
        check_is_fitted(self, "run_")
        asked = np.asarray(pairs)
        if asked.ndim != 2 or asked.shape[1] != 2:
            raise ValueError(f"predict_proba expects pairs of nodes, shape (m, 2), got {asked.shape}.")
        order = np.argsort(self.nodes_, kind="stable")
        if self.graph_.names is not None:
            asked = asked.astype(str)
        elif asked.dtype.kind not in "iu":
            raise ValueError(f"The nodes are the numbers 0 to {len(order) - 1}, got pairs of {asked.dtype}.")
        place = np.searchsorted(self.nodes_, asked, sorter=order).clip(max=len(order) - 1)
        number = order[place]
        unknown = self.nodes_[number] != asked
        if unknown.any():
            raise ValueError(f"The graph has no node {asked[unknown][0].item()!r}. Ask for those in nodes_.")
        return self.run_.model.edge_probability(self.run_.points(), torch.from_numpy(number)).numpy()

    def save(self, folder: str | Path) -> None:
        """Write the model and its graph to a folder, as safetensors and JSON."""
        check_is_fitted(self, "run_")
        self.run_.save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model back from a folder that `save` or `horoball graph fit` wrote."""
        run = GraphRun.load(Path(folder))
        with expect_whole(Path(folder), "does not hold a whole estimator"):
            config = run.about["model"]
            training = run.about["training"]
            kept = {name: config[name] for name in ("encoder", "edges", "posterior", "hidden")}
            kept |= {name: training[name] for name in ("beta", "max_epochs", "batch_size", "learning_rate")}
            kept["non_edges"] = run.about["non_edges"]
            kept["prior_scale"] = "learn" if config["learn_prior"] else config["prior_scale"]
            estimator = cls(config["d"], c="learn" if config["learn_c"] else config["c"], **kept)
            estimator._take(run)
        return estimator

    def _take(self, run: GraphRun) -> None:
        self.run_, self.graph_ = run, run.graph
        self.nodes_ = np.arange(run.graph.nodes) if run.graph.names is None else run.graph.names
        self.embedding_ = run.embed().numpy()
        self.c_ = run.model.ball.c_value
