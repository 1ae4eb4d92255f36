"""Readers of files that are sound in themselves and ask for much: nesting, references, dictionaries, stated sizes."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from quality.fuzzing.damage import DAMAGES, Damage
from quality.fuzzing.growing import grown_archive, grown_arrow, grown_parquet, stated_array, streams
from quality.fuzzing.nesting import nested_json, stated_matrix, tree_shapes, uneven_edges, uneven_lines
from quality.fuzzing.references import grown_places, repeated_cells, repeated_strings, repeated_tensors
from quality.fuzzing.uses import use_index, use_run

__all__ = ["STRUCTURES", "load_edges"]

Use = Callable[[], object]


def _mostly(damage: Damage) -> Sequence[Damage]:
    """A change of structure, in a few inputs with damage to bytes before or after it."""
    return (*[damage] * 50, *DAMAGES)


def load_structured(folder: Path) -> Use:
    """Read a table, with a label or ids or neither, as the file's checksum says: all of them see the same inputs."""
    from horoball.tables import read

    path = next(folder.iterdir())
    way = zlib.crc32(path.read_bytes()) % 4
    if path.suffix in (".npy", ".npz", ".h5ad"):
        table = read(path)
    elif way == 0:
        table = read(path, "kind", label_may_miss=True)
    else:
        ways: tuple[dict[str, Any], ...] = ({}, {"label": "kind"}, {"ids": "kind"})
        table = read(path, **ways[way - 1])
    rows = sum(len(block) for block in table.blocks(4096))
    if rows != table.rows:
        raise AssertionError(f"{rows} rows of {table.rows} were read")
    labels = table.read_labels()
    if labels is not None and len(labels) != rows:
        raise AssertionError(f"{len(labels)} labels of {rows} rows were read")
    return lambda: None


def load_edges(folder: Path) -> Use:
    """Read a graph; every edge has nodes of it."""
    from horoball.graphs import read_graph

    graph = read_graph(next(folder.iterdir()))
    if int(graph.edges.max()) >= graph.nodes or int(graph.edges.min()) < 0:
        raise AssertionError(f"an edge beyond {graph.nodes} nodes was read")
    return lambda: None


def load_tree(folder: Path) -> Use:
    """Read the JSON of a tree; what it is written as is read again, and is the same."""
    from horoball.trees import tree_from_json, tree_to_json

    path = folder / "tree.json"
    try:
        tree = tree_from_json(path.read_text("utf-8", errors="replace"))
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise ValueError(f"{path}: {error}") from None  # a text has no name

    def use() -> None:
        text = tree_to_json(tree)
        if tree_to_json(tree_from_json(text)) != text:
            raise AssertionError("a tree is written and read as another")
        if not np.isfinite(tree.depth).all() or tree.to_newick().count(",") < tree.leaves - 1 - (tree.leaves == 1):
            raise AssertionError("depths are not finite, or leaves are not written")
        repr(tree)

    return use


def load_places(folder: Path) -> Use:
    """Load the groups of a run, and place rows."""
    from horoball.vae.run import Run
    from horoball.vae.tree import load_places as load

    placer = load(folder, Run.load(folder))

    def use() -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All rows are placed at the root")  # few rows were held out
            placed = placer.place(np.concatenate([placer.points[:2], 0.5 + np.zeros_like(placer.points[:1])]))
        chances = placed.probability
        if not np.isfinite(chances).all() or (chances < -1e-6).any() or (chances > 1 + 1e-6).any():
            raise AssertionError("probabilities are not from 0 to 1")

    return use


# Of each target: what reads it, and how files are made, by the ending of their names.
_ARRAYS = {".npy": _mostly(stated_array), ".npz": _mostly(grown_archive("x.npy", stated_array))}
STRUCTURES: dict[str, tuple[Callable[[Path], Use], dict[str, Sequence[Damage]]]] = {
    "text": (load_structured, {".csv": _mostly(uneven_lines)}),
    "compressed": (load_structured, {".gz": _mostly(streams(uneven_lines, "gz"))}),
    "zip": (
        load_structured,
        {".zip": (*_mostly(grown_archive("x.csv", uneven_lines)), *[grown_archive("x.parquet", grown_parquet)] * 50)},
    ),
    "JSON lines": (load_structured, {".jsonl": _mostly(nested_json)}),
    "Feather": (load_structured, {".feather": _mostly(grown_arrow), ".arrow": _mostly(grown_arrow)}),
    "Parquet": (load_structured, {".parquet": _mostly(grown_parquet)}),
    **({"Excel": (load_structured, {".xlsx": _mostly(repeated_strings)})} if find_spec("openpyxl") else {}),
    "NumPy": (load_structured, _ARRAYS),
    "cells": (load_structured, {".h5ad": _mostly(repeated_cells)}),
    "edges": (
        load_edges,
        {
            ".edges": _mostly(uneven_edges),
            ".gz": _mostly(streams(uneven_edges, "gz")),
            ".bz2": _mostly(streams(uneven_edges, "bz2")),
            ".xz": _mostly(streams(uneven_edges, "xz")),
            ".zip": _mostly(streams(uneven_edges, "zip")),
        },
    ),
    "edges in arrays": (
        load_edges,
        _ARRAYS | {".mtx": _mostly(stated_matrix), ".parquet": _mostly(grown_parquet)},
    ),
    "run": (use_run, {".safetensors": _mostly(repeated_tensors)}),
    "index": (use_index, {".safetensors": _mostly(repeated_tensors)}),
    "tree": (load_tree, {".json": _mostly(tree_shapes)}),
    "places": (load_places, {".safetensors": _mostly(grown_places)}),
}
