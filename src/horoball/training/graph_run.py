"""A trained model of a graph with the graph it belongs to, and where it came from."""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from horoball.data.graphs import Graph
from horoball.data.link_split import Pairs, split_links
from horoball.data.path_axes import path_axes
from horoball.models.graph_encoder import FreeEncoder
from horoball.models.graph_vae import GraphConfig, GraphVAE
from horoball.noise import seeded
from horoball.training.about import expect_described, expect_graph
from horoball.training.checkpoint import load_checkpoint, save_checkpoint
from horoball.training.config import TrainConfig
from horoball.training.fit_graph import FREE_TRAINING, fit_graph
from horoball.training.lock import only_run
from horoball.training.names import names_from_tensors, names_to_tensors
from horoball.training.progress import Progress
from horoball.training.state import FINAL, LAST, expect_room
from horoball.training.stored import expect_whole, stored_history, stored_model

__all__ = ["GraphRun", "encoder_for", "non_edges_for", "train_graph"]

GRAPH = "graph.safetensors"
_EXACT = 3000  # nodes up to which all pairs are summed, a tenth of a second an epoch
_DRAWN = 10  # pairs drawn for every edge of a larger graph
_log = logging.getLogger("horoball")


@dataclass
class GraphRun:
    """A model, the graph that its encoder sees, and the pairs that were held out; what `horoball graph fit` leaves.

    Example:
        >>> import tempfile
        >>> run = train_graph(Graph.of([(0, 1), (1, 2), (2, 3)]), {"d": 2}, FREE_TRAINING.replace(max_epochs=1))
        >>> folder = Path(tempfile.mkdtemp())
        >>> run.save(folder)
        >>> torch.equal(GraphRun.load(folder).embed(), run.embed())
        True
    """

    model: GraphVAE
    graph: Graph
    held_out: Pairs | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    def embed(self) -> Tensor:
        """Posterior means of the nodes in ball coordinates, float64, shape (nodes, d)."""
        return self.model.ball.to_ball(self.points()).detach()

    def points(self) -> Tensor:
        """The same in the tangent chart."""
        return self.model.embed(self.graph).double()

    def save(self, folder: Path) -> None:
        """Write the model and its graph to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        _save_graph(folder, self.graph, self.held_out)
        weights = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        save_checkpoint(folder / FINAL, weights, {"about": self.about, "history": self.history})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a model and its graph back from a folder; of a run that has not ended, its last checkpoint."""
        path = folder / FINAL if (folder / FINAL).exists() else folder / LAST
        if not path.exists():
            raise FileNotFoundError(
                f"{folder} holds no model of a graph: neither {FINAL} nor {LAST} is there. Give the folder that a fit "
                "of a graph wrote."
            )
        tensors, header = load_checkpoint(path)
        about = expect_described(path, header)
        expect_graph(folder, about)
        if not (folder / GRAPH).exists():
            raise FileNotFoundError(f"{folder} holds no whole model of a graph: {GRAPH} is not there.")
        with expect_whole(path, "does not hold a whole model"):
            model = stored_model(lambda: GraphVAE.from_config(GraphConfig(**about["model"])), tensors)
            history = stored_history(header)
        graph, held_out = _load_graph(folder, about["model"])
        return cls(model.eval(), graph, held_out, history, about)


def encoder_for(graph: Graph) -> str:
    """The encoder that suits a graph: a convolution if its nodes have features, else a posterior for each.

    Example:
        >>> encoder_for(Graph.of([(0, 1)]))
        'free'
    """
    return "free" if graph.features is None else "gcn"


def non_edges_for(graph: Graph) -> int | None:
    """Pairs to draw for every edge: None, for all pairs exactly, if the graph is small.

    Example:
        >>> non_edges_for(Graph.of([(0, 1)])), non_edges_for(Graph.of([(0, 5000)]))
        (None, 10)
    """
    return None if graph.nodes <= _EXACT else _DRAWN


def train_graph(
    graph: Graph,
    model: dict[str, Any],
    config: TrainConfig = FREE_TRAINING,
    folder: Path | None = None,
    *,
    test: float = 0.0,
    non_edges: int | str | None = "auto",
    resume: bool = False,
    progress: Progress | None = None,
) -> GraphRun:
    """Fit a model to a graph.

    Args:
        graph: The graph.
        model: Fields of `GraphConfig` other than nodes and features; the encoder is that of `encoder_for` unless told.
        config: Settings of the training; batch_size counts edges.
        folder: Where the run is kept; nothing is written without one.
        test: Part of the edges to hold out, with as many non-edges, to judge link prediction by.
        non_edges: Pairs drawn for every edge of a step; None for all there are; "auto" decides by the graph's size.
        resume: Go on with the folder's run.
        progress: Who is told how it goes.

    Example:
        >>> run = train_graph(Graph.of([(0, 1), (1, 2), (2, 3)]), {"d": 2}, FREE_TRAINING.replace(max_epochs=2))
        >>> run.embed().shape
        torch.Size([4, 2])
    """
    options: dict[str, Any] = {"test": test, "non_edges": non_edges, "resume": resume, "progress": progress}
    with only_run(folder):
        expect_room(folder, resume=resume)
        return _train_graph(graph, model, config, folder, **options)


