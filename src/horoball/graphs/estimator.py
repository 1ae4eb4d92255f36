"""PoincareGraphVAE: the model of a graph as an estimator, and the tree of its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from horoball.geometry.random import seed_from
from horoball.graphs.curvature import CURVATURES, choose_curvature
from horoball.graphs.graph import transitive_reduction
from horoball.graphs.lineage import Lineage, Relatives, add_nodes, remove_nodes
from horoball.graphs.model import GraphConfig
from horoball.graphs.predictive import EdgeProbability
from horoball.graphs.read import read_graph
from horoball.graphs.run import GRAPHS, GraphRun, graph_fit, train_graph
from horoball.options import TreeOptions
from horoball.storage.settings import called
from horoball.storage.stores import located
from horoball.training.config import TrainConfig
from horoball.training.hooks import named_hooks
from horoball.training.hub import OnHub
from horoball.training.progress import watched
from horoball.trees.grow import grow
from horoball.trees.tree import Tree
from horoball.vae.options import stored_options
from horoball.vae.rows import ShownInNotebooks
from horoball.vae.tree import latent_source

if TYPE_CHECKING:
    from horoball.viewer.disc import View

_MOST_LEAVES = 20_000  # nodes are what a graph's tree is of: 1.6 GB of distances


def graph_tree(run: GraphRun, *, seed: int = 0, **options: Unpack[TreeOptions]) -> Tree:
    """The tree of a graph's nodes, from their posteriors; see `PoincareGraphVAE.tree`."""
    names = None if run.graph.names is None else [str(name) for name in run.graph.names]
    if options.get("labels") is None:
        options.setdefault("names", names)
    options.setdefault("max_leaves", _MOST_LEAVES)
    with torch.no_grad():
        posterior = run.model.posterior(run.graph.features, run.model.propagation(run.graph))
    return grow([latent_source([posterior])], None, np.random.default_rng(seed), **options)


