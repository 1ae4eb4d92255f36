"""A fitted model of a graph: the run with its graph and record, its training, and its options."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, Unpack

import torch
from torch import Tensor

from horoball.geometry.coordinates import in_ball, rim_report
from horoball.geometry.random import generator_for
from horoball.graphs.evaluation import Pairs, split_links
from horoball.graphs.fit import FREE_TRAINING, fit_graph, training_for
from horoball.graphs.graph import Graph, transitive_closure
from horoball.graphs.model import FreeEncoder, GraphConfig, GraphVAE
from horoball.graphs.start import place_nodes
from horoball.options import GraphOptions
from horoball.process import memory_asked
from horoball.storage.checkpoint import (
    load_checkpoint,
    model_tensors,
    names_from_tensors,
    names_to_tensors,
    reject_incomplete,
    save_checkpoint,
    stored_model,
    tensors_digest,
)
from horoball.storage.settings import Range, SettingError, Settings
from horoball.storage.stores import located
from horoball.storage.whole import only_run
from horoball.training.config import FitRecord, TrainConfig
from horoball.training.hooks import Hooks
from horoball.training.progress import Progress
from horoball.training.state import FINAL, GRAPH, LAST, check_output_dir, stored_history
from horoball.vae.options import split_options

__all__ = ["GRAPHS", "GraphRecord", "GraphRun", "encoder_for", "graph_fit", "non_edges_for", "train_graph"]


@dataclass(frozen=True, kw_only=True)
class GraphRecord(FitRecord):
    """The record of a fit to a graph.

    Example:
        >>> from horoball.training import TrainConfig
        >>> GraphRecord(model=GraphConfig(nodes=4), training=TrainConfig(), edges=3, digest="0f", non_edges=-1)
        Traceback (most recent call last):
        ...
        ValueError: its non_edges is '-1'.
    """

    KIND: ClassVar[str] = "graph"
    COMMAND: ClassVar[str] = "graph fit"
    READERS: ClassVar[str] = (
        "`horoball graph embed`, `horoball graph evaluate` and `horoball graph info`, or PoincareGraphVAE.load"
    )
    MODEL: ClassVar[type[Settings]] = GraphConfig
    FIXED: ClassVar[tuple[str, ...]] = ("non_edges",)

    model: GraphConfig
    edges: int
    digest: str  # of edges, features, names and held-out pairs
    non_edges: int | None = None  # pairs drawn for every edge; None for all pairs
    test: float = 0.0  # fraction of the edges held out

    def __post_init__(self) -> None:
        """Refuse fields of other types."""
        drawn = self.non_edges
        for name, good in (
            ("edges", type(self.edges) is int and self.edges >= 0),
            ("digest", isinstance(self.digest, str)),
            ("non_edges", drawn is None or (type(drawn) is int and drawn >= 0)),
            ("test", type(self.test) in (int, float) and 0 <= self.test < 1),
            ("version", isinstance(self.version, str)),
        ):
            if not good:
                raise ValueError(f"its {name} is {str(getattr(self, name))[:40]!r}.")

    def _differences(self, old: GraphRecord) -> Iterator[str]:
        if (old.digest, old.edges, old.model.nodes) != (self.digest, self.edges, self.model.nodes):
            yield "is of another graph. Resume with the file and the options of the first fit."
        yield from super()._differences(old)


_EXACT = 3000  # nodes up to which all pairs are summed, a tenth of a second an epoch
_DRAWN = 10  # pairs drawn for every edge of a larger graph
_PADDED = 1 << 26  # bytes that names padded to the longest may always take
_log = logging.getLogger("horoball")


@dataclass(frozen=True)
class PairConfig(Settings):
    """Which pairs of a graph are drawn, and which are held out."""

    non_edges: int | None = None
    test: float = 0.0

    RANGES: ClassVar[dict[str, Range]] = {
        "non_edges": Range(1, 10**6, 'It counts the pairs drawn for every edge: 10 for large graphs, "auto" decides.'),
        "test": Range(0, 1, "It is the fraction of the edges held out: 0.1 is a tenth, 0 is none.", below=True),
    }


@dataclass
class GraphRun:
    """A model, the graph that its encoder sees, and the pairs that were held out; what `horoball graph fit` writes.

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
    record: GraphRecord
    held_out: Pairs | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    digest: str = ""  # identifies the run that a folder's files belong to; see `run_digest`

    @torch.no_grad()
    def embed(self) -> Tensor:
        """Posterior means of the nodes in ball coordinates, float64, shape (nodes, d)."""
        z = self.points()
        with rim_report(self.model.ball, "node") as note:
            note(torch.linalg.vector_norm(z, dim=-1))
        return in_ball(z, self.model.ball)

    def points(self) -> Tensor:
        """The same in the tangent chart."""
        z = self.model.embed(self.graph).double()
        broken = ~torch.isfinite(z).all(-1)
        if bool(broken.any()):
            raise FloatingPointError(
                f"The model gives no finite coordinates for node {int(broken.nonzero()[0])}. Its weights may be "
                "damaged: fit it again."
            )
        return z

    def grown(self, model: GraphVAE, graph: Graph) -> GraphRun:
        """The run with a model of more nodes, of which `graph` has the edges."""
        digest = _digest(_graph_tensors(graph, None), graph.nodes)
        record = self.record.replace(model=model.config, edges=len(graph.edges), digest=digest)
        return GraphRun(model, graph, record, None, self.history, self.digest)

    def save(self, folder: Path) -> None:
        """Write the model and its graph to a folder."""
        folder = located(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _save_graph(folder, self.graph, self.held_out)
        state = {"record": self.record.as_json(), "history": self.history, "run": self.digest}
        save_checkpoint(folder / FINAL, model_tensors(self.model), state)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a model and its graph back from a folder; of a run that has not ended, its last checkpoint."""
        folder = located(folder)
        path = folder / FINAL if (folder / FINAL).exists() else folder / LAST
        if not path.exists():
            raise FileNotFoundError(
                f"{folder} holds no model of a graph: neither {FINAL} nor {LAST} is there. Give the folder that a fit "
                "of a graph wrote."
            )
        tensors, header = load_checkpoint(path)
        record = GraphRecord.from_json(path, header)
        if not (folder / GRAPH).exists():
            raise FileNotFoundError(f"{folder} holds no whole model of a graph: {GRAPH} is not there.")
        with reject_incomplete(path, "does not hold a whole model"):
            model = stored_model(lambda: GraphVAE.from_config(record.model, generator=generator_for(0)), tensors)
            if any(weight.dtype != torch.float32 for weight in model.parameters()):
                raise ValueError("its weights are float64, expected float32, as graphs are.")
            state = header["state"] if path.name == LAST else header
            history, run = stored_history(state["history"]), str(state.get("run", ""))
        graph, held_out = _load_graph(folder, record.model, record.digest)
        return cls(model.eval(), graph, record, held_out, history, run)


def encoder_for(graph: Graph) -> str:
    """The encoder that suits a graph: a convolution if its nodes have features, else a posterior for each.

    Example:
        >>> encoder_for(Graph.of([(0, 1)]))
        'free'
    """
    return "free" if graph.features is None else "gcn"


def non_edges_for(graph: Graph) -> int | None:
    """Random pairs per edge; None, for all pairs, if the graph is small.

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
    hooks: Hooks = Hooks(),  # noqa: B008
) -> GraphRun:
    """Fit a model to a graph.

    Args:
        graph: The graph.
        model: Fields of `GraphConfig` other than nodes and features; the default encoder is `encoder_for(graph)`.
        config: Training settings; batch_size counts edges.
        folder: Folder for checkpoints and the fitted model; None writes nothing.
        test: Fraction of the edges to hold out, with as many non-edges, for link prediction.
        non_edges: Random pairs per edge of a step; None for all pairs, "auto" decides by the graph's size.
        resume: Resume the run in the folder.
        progress: Progress reporter.
        hooks: Callbacks, loggers, and what makes the optimizer and the schedule; see `horoball.training.hooks`.

    Example:
        >>> run = train_graph(Graph.of([(0, 1), (1, 2), (2, 3)]), {"d": 2}, FREE_TRAINING.replace(max_epochs=2))
        >>> run.embed().shape
        torch.Size([4, 2])
    """
    options: dict[str, Any] = {"test": test, "non_edges": non_edges, "resume": resume, "progress": progress}
    options["hooks"] = hooks
    folder = None if folder is None else located(folder)
    with only_run(folder), memory_asked():
        check_output_dir(folder, resume=resume, graph=True)
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
    hooks: Hooks,
) -> GraphRun:
    """The same with the folder locked."""
    held_out: Pairs | None = None
    test = PairConfig.checked("test", test)
    if model.get("transitive"):
        if test > 0:
            raise ValueError(
                "Most pairs of a closure follow from the others, so holding some out tests nothing. Pass "
                "transitive=False (--no-transitive) to hold out edges."
            )
        graph = transitive_closure(graph)
    if test > 0:
        split = split_links(graph, validation=0.0, test=test, seed=config.seed)
        graph, held_out = split.train, split.test
    if isinstance(non_edges, str):
        if non_edges != "auto":
            raise SettingError("non_edges", f'is a whole number, None or "auto", got {non_edges!r}.')
        drawn = non_edges_for(graph)
    else:
        drawn = PairConfig.checked("non_edges", non_edges)
    if drawn:
        _log.info("Loss: %d random pairs for every edge, an unbiased estimate of the sum over all pairs.", drawn)
    features = 0 if graph.features is None else graph.features.shape[1]
    known: dict[str, Any] = {"encoder": encoder_for(graph), "directed": graph.directed}
    model_config = GraphConfig(nodes=graph.nodes, features=features, **(known | model))
    vae = GraphVAE.from_config(model_config, generator=generator_for(config.seed))
    if isinstance(vae.encoder, FreeEncoder):
        place_nodes(vae.encoder, graph, seed=config.seed)
    digest = _digest(_graph_tensors(graph, held_out), graph.nodes)
    options: dict[str, Any] = {"edges": len(graph.edges), "digest": digest, "non_edges": drawn, "test": test}
    record = GraphRecord(model=model_config, training=config, **options)
    first = int(os.environ.get("RANK", "0")) == 0
    if folder is not None and first and not (resume and (folder / LAST).exists()):
        _save_graph(folder, graph, held_out)  # an older one stays until this one is known to be the same
    more: dict[str, Any] = {"resume": resume, "progress": progress, "record": record, "hooks": hooks}
    state = fit_graph(vae, graph, config, folder, non_edges=drawn, **more)
    run = GraphRun(vae.eval(), graph, record, held_out, state.history, state.run)
    if folder is not None and first:
        run.save(folder)
    return run


