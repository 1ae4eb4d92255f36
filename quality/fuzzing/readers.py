"""The readers: what they are given, how it is damaged, and how they are called."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from random import Random

from quality.fuzzing import containers
from quality.fuzzing.damage import DAMAGES, Damage, damaged
from quality.fuzzing.folders import FOLDERS, Folder, Given
from quality.fuzzing.headers import hostile_description, hostile_json, hostile_tensors
from quality.fuzzing.lines import hostile_fields, hostile_lines
from quality.fuzzing.sheets import hostile_xml
from quality.fuzzing.structured import STRUCTURES, load_edges
from quality.fuzzing.tensors import hostile_numbers
from quality.fuzzing.uses import use_embedding, use_graph, use_index, use_resume, use_run

__all__ = ["READERS", "STRUCTURED", "Reader"]

Use = Callable[[], object]


Kinds = Sequence[Damage] | Mapping[str, Sequence[Damage]]


@dataclass(frozen=True)
class Reader:
    """One public way in.

    Args:
        load: Reads what is in a folder; an error here has to name the file. It returns what is then done with it, whose
            errors have to be typed, but know of no file.
        kinds: Damage that may be done to a file, or of each ending of a file's name.
        weight: Share of the inputs, beside the others.
        folders: Share of the inputs in which files are exchanged, missing or not regular.
        victims: Files that are damaged, the likelier the more often they are named; all, if none is.
        bound: Files that must not be taken from another run.
        writes: Files that the reader may leave.
        memory: Bytes that contents may take, as by --max-memory; what the library allows without it, if 0.
    """

    load: Callable[[Path], Use]
    kinds: Kinds
    weight: float
    folders: float = 0.0
    victims: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    memory: int = 0

    def given(self, seed: int, name: str, number: int, files: Sequence[Folder]) -> Given:
        """Given of that number: a sound folder with one of its files damaged, or the folder itself."""
        rng = Random(f"{seed}/{name}/{number}")  # noqa: S311  no secret
        folder = dict(rng.choice(files))
        victims = self.victims or tuple(sorted(folder))
        if rng.random() < self.folders:
            given = rng.choice(FOLDERS)(rng, folder, victims, files)
            return given if given.foreign in self.bound else given._replace(foreign="")
        victim = rng.choice([file for file in victims if file in folder])
        others = [data for other in files for data in other.values() if isinstance(data, bytes)]
        data = folder[victim]
        if isinstance(data, bytes):
            kinds = self.kinds[PurePosixPath(victim).suffix] if isinstance(self.kinds, Mapping) else self.kinds
            folder[victim] = damaged(rng, data, others, kinds)
        return Given(folder, f"{victim} is damaged")


def _table(folder: Path) -> Use:
    from horoball.tables import read

    path = next(folder.iterdir())
    label = None if path.suffix in (".npy", ".npz") else "kind"
    table = read(path, label, label_may_miss=True)
    rows = sum(len(block) for block in table.blocks(3))
    if rows != table.rows:
        raise AssertionError(f"{rows} rows of {table.rows} were read")
    table.read_labels()
    return lambda: None


def _columns(folder: Path) -> Use:
    """A table of mixed columns, and the same table read again by what was found out about it."""
    from horoball.tables.read import Reading, read

    path = next(folder.iterdir())
    table = read(path)
    rows = sum(len(block) for block in table.blocks(3))
    if rows != table.rows:
        raise AssertionError(f"{rows} rows of {table.rows} were read")
    again = None if table.schema is None else Reading("mixed", table.columns, table.schema)
    if table.kind == "mixed" and read(path, like=again).rows != rows:
        raise AssertionError("the same file has other rows")
    return lambda: None


def _images(folder: Path) -> Use:
    from horoball.datasets import mnist

    os.environ["HOROBALL_DATA"] = str(folder)
    mnist(train=False)
    return lambda: None


def _paper(folder: Path) -> Use:
    from horoball.datasets import paper_graph

    os.environ["HOROBALL_DATA"] = str(folder)
    paper_graph("csphd")
    return lambda: None


def _checkpoint(folder: Path) -> Use:
    from horoball.storage.checkpoint import load_checkpoint

    load_checkpoint(folder / "last.safetensors")
    return lambda: None


def _vae(folder: Path) -> Use:
    from horoball.vae.estimator import PoincareVAE

    vae = PoincareVAE.load(folder)
    return lambda: (vae.inverse_transform([[0.1] * vae.model_.prior.loc.numel()]), repr(vae))


def _graph_vae(folder: Path) -> Use:
    from horoball.graphs import PoincareGraphVAE

    vae = PoincareGraphVAE.load(folder)
    return lambda: (vae.embedding_, repr(vae))


def _cell_model(folder: Path) -> Use:
    from horoball.cells import CellModel

    model = CellModel.load(folder)
    return lambda: repr(model)


_TEXT = (*DAMAGES, *[hostile_fields] * 10, *[hostile_lines] * 6)
_STORED = (*DAMAGES, *[hostile_tensors] * 10, *[hostile_description] * 16, *[hostile_numbers] * 20)
_JSON = (*DAMAGES, *[hostile_json] * 20)
_FOLDER: dict[str, Sequence[Damage]] = {
    ".safetensors": _STORED,
    ".json": _JSON,
    ".jsonl": _JSON,
    ".parquet": (*DAMAGES, *[containers.hostile_columns] * 3),
}
_RUN = tuple(f"run/{name}" for name in ("last.safetensors", "best.safetensors", "model.safetensors", "metrics.jsonl"))
_ARRAY = (*DAMAGES, *[containers.hostile_array] * 10)
_ZIP = (*DAMAGES, *[containers.within_zip((*DAMAGES, *[containers.hostile_array] * 10))] * 10)
_GZIP = (*DAMAGES, *[containers.within_gzip(_TEXT)] * 10)
# Cells are text of XML, in several members of an archive.
_SHEET = (*DAMAGES, *[containers.within_zip((*_TEXT, *[hostile_xml] * 30))] * 20)

_ALLOWED = 24 << 20  # bytes of contents, which with copies, 2.5 times as much, stay below what any input may take
_VICTIMS = {"places": ("places.safetensors",)}

READERS: dict[str, Reader] = {
    ".csv": Reader(_table, _TEXT, 10),
    ".tsv": Reader(_table, _TEXT, 4),
    ".parquet": Reader(_table, (*DAMAGES, *[containers.hostile_columns] * 3), 10),
    "columns, text": Reader(_columns, _TEXT, 8),
    "columns, compressed": Reader(_columns, _GZIP, 3),
    "columns, zip": Reader(_columns, (*DAMAGES, *[containers.within_zip(_TEXT)] * 10), 3),
    "columns, JSON lines": Reader(_columns, (*_TEXT, *[hostile_json] * 5), 4),
    "columns, Feather": Reader(_columns, DAMAGES, 4),
    "columns, Parquet": Reader(_columns, (*DAMAGES, *[containers.hostile_columns] * 3), 6),
    **({"columns, Excel": Reader(_columns, _SHEET, 4)} if find_spec("openpyxl") else {}),
    ".npy": Reader(_table, _ARRAY, 5),
    ".npz": Reader(_table, _ZIP, 5),
    ".h5ad": Reader(_table, (*DAMAGES, *[containers.hostile_cells] * 10), 3),
    "edges, lines": Reader(load_edges, _TEXT, 10),
    "edges, table": Reader(load_edges, _TEXT, 8),
    "edges, compressed": Reader(load_edges, _GZIP, 4),
    "edges, Matrix Market": Reader(load_edges, _TEXT, 4),
    "edges, NumPy": Reader(load_edges, (*_ARRAY, *_ZIP[len(DAMAGES) :]), 4),
    "edges, Parquet": Reader(load_edges, (*DAMAGES, *[containers.hostile_columns] * 3), 4),
    "MNIST": Reader(_images, (*DAMAGES, *[containers.within_gzip(DAMAGES)] * 5), 2.7),
    "graph of the paper": Reader(_paper, _TEXT, 2.7),
    "checkpoint": Reader(_checkpoint, _STORED, 8),
    "run of a table": Reader(use_run, _STORED, 8, folders=0.1),
    "PoincareVAE": Reader(_vae, _STORED, 4),
    "run of a graph": Reader(
        use_graph, _STORED, 8, folders=0.2, bound=("model.safetensors", "last.safetensors", "graph.safetensors")
    ),
    "PoincareGraphVAE": Reader(_graph_vae, _STORED, 3),
    "CellModel": Reader(_cell_model, _STORED, 3),
    "index": Reader(use_index, _STORED, 10, folders=0.1),
    "resume, table": Reader(
        use_resume,
        _FOLDER,
        12,
        folders=0.3,
        victims=("run/last.safetensors",) * 6 + ("run/best.safetensors", "run/metrics.jsonl", "run/model.safetensors"),
        bound=("run/best.safetensors", "run/last.safetensors"),
        writes=_RUN,
    ),
    "resume, graph": Reader(
        use_resume,
        _FOLDER,
        6,
        folders=0.3,
        victims=("run/last.safetensors",) * 6 + ("run/graph.safetensors", "run/metrics.jsonl"),
        bound=("run/last.safetensors",),
        writes=(*_RUN, "run/graph.safetensors"),
    ),
    "embedding folder": Reader(
        use_embedding,
        _FOLDER,
        6,
        folders=0.4,
        victims=("z/_embedding.json",) * 2 + ("z/part-00000.parquet", "z/part-00001.parquet", "z/part-00002.parquet"),
        writes=("z/_embedding.json", "z/part-00000.parquet", "z/part-00001.parquet", "z/part-00002.parquet"),
    ),
}

# Of files that are sound and ask for much, which take longer to make and to read.
STRUCTURED: dict[str, Reader] = {
    f"structure, {name}": Reader(load, kinds, 1, victims=_VICTIMS.get(name, ()), memory=_ALLOWED)
    for name, (load, kinds) in STRUCTURES.items()
}
