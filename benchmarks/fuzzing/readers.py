"""The readers: what they are given, how it is damaged, and how they are called."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch

from benchmarks.fuzzing import containers
from benchmarks.fuzzing.damage import DAMAGES, Damage, damaged
from benchmarks.fuzzing.headers import hostile_description, hostile_tensors
from benchmarks.fuzzing.lines import hostile_fields, hostile_lines
from benchmarks.fuzzing.seeds import Files

__all__ = ["READERS", "Reader"]

Use = Callable[[], object]


@dataclass(frozen=True)
class Reader:
    """One public way in.

    Args:
        load: Reads what is in a folder; an error here has to name the file. It returns what is then done with it, whose
            errors have to be typed, but know of no file.
        kinds: Damage that may be done.
        weight: Share of the inputs, beside the others.
    """

    load: Callable[[Path], Use]
    kinds: Sequence[Damage]
    weight: float

    def given(self, seed: int, name: str, number: int, files: Sequence[Files]) -> Files:
        """Input of that number: a sound folder with one of its files damaged."""
        rng = Random(f"{seed}/{name}/{number}")  # noqa: S311  no secret
        folder = dict(rng.choice(files))
        victim = rng.choice(sorted(folder))
        others = [data for other in files for data in other.values()]
        folder[victim] = damaged(rng, folder[victim], others, self.kinds)
        return folder


def _table(folder: Path) -> Use:
    from horoball.data import read

    path = next(folder.iterdir())
    label = None if path.suffix in (".npy", ".npz") else "kind"
    table = read(path, label, label_may_miss=True)
    rows = sum(len(block) for block in table.blocks(3))
    if rows != table.rows:
        raise AssertionError(f"{rows} rows of {table.rows} were read")
    table.read_labels()
    return lambda: None


def _edges(folder: Path) -> Use:
    from horoball.data import read_graph

    graph = read_graph(next(folder.iterdir()))
    if int(graph.edges.max()) >= graph.nodes or int(graph.edges.min()) < 0:
        raise AssertionError(f"an edge beyond {graph.nodes} nodes was read")
    return lambda: None


def _images(folder: Path) -> Use:
    from horoball.data.images import mnist

    os.environ["HOROBALL_DATA"] = str(folder)
    mnist(train=False)
    return lambda: None


def _paper(folder: Path) -> Use:
    from horoball.data import paper_graph

    os.environ["HOROBALL_DATA"] = str(folder)
    paper_graph("csphd")
    return lambda: None


def _checkpoint(folder: Path) -> Use:
    from horoball.training.checkpoint import load_checkpoint

    load_checkpoint(folder / "last.safetensors")
    return lambda: None


def _run(folder: Path) -> Use:
    from horoball.data import ArrayTable
    from horoball.training.run import Run

    run = Run.load(folder)
    return lambda: list(run.embed(ArrayTable(torch.ones(2, len(run.columns)))))


def _vae(folder: Path) -> Use:
    from horoball.estimator import PoincareVAE

    vae = PoincareVAE.load(folder)
    return lambda: (vae.inverse_transform([[0.1] * vae.model_.prior.loc.numel()]), repr(vae))


def _graph_run(folder: Path) -> Use:
    from horoball.training.graph_run import GraphRun

    run = GraphRun.load(folder)
    return run.embed


def _graph_vae(folder: Path) -> Use:
    from horoball.graphs import PoincareGraphVAE

    vae = PoincareGraphVAE.load(folder)
    return lambda: (vae.embedding_, repr(vae))


def _cell_model(folder: Path) -> Use:
    from horoball.cells import CellModel

    model = CellModel.load(folder)
    return lambda: repr(model)


def _index(folder: Path) -> Use:
    from horoball.neighbors import Index

    index = Index.load(folder)
    return lambda: (len(index) and index.search(index.points[:2], k=1), repr(index))


_TEXT = (*DAMAGES, *[hostile_fields] * 10, *[hostile_lines] * 6)
_STORED = (*DAMAGES, *[hostile_tensors] * 10, *[hostile_description] * 16)
_ARRAY = (*DAMAGES, *[containers.hostile_array] * 10)
_ZIP = (*DAMAGES, *[containers.within_zip((*DAMAGES, *[containers.hostile_array] * 10))] * 10)
_GZIP = (*DAMAGES, *[containers.within_gzip(_TEXT)] * 10)

READERS: dict[str, Reader] = {
    ".csv": Reader(_table, _TEXT, 10),
    ".tsv": Reader(_table, _TEXT, 4),
    ".parquet": Reader(_table, (*DAMAGES, *[containers.hostile_columns] * 3), 10),
    ".npy": Reader(_table, _ARRAY, 5),
    ".npz": Reader(_table, _ZIP, 5),
    ".h5ad": Reader(_table, (*DAMAGES, *[containers.hostile_cells] * 10), 3),
    "edges, lines": Reader(_edges, _TEXT, 10),
    "edges, table": Reader(_edges, _TEXT, 8),
    "edges, compressed": Reader(_edges, _GZIP, 4),
    "edges, Matrix Market": Reader(_edges, _TEXT, 4),
    "edges, NumPy": Reader(_edges, (*_ARRAY, *_ZIP[len(DAMAGES) :]), 4),
    "edges, Parquet": Reader(_edges, (*DAMAGES, *[containers.hostile_columns] * 3), 4),
    "MNIST": Reader(_images, (*DAMAGES, *[containers.within_gzip(DAMAGES)] * 5), 2.5),
    "graph of the paper": Reader(_paper, _TEXT, 2.5),
    "checkpoint": Reader(_checkpoint, _STORED, 8),
    "run of a table": Reader(_run, _STORED, 6),
    "PoincareVAE": Reader(_vae, _STORED, 4),
    "run of a graph": Reader(_graph_run, _STORED, 5),
    "PoincareGraphVAE": Reader(_graph_vae, _STORED, 3),
    "CellModel": Reader(_cell_model, _STORED, 3),
    "index": Reader(_index, _STORED, 6),
}