def _save_graph(folder: Path, graph: Graph, held_out: Pairs | None) -> None:
    save_checkpoint(folder / GRAPH, _graph_tensors(graph, held_out), {"nodes": graph.nodes})


def _digest(tensors: dict[str, Tensor], nodes: int) -> str:
    """Of all that a file of a graph holds: edges, features, names, and the pairs that were held out."""
    return tensors_digest(tensors, f"{nodes} nodes")


def _graph_tensors(graph: Graph, held_out: Pairs | None) -> dict[str, Tensor]:
    tensors = {"edges": graph.edges}
    if graph.features is not None:
        tensors["features"] = graph.features
    tensors |= names_to_tensors(graph.names)
    if held_out is not None:
        tensors |= {"held_out": held_out.pairs, "held_out_is_edge": held_out.is_edge}
    return tensors


def _load_graph(folder: Path, model: GraphConfig, digest: str) -> tuple[Graph, Pairs | None]:
    """The graph that a model belongs to; `Graph.of` looks at edges, names and features, which may be anybody's."""
    tensors, header = load_checkpoint(folder / GRAPH)
    with reject_incomplete(folder / GRAPH, "does not hold the graph of its model"):
        if type(header["nodes"]) is not int:
            raise ValueError(f"its number of nodes is {str(header['nodes'])[:40]!r}.")
        _check_names(tensors)
        names = names_from_tensors(tensors, header["nodes"])
        features = tensors.get("features")
        graph = Graph.of(tensors["edges"], header["nodes"], names, features, directed=model.directed)
        columns = 0 if graph.features is None else graph.features.shape[1]
        if (graph.nodes, columns) != (model.nodes, model.features):
            raise ValueError(f"it has {graph.nodes} nodes of {columns} features, the model was fitted to others.")
        if columns and not bool(torch.isfinite(tensors["features"]).all()):
            raise ValueError("its features are not finite.")
        if "held_out" not in tensors:
            _check_digest(tensors, graph.nodes, digest)
            return graph, None
        pairs, is_edge = tensors["held_out"], tensors["held_out_is_edge"]
        shapes = pairs.shape == (len(is_edge), 2) and is_edge.dim() == 1
        if not shapes or pairs.dtype != torch.int64 or is_edge.dtype != torch.bool:
            raise ValueError("its pairs that were held out are no pairs.")
        if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < graph.nodes:
            raise ValueError(f"its pairs that were held out are not of {graph.nodes} nodes.")
        _check_digest(tensors, graph.nodes, digest)
        return graph, Pairs(pairs, is_edge)