class PoincareGraphVAE(ShownInNotebooks, BaseEstimator, OnHub):
    """A variational graph auto-encoder on the Poincaré ball: from edges to coordinates of every node.

    Args:
        n_components: Dimension of the ball. 2 or 3 draw a map; more dimensions hold more of the graph. Useful: 2 to 20.
        c: Minus the curvature of the ball. Larger values leave more room for branches near the rim; 0 is the Euclidean
            model. Useful: 0.1 to 5, "learn" to learn it, starting at 1, or "auto" for 0 or 1, whichever has the better
            bound, with `beta` as in training: both are fitted, and `tried_` has what each has for it.
        encoder: "free" learns a posterior for each node; "gcn", the paper's, computes it by two graph convolutions;
            "auto" is "gcn" for nodes with features and "free" otherwise.
        edges: Edge probability as a function of distance: "fermi_dirac", with learned radius and temperature, or
            "tanh", the paper's.
        posterior: Posterior family, "wrapped" or "riemannian".
        hidden: Size of the hidden layer of "gcn". Larger layers fit finer structure and take longer. Useful: 16 to 128.
        prior_scale: Standard deviation of the prior. Larger values spread the nodes toward the rim. Useful: 0.5 to 3,
            or "learn" to learn it, starting at 1.
        directed: Whether an edge goes from a child to its parent. Directed models have `parents`, `ancestors`,
            `descendants` and `is_a`, and their general nodes lie near the origin.
        transitive: Whether the parents of a directed model's parents are ancestors, as in a taxonomy: it is then fitted
            to all pairs of a node and an ancestor, and the graph must have no cycles. False fits the edges as they are.
        beta: Weight of the KL divergence. Larger values pull the nodes to the prior and blur ranks; 1 is the evidence
            lower bound. None is 0.001 for a taxonomy, 0.1 for other directed models, 1 otherwise. Useful: 0.001 to 10.
        non_edges: Random pairs per edge of a step. More pairs give a less noisy loss and slower steps; None sums over
            all pairs, "auto" does so up to 3000 nodes and draws 10 per edge of larger graphs. Useful: 5 to 50.
        max_epochs: Number of epochs; None is 1000 for "free", 300 for a taxonomy, and 800 for "gcn". Useful: 100
            to 2000.
        batch_size: Edges per step; None is all edges. Smaller batches need less memory and take more steps.
        learning_rate: Learning rate of Adam; None is 0.2, falling to 0.01, for "free", a tenth for a taxonomy, and
            0.01 for "gcn". Larger values train faster, until training diverges. Useful: 1e-3 to 0.5.
        optimizer: Optimizer: a name of `torch.optim` with settings, such as 'SGD:{"momentum": 0.9}', a class, or a
            function of parameter groups. Its learning rate is `learning_rate`.
        scheduler: Learning rates of the epochs after the first, in the same way: a name of `torch.optim.lr_scheduler`,
            a class, or a function of the optimizer. "auto" is the schedule that suits the model.
        clip_norm: Norm that all gradients together are brought down to. Smaller values tame steps that are too large;
            0 leaves them as they are. Useful: 0.5 to 10.
        callbacks: Objects with methods such as `on_train_epoch_end`, or one; see `horoball.training.hooks`.
        loggers: Loggers of Lightning, or one, that get the metrics of every epoch.
        device: Where the model is trained: "cpu", "cuda", "mps", or "auto" for a GPU if there is one.
        random_state: Seed. The same int gives the same model, and the one of `horoball graph fit --seed` for the same
            edges; None gives another model each time; a NumPy generator draws a seed.
        verbose: 1 shows progress: a bar in a terminal or notebook, otherwise a line every 30 seconds.

    Attributes:
        embedding_: Ball coordinates of the nodes, float64, shape (nodes, n_components).
        nodes_: The nodes in the order of the embedding: names, or numbers.
        graph_: The graph.
        run_: The model with its graph and the record of the fit; `run_.history` has the metrics of every epoch.
        c_: Minus the curvature of the model.
        tried_: With c="auto", the bound of each curvature; see `horoball.graphs.curvature`.

    Example:
        >>> model = PoincareGraphVAE(max_epochs=20, random_state=0)
        >>> model.fit_transform([("animal", "dog"), ("animal", "cat"), ("cat", "lion")]).shape
        (4, 2)
        >>> model.nodes_.tolist(), model.predict_proba([("cat", "dog")]).shape
        (['animal', 'cat', 'dog', 'lion'], (1,))
    """

    def __init__(
        self,
        n_components: int = GraphConfig.d,
        *,
        c: float | str = GraphConfig.c,
        encoder: str = GRAPHS.encoder,
        edges: str = GRAPHS.edges,
        posterior: str = GraphConfig.posterior,
        hidden: int = GraphConfig.hidden,
        prior_scale: float | str = GRAPHS.prior_scale,
        directed: bool = GraphConfig.directed,
        transitive: bool = GRAPHS.transitive,
        beta: float | None = None,
        non_edges: int | str | None = GRAPHS.non_edges,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        optimizer: Any = TrainConfig.optimizer,
        scheduler: Any = TrainConfig.scheduler,
        clip_norm: float = TrainConfig.clip_norm,
        callbacks: Any = None,
        loggers: Any = None,
        device: str = TrainConfig.device,
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
        self.directed = directed
        self.transitive = transitive
        self.beta = beta
        self.non_edges = non_edges
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.clip_norm = clip_norm
        self.callbacks = callbacks
        self.loggers = loggers
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, features: Any = None) -> Self:
        """Fit the model to a graph.

        Args:
            X: The graph, anything that `graphs.read_graph` takes: a path, pairs of ids, networkx, scipy, PyG.
            y: Not used.
            features: Numbers known of the nodes, shape (nodes, k).
        """
        graph = read_graph(X, features, directed=self.directed)
        hooks, steps = named_hooks(self.callbacks, self.loggers, self.optimizer, self.scheduler)
        with called(d="n_components"), watched(self.verbose) as progress:
            model, config = graph_fit(
                graph,
                d=self.n_components,
                c=CURVATURES[0] if self.c == "auto" else self.c,
                encoder=self.encoder,
                edges=self.edges,
                posterior=self.posterior,
                hidden=self.hidden,
                prior_scale=self.prior_scale,
                transitive=self.transitive,
                beta=self.beta,
                max_epochs=self.max_epochs,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                optimizer=steps["optimizer"],
                scheduler=steps["scheduler"],
                clip_norm=self.clip_norm,
                device=self.device,
                seed=seed_from(self.random_state),
            )
            options: dict[str, Any] = {"non_edges": self.non_edges, "progress": progress, "hooks": hooks}
            if self.c == "auto":
                run, self.tried_ = choose_curvature(graph, model, config, **options)
            else:
                run = train_graph(graph, model, config, **options)
            self._take(run)
        return self

    def fit_transform(self, X: Any, y: Any = None, *, features: Any = None) -> np.ndarray:
        """Fit the model, and return the nodes' ball coordinates."""
        return self.fit(X, features=features).embedding_

    def predict_proba(self, pairs: Any) -> np.ndarray:
        """Probability of an edge between pairs of nodes, by name or number, averaged over the nodes' posteriors.

        Example:
            >>> PoincareGraphVAE(max_epochs=1).fit([(0, 1), (1, 2)]).predict_proba([(0, 2)]).shape
            (1,)
        """
        check_is_fitted(self, "run_")
        asked = np.asarray(pairs)
        if asked.ndim != 2 or asked.shape[1] != 2:
            raise ValueError(f"predict_proba expects pairs of nodes, shape (m, 2), got {asked.shape}.")
        number = torch.from_numpy(self.graph_.numbers(asked))
        return EdgeProbability(self.run_).of(number).numpy()

    def add_nodes(self, edges: Any, *, steps: int = 200) -> Self:
        """Place nodes that were not in the fit, by their edges to known nodes, which stay where they are.

        `embedding_`, `nodes_` and `graph_` then end with the new nodes. Nodes need names, and the model the encoder
        "free". A warning names edges that find no room, such as those to parents far apart.

        Args:
            edges: Pairs of a new and a known node by name, (child, parent) if the model is directed. Of a taxonomy, one
                parent is enough: its ancestors are taken, too.
            steps: Steps of the optimization. More are slower and place the nodes better. Useful: 100 to 500.

        Example:
            >>> model = PoincareGraphVAE(directed=True, max_epochs=50, random_state=0)
            >>> model = model.fit([("cat", "animal"), ("dog", "animal"), ("lion", "cat")])
            >>> [name for name, probability in model.add_nodes([("tiger", "cat")]).ancestors("tiger")]
            ['cat', 'animal']
        """
        check_is_fitted(self, "run_")
        self._take(add_nodes(self.run_, edges, steps=steps, seed=seed_from(self.random_state)))
        return self

    def remove_nodes(self, nodes: Any) -> Self:
        """Take nodes out of the model, by name; all others stay where they are.

        Of a taxonomy, what is below a node that goes stays below that node's ancestors.

        Args:
            nodes: Names of the nodes.

        Example:
            >>> model = PoincareGraphVAE(max_epochs=1).fit([("cat", "animal"), ("dog", "animal")])
            >>> model.remove_nodes(["dog"]).nodes_.tolist()
            ['animal', 'cat']
        """
        check_is_fitted(self, "run_")
        self._take(remove_nodes(self.run_, nodes))
        return self

    def parents(self, node: Any, k: int = 1) -> list[tuple[Any, float]]:
        """The k most likely parents of a node, with the probability that it is below each.

        Args:
            node: The child, by name or number.
            k: How many.

        Example:
            >>> model = PoincareGraphVAE(directed=True, max_epochs=50, random_state=0)
            >>> model.fit([("cat", "animal"), ("dog", "animal"), ("lion", "cat")]).parents("lion")[0][0]
            'cat'
        """
        lineage = self._lineage()
        return self._named(lineage.parents(self._number(node), k))

    def ancestors(self, node: Any, threshold: float = 0.5) -> list[tuple[Any, float]]:
        """All nodes that a node is below, with probabilities: its parents first, the root last.

        Args:
            node: The descendant, by name or number.
            threshold: Smallest probability; a smaller one finds more and errs more often.

        Example:
            >>> model = PoincareGraphVAE(directed=True, max_epochs=50, random_state=0)
            >>> model.fit([("cat", "animal"), ("dog", "animal"), ("lion", "cat")])
            PoincareGraphVAE(directed=True, max_epochs=50, random_state=0)
            >>> [name for name, probability in model.ancestors("lion")]
            ['cat', 'animal']
        """
        return self._named(self._lineage().ancestors(self._number(node), threshold))

    def descendants(self, node: Any, threshold: float = 0.5) -> list[tuple[Any, float]]:
        """All nodes that are below a node, with probabilities, the most general first.

        Args:
            node: The ancestor, by name or number.
            threshold: Smallest probability; a smaller one finds more and errs more often.
        """
        return self._named(self._lineage().descendants(self._number(node), threshold))

    def is_a(self, node: Any, ancestor: Any) -> float:
        """Probability that a node is below another: `model.is_a("lion", "animal")`.

        Args:
            node: The descendant, by name or number.
            ancestor: The ancestor.
        """
        pair = torch.tensor([[self._number(node), self._number(ancestor)]])
        return float(self._lineage().is_a(pair))

    def _lineage(self) -> Lineage:
        check_is_fitted(self, "run_")
        return Lineage(self.run_)

    def _number(self, node: Any) -> int:
        return int(self.graph_.numbers([node])[0])

    def _named(self, found: Relatives) -> list[tuple[Any, float]]:
        return list(zip(self.nodes_[found.nodes.numpy()].tolist(), found.probability.tolist(), strict=True))

    def tree(
        self,
        labels: Any = None,
        *,
        root: str | int = "center",
        draws: int = 100,
        max_leaves: int = _MOST_LEAVES,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> Tree:
        """The tree of the nodes, or of labeled groups of nodes, from their posteriors.

        Fit a model of five dimensions or more for it, with a smaller `beta` such as 0.1: two dimensions have no room
        for twigs, and at 1 the prior pulls small graphs together until no branch has support.

        Args:
            labels: One label per node: the leaves are then the labels.
            root: Where the tree is seen from: "center" is the origin; a node number, a node's name, or "midpoint".
            draws: Draws of all posteriors for the support; 0 for none.
            max_leaves: With more nodes than this, the leaves are as many micro-clusters of nodes near each other.
            n_jobs: Threads for the draws; one per core for trees of 2,000 leaves and more if not given.
            random_state: Seed of all draws.

        Example:
            >>> model = PoincareGraphVAE(5, max_epochs=20, random_state=0)
            >>> model.fit([("animal", "dog"), ("animal", "cat"), ("cat", "lion")]).tree(draws=10).names
            ('animal', 'cat', 'dog', 'lion')
        """
        check_is_fitted(self, "run_")
        options: TreeOptions = {"labels": labels, "root": root, "draws": draws, "max_leaves": max_leaves}
        options["n_jobs"] = n_jobs
        return graph_tree(self.run_, seed=seed_from(random_state), **options)

    def view(
        self,
        labels: Any = None,
        *,
        columns: Any = None,
        tree: Tree | None = None,
        title: str = "",
        path: str | Path | None = None,
    ) -> View:
        """An interactive map of the nodes and edges: one HTML page, which a notebook shows; it needs no network.

        Of a taxonomy, only edges to parents are drawn.

        Args:
            labels: One label per node, in the order of `nodes_`, which colors the map at first.
            columns: Other values of the nodes by name, to show and to color by; their degrees if not given.
            tree: A tree of the nodes, shown beside the map and in it.
            title: Title of the page.
            path: Where to write the page; without it, it is only returned.

        Example:
            >>> PoincareGraphVAE(max_epochs=1).fit([(0, 1), (1, 2)]).view(labels=["a", "b", "b"])
            View(... characters)
        """
        from horoball.viewer.disc import view_points

        check_is_fitted(self, "run_")
        graph = transitive_reduction(self.graph_) if self.run_.record.model.transitive else self.graph_
        if columns is None:
            columns = {"degree": torch.bincount(graph.edges.flatten(), minlength=graph.nodes).numpy()}
        shown = {} if labels is None else {"label": labels}
        return view_points(
            self.run_.points().detach(),
            self.run_.model.ball,
            columns=shown | {name: columns[name] for name in columns if name not in shown},
            labels=self.nodes_,
            color=None,
            scale=None,
            edges=graph.edges,
            tree=tree,
            title=title,
            path=path,
        )

    def save(self, folder: str | Path) -> None:
        """Write the model and its graph to a folder, as safetensors and JSON."""
        check_is_fitted(self, "run_")
        self.run_.save(located(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model back from a folder that `save` or `horoball graph fit` wrote."""
        run = GraphRun.load(located(folder))
        options = stored_options(run.record)
        options["random_state"] = options["seed"]
        params = {name: options[name] for name in cls._get_param_names() if name in options}
        estimator = cls(options["d"], non_edges=run.record.non_edges, **params)
        estimator._take(run)
        return estimator

    def _facts(self) -> dict[str, object] | None:
        if not hasattr(self, "run_"):
            return None
        edges = "edges, child to parent" if self.graph_.directed else "edges"
        facts: dict[str, object] = {"nodes": f"{self.graph_.nodes:,}", edges: f"{len(self.graph_.edges):,}"}
        facts |= {"dimensions": self.run_.record.model.d, "c": f"{self.c_:.4g}", "epochs": len(self.run_.history)}
        last = self.run_.history[-1] if self.run_.history else {}
        return facts | {name: f"{last[name]:.4g}" for name in ("loss", "kl") if name in last}

    def _take(self, run: GraphRun) -> None:
        self.run_, self.graph_ = run, run.graph
        self.nodes_ = np.arange(run.graph.nodes) if run.graph.names is None else run.graph.names
        self.embedding_ = run.embed().numpy()
        self.c_ = run.model.ball.c_value