def _train_graph(
    graph: Graph,
    model: dict[str, Any],
    config: TrainConfig,
    folder: Path | None,
    *,
    test: float,
    non_edges: int | str | None,
    resume: bool,
    progress: Progress | None,
) -> GraphRun:
    """The same in a folder that no other run is in."""
    held_out: Pairs | None = None
    if test > 0:
        split = split_links(graph, validation=0.0, test=test, seed=config.seed)
        graph, held_out = split.train, split.test
    drawn = non_edges_for(graph) if non_edges == "auto" else non_edges
    if isinstance(drawn, str):
        raise ValueError(f'non_edges is a number, None or "auto", got {non_edges!r}.')
    if drawn:
        _log.info("Loss: %d random pairs for every edge, an unbiased estimate of the sum over all pairs.", drawn)
    features = 0 if graph.features is None else graph.features.shape[1]
    model_config = GraphConfig(nodes=graph.nodes, features=features, **({"encoder": encoder_for(graph)} | model))
    with seeded(config.seed):
        vae = GraphVAE.from_config(model_config)
    if isinstance(vae.encoder, FreeEncoder):
        vae.encoder.start_at(path_axes(graph, model_config.d, seed=config.seed))
    digest = hashlib.sha256(graph.edges.contiguous().numpy().tobytes())
    if graph.features is not None:
        digest.update(graph.features.contiguous().numpy().tobytes())
    about = {
        "model": model_config.as_dict(),
        "training": config.as_dict(),
        "graph": {"nodes": graph.nodes, "edges": len(graph.edges), "digest": digest.hexdigest()[:16]},
        "non_edges": drawn,
        "test": test,
        "version": version("horoball"),
    }
    first = int(os.environ.get("RANK", "0")) == 0
    if folder is not None and first and not (resume and (folder / LAST).exists()):
        _save_graph(folder, graph, held_out)  # an older one stays until this one is known to be the same
    state = fit_graph(vae, graph, config, folder, non_edges=drawn, resume=resume, progress=progress, about=about)
    run = GraphRun(vae.eval(), graph, held_out, state.history, about)
    if folder is not None and first:
        run.save(folder)
    return run


def _save_graph(folder: Path, graph: Graph, held_out: Pairs | None) -> None:
    tensors = {"edges": graph.edges}
    if graph.features is not None:
        tensors["features"] = graph.features
    tensors |= names_to_tensors(graph.names)
    if held_out is not None:
        tensors |= {"held_out": held_out.pairs, "held_out_is_edge": held_out.is_edge}
    save_checkpoint(folder / GRAPH, tensors, {"nodes": graph.nodes})


def _load_graph(folder: Path, model: dict[str, Any]) -> tuple[Graph, Pairs | None]:
    """The graph that a model belongs to; `Graph.of` looks at edges, names and features, which may be anybody's."""
    tensors, header = load_checkpoint(folder / GRAPH)
    with expect_whole(folder / GRAPH, "does not hold the graph of its model"):
        if "name_lengths" in tensors:  # as version 0.1.0 has it
            tensors |= {"names.text": tensors["names"], "names.ends": tensors["name_lengths"].cumsum(0)}
        names = names_from_tensors(tensors, header["nodes"])
        graph = Graph.of(tensors["edges"], header["nodes"], names, tensors.get("features"))
        features = 0 if graph.features is None else graph.features.shape[1]
        if (graph.nodes, features) != (model["nodes"], model.get("features", 0)):
            raise ValueError(f"it has {graph.nodes} nodes of {features} features, the model was fitted to others.")
        if "held_out" not in tensors:
            return graph, None
        pairs, is_edge = tensors["held_out"], tensors["held_out_is_edge"]
        shapes = pairs.shape == (len(is_edge), 2) and is_edge.dim() == 1
        if not shapes or pairs.dtype != torch.int64 or is_edge.dtype != torch.bool:
            raise ValueError("its pairs that were held out are no pairs.")
        if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < graph.nodes:
            raise ValueError(f"its pairs that were held out are not of {graph.nodes} nodes.")
        return graph, Pairs(pairs, is_edge)