def _check_names(tensors: dict[str, Tensor]) -> None:
    """Refuse names of which one is so long that an array of names as long as it would take far more than the file."""
    ends = tensors.get("names.ends", torch.empty(0))
    if ends.dim() != 1 or len(ends) == 0:
        return
    longest = int(torch.diff(ends, prepend=torch.zeros_like(ends[:1])).max())
    if 4 * longest * len(ends) > max(_PADDED, 100 * len(tensors["names.text"])):
        raise ValueError(f"its longest name has {longest:,} bytes, too many beside {len(ends):,} names.")


def _check_digest(tensors: dict[str, Tensor], nodes: int, digest: str) -> None:
    if _digest(tensors, nodes) != digest:
        raise ValueError(
            "it is the graph of another run, or was changed. Put the run's own file back, or fit the graph again."
        )


class GraphDefaults(NamedTuple):
    """What front ends for graphs use instead of the defaults of `GraphConfig`, which are the paper's."""

    encoder: str = "auto"
    edges: str = "fermi_dirac"
    prior_scale: float | str = "learn"
    non_edges: int | str | None = "auto"
    transitive: bool = True


GRAPHS = GraphDefaults()


def graph_fit(graph: Graph, **options: Unpack[GraphOptions]) -> tuple[dict[str, Any], TrainConfig]:
    """Fields of `GraphConfig` and the training settings for a graph, as `train_graph` takes them.

    Args:
        graph: The graph.
        options: See `horoball.options`. c and prior_scale may be "learn", encoder may be "auto".

    Example:
        >>> model, training = graph_fit(Graph.of([(0, 1)]), d=5)
        >>> model["encoder"], model["learn_prior"], training.max_epochs
        ('free', True, 1000)
    """
    defaults = {name: value for name, value in GRAPHS._asdict().items() if name != "non_edges"}
    model, training = split_options(defaults | dict(options), GraphConfig)
    model["directed"] = graph.directed
    model["transitive"] = graph.directed and model["transitive"]
    if model["encoder"] == "auto":
        model["encoder"] = encoder_for(graph)
    kind = {name: model[name] for name in ("directed", "transitive")}
    return model, training_for(model["encoder"], **kind, **training)
