"""What one process measures of graphs: an epoch, a sum over all pairs, a rank, nodes that are added."""

from __future__ import annotations

import resource
import statistics
import time

import numpy as np
import torch

from horoball.datasets import preferential_attachment, random_tree
from horoball.geometry.random import generator_for
from horoball.graphs import Graph, GraphConfig, GraphVAE
from horoball.graphs.fit import FREE_TRAINING, PAPER_TRAINING, TAXONOMY_TRAINING, GraphObjective, fit_graph
from horoball.graphs.graph import transitive_closure
from horoball.graphs.lineage import add_nodes
from horoball.graphs.model import FreeEncoder
from horoball.graphs.run import GraphRecord, GraphRun
from horoball.training.engine import engine
from horoball.training.progress import Silent

NON_EDGES, D = 10, 5
EPOCHS = {10_000: 10, 100_000: 5, 1_000_000: 3}  # after a first one, which is not counted
Numbers = dict[str, float]


class Clock(Silent):
    """Seconds of every epoch, of the processor and of the wall."""

    def __init__(self) -> None:
        self.cpu, self.wall = [time.process_time()], [time.perf_counter()]

    def epoch(self, line: dict[str, float]) -> None:
        """Note the times."""
        self.cpu.append(time.process_time())
        self.wall.append(time.perf_counter())


def _peak() -> float:
    """Most memory that was resident so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def _model(nodes: int) -> GraphVAE:
    torch.manual_seed(0)
    return GraphVAE.from_config(GraphConfig(nodes=nodes, d=D, encoder="gcn"))


def epoch(kind: str, nodes: int) -> Numbers:
    """Training on sampled pairs, all edges in one step, and the embedding."""
    with engine():  # imports the rest
        pass
    imported = _peak()
    graph = random_tree(nodes) if kind == "tree" else preferential_attachment(nodes, 5)
    model, clock = _model(nodes), Clock()
    fit_graph(model, graph, PAPER_TRAINING.replace(max_epochs=1 + EPOCHS[nodes]), non_edges=NON_EDGES, progress=clock)
    began = time.process_time()
    model.ball.to_ball(model.embed(graph).double())
    embed = time.process_time() - began
    cpu, wall = (statistics.median(np.diff(times)[1:]) for times in (clock.cpu, clock.wall))
    return {
        "edges": len(graph.edges),
        "epoch": cpu,
        "wall": wall,
        "embed": embed,
        "peak": _peak(),
        "above": _peak() - imported,
    }


def attach(nodes: int, path: str) -> Numbers:
    """Write the edges of a graph, so that making it does not count for those who train on it."""
    edges = preferential_attachment(nodes, 5).edges
    np.save(path, edges.numpy())
    return {"edges": len(edges)}


def free_epoch(nodes: int, path: str, epochs: int = 3) -> Numbers:
    """Reading edges and training free posteriors on them, d = 2, on as many ranks as were started."""
    imported, clock = _peak(), Clock()
    graph = Graph.of(np.load(path, mmap_mode="r"), nodes)
    config = GraphConfig(nodes, d=2, encoder="free", edges="fermi_dirac", learn_prior=True)
    model = GraphVAE.from_config(config, generator=generator_for(0))
    fit_graph(model, graph, FREE_TRAINING.replace(max_epochs=1 + epochs), non_edges=NON_EDGES, progress=clock)
    cpu, wall = (statistics.median(np.diff(times)[1:]) for times in (clock.cpu, clock.wall))
    return {"edges": len(graph.edges), "epoch": cpu, "wall": wall, "peak": _peak(), "above": _peak() - imported}


def exact(nodes: int) -> Numbers:
    """The loss over all pairs and its gradient."""
    graph = random_tree(nodes)
    objective = GraphObjective(_model(nodes), graph, PAPER_TRAINING)
    objective(graph.edges[:1], None)[0].backward()  # first calls are slower
    before, began = _peak(), time.process_time()
    objective(graph.edges)[0].backward()
    return {"epoch": time.process_time() - began, "above": _peak() - before}


def plain(nodes: int) -> Numbers:
    """The same sum as the formulas stand, by autograd in float32: all n² distances at once."""
    graph = random_tree(nodes)
    a = torch.from_numpy(graph.adjacency().toarray())
    x = (torch.rand(nodes, D, generator=torch.Generator().manual_seed(0)) / 3).requires_grad_()
    before, began = _peak(), time.process_time()
    squares = (x.unsqueeze(0) - x.unsqueeze(1)).square().sum(-1)
    inside = 1 - x.square().sum(-1)
    d = torch.acosh(1 + 1e-6 + 2 * squares / (inside.unsqueeze(0) * inside.unsqueeze(1)))
    p = 1 - torch.tanh(d)
    value = a * torch.log(p + 1e-10) + (1 - a) * torch.log(1 - p + 1e-10)
    value.sum().backward()
    return {"epoch": time.process_time() - began, "above": _peak() - before}


def rank_speed(nodes: int) -> Numbers:
    """Wall seconds of an epoch, on as many ranks as were started."""
    imported, model, clock = _peak(), _model(nodes), Clock()
    graph = preferential_attachment(nodes, 5)
    fit_graph(model, graph, PAPER_TRAINING.replace(max_epochs=8), non_edges=NON_EDGES, progress=clock)
    return {"wall": statistics.median(np.diff(clock.wall)[1:]), "above": _peak() - imported}


def added(nodes: int, new: int) -> Numbers:
    """Adding leaves to a taxonomy, d = 5: a random recursive tree whose nodes lie behind their parents."""
    rng = np.random.default_rng(0)
    parent = (np.arange(1, nodes) * rng.random(nodes - 1)).astype(np.int64)
    tree = Graph.of(np.stack((np.arange(1, nodes), parent), 1), nodes, np.arange(nodes).astype(str), directed=True)
    graph = transitive_closure(tree)
    config = GraphConfig(
        nodes, d=D, encoder="free", edges="fermi_dirac", learn_prior=True, directed=True, transitive=True
    )
    model = GraphVAE.from_config(config, generator=generator_for(0))
    assert isinstance(model.encoder, FreeEncoder)
    model.encoder.start_in(_behind_parents(parent, rng))
    record = GraphRecord(model=config, training=TAXONOMY_TRAINING, edges=len(graph.edges), digest="0" * 64)
    run = GraphRun(model.eval(), graph, record)
    add_nodes(run, [("first", "1")], steps=2)  # first calls import
    pairs = [(f"new {i}", str(p)) for i, p in enumerate(rng.integers(nodes, size=new))]
    cpu, wall = time.process_time(), time.perf_counter()
    add_nodes(run, pairs)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"edges": len(graph.edges), "cpu": cpu, "wall": wall, "peak": _peak()}


def _behind_parents(parent: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
    """Places of a random recursive tree's nodes, level by level."""
    depth = [0]
    for above in parent.tolist():
        depth.append(depth[above] + 1)
    levels = np.array(depth)
    above = np.concatenate(([0], parent))
    direction, radius = np.zeros((len(levels), D)), np.zeros(len(levels))
    for level in range(1, int(levels.max()) + 1):
        at = np.flatnonzero(levels == level)
        radius[at] = radius[above[at]] + 0.1 + rng.exponential(0.7, len(at))
        aside = rng.normal(size=(len(at), D)) * np.exp(-radius[above[at]])[:, None]
        direction[at] = direction[above[at]] + aside
        direction[at] /= np.linalg.norm(direction[at], axis=1, keepdims=True)
    return torch.from_numpy((direction * radius[:, None]).astype(np.float32))
