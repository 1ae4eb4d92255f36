"""Small tables in every format, and what is read of them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import scipy.sparse

from horoball.graphs import Graph, read_graph
from horoball.tables import Table, read

RNG = np.random.default_rng(7)
X = RNG.normal(size=(12, 3)).round(3)
COUNTS = RNG.poisson(2.0, (12, 4)).astype(float)
VECTORS = RNG.normal(size=(12, 5)).astype(np.float32)
KINDS = ["a", "b", "c"] * 4
NUMBERS = pd.DataFrame(X, columns=["u", "v", "w"])
LABELED = NUMBERS.assign(kind=KINDS, id=[f"r{i}" for i in range(12)])
MIXED = pd.DataFrame(
    {
        "height": [1.5, None, 1.7, 1.9, 2.0, 1.1, 1.2, None, 1.8, 1.6, 1.55, 1.45],
        "sex": ["f", "m", "f", None, "m", "f", "m", "f", "m", "f", "m", "f"],
        "visits": [0, 3, 1, 2, 0, 5, 1, 1, 2, 0, 4, 1],
        "smokes": [True, False] * 6,
        "since": pd.date_range("2024-01-30", periods=12, freq="17D").strftime("%Y-%m-%d"),
    }
)
LISTS = pa.table({"id": [f"r{i}" for i in range(12)], "vector": list(VECTORS), "kind": KINDS})
EDGES = [("lion", "cat"), ("tiger", "cat"), ("cat", "mammal"), ("dog", "mammal"), ("mammal", "animal")]


def _text(frame: pd.DataFrame, **style: Any) -> bytes:
    file = io.StringIO()
    frame.to_csv(file, index=False, **style)
    return file.getvalue().encode()


def _frames(frame: pd.DataFrame) -> dict[str, bytes | Callable[[Path], Any]]:
    """One frame in every format of named columns."""
    arrow = pa.Table.from_pandas(frame, preserve_index=False)

    def zipped(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("rows.csv", _text(frame))

    return {
        "rows.csv": _text(frame),
        "semicolons.csv": _text(frame, sep=";", decimal=","),
        "rows.tsv": _text(frame, sep="\t"),
        "rows.csv.gz": gzip.compress(_text(frame)),
        "rows.zip": zipped,
        "rows.xlsx": lambda path: frame.to_excel(path, index=False),
        "rows.jsonl": frame.to_json(orient="records", lines=True).encode(),
        "rows.feather": lambda path: feather.write_feather(arrow, str(path)),
        "rows.parquet": lambda path: pq.write_table(arrow, path, row_group_size=5),
    }


def _written(folder: Path, name: str, content: bytes | Callable[[Path], Any]) -> Path:
    path = folder / name
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)
    return path


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"|".join(parts)).hexdigest()[:16]


def describe(table: Table) -> dict[str, Any]:
    """A table in a few words; its values, as float32, by their hash, which is the same on all machines."""
    blocks = [block.numpy().astype("<f4") for block in table.blocks()]
    x = np.concatenate(blocks)
    x = np.where(np.isnan(x), np.float32(np.nan), x)  # one NaN of many
    labels, names = table.read_labels(), table.read_names()
    return {
        "class": type(table).__name__,
        "shape": list(x.shape),
        "columns": [str(name) for name in table.columns],
        "values": _digest(np.ascontiguousarray(x).tobytes()),
        "labels": None if labels is None else _digest(*(str(each).encode() for each in labels)),
        "names": None if names is None else _digest(*(str(each).encode() for each in list(names))),
        "schema": None if table.schema is None else list(table.schema.lines()),
        "reading": {key: str(value) for key, value in table.reading.items()},
    }


def describe_graph(graph: Graph) -> dict[str, Any]:
    """A graph, whole: it is small."""
    return {
        "nodes": graph.nodes,
        "edges": graph.edges.tolist(),
        "names": None if graph.names is None else [str(name) for name in graph.names],
        "directed": graph.directed,
        "features": None if graph.features is None else _digest(np.asarray(graph.features).tobytes()),
    }


def _cells() -> Any:
    import anndata

    cells = anndata.AnnData(scipy.sparse.csr_matrix(COUNTS))
    cells.obs_names = [f"cell {i}" for i in range(12)]
    cells.var_names = [f"gene {i}" for i in range(4)]
    cells.obs["kind"] = pd.Categorical(KINDS)
    cells.obs["batch"] = pd.Categorical(["x", "y"] * 6)
    return cells


def cases(folder: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """What is read, by a name: files are written to the folder when they are asked for."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}

    def add(name: str, read_it: Callable[[], Table]) -> None:
        def told() -> dict[str, Any]:
            try:
                return describe(read_it())
            except ValueError as error:
                return {"refused": str(error).replace(str(folder), "DIR")}

        found[name] = told

    for name, content in _frames(LABELED).items():
        file = f"labeled-{name}"
        make = lambda file=file, content=content: str(_written(folder, file, content))  # noqa: E731
        add(f"read {file}", lambda make=make: read(make(), "kind", ids="id", kind="numbers"))  # type: ignore[misc]
        add(f"read_columns {file}", lambda make=make: read(make(), "kind", ids="id"))  # type: ignore[misc]
    for name, content in _frames(MIXED).items():
        file = f"mixed-{name}"
        make = lambda file=file, content=content: str(_written(folder, file, content))  # noqa: E731
        add(f"read_columns {file}", lambda make=make: read(make()))  # type: ignore[misc]
    for name, content in {
        "headless.csv": "\n".join(",".join(map(str, row)) for row in X.tolist()).encode(),
        "crlf.csv": _text(NUMBERS).replace(b"\n", b"\r\n"),
        "bom.csv": b"\xef\xbb\xbf" + _text(NUMBERS),
        "wide.csv": b"\xff\xfe" + _text(NUMBERS).decode().encode("utf-16-le"),
        "index.csv": NUMBERS.to_csv().encode(),
        "quoted.csv": b'"u, the first","v"\n' + b"".join(f'"{a}",{b}\n'.encode() for a, b, _ in X.tolist()),
        "counts.csv": _text(pd.DataFrame(COUNTS.astype(int), columns=list("pqrs"))),
        "spaces.csv": _text(NUMBERS).replace(b",", b" , "),
    }.items():
        add(
            f"read {name}",
            lambda name=name, content=content: read(str(_written(folder, name, content)), kind="numbers"),
        )  # type: ignore[misc]
    add("read_columns counts.csv", lambda: read(str(folder / "counts.csv")))
    gaps = _text(MIXED[["height", "visits"]], na_rep="n/a")
    add("read_columns gaps.csv", lambda: read(str(_written(folder, "gaps.csv", gaps))))
    words = _text(MIXED[["height", "sex"]], na_rep="unknown")
    add("read_columns words.csv", lambda: read(str(_written(folder, "words.csv", words)), na=["unknown"]))
    add("read_columns kinds", lambda: read(MIXED, columns={"visits": "ordinal"}, drop=["since"]))
    add("read_columns frame", lambda: read(MIXED))
    add("read array", lambda: read(X, kind="numbers"))
    add("read sparse", lambda: read(scipy.sparse.csr_matrix(COUNTS), kind="numbers"))
    add("read frame", lambda: read(LABELED, "kind", ids="id", kind="numbers"))
    add("read list", lambda: read(X.tolist(), kind="numbers"))

    def saved(name: str, save: Callable[[Path], Any]) -> str:
        save(folder / name)
        return str(folder / name)

    add("read x.npy", lambda: read(saved("x.npy", lambda path: np.save(path, X)), kind="numbers"))
    add("read x.npz", lambda: read(saved("x.npz", lambda path: np.savez(path, X)), kind="numbers"))
    sparse = scipy.sparse.csr_matrix(COUNTS)
    add(
        "read sparse.npz",
        lambda: read(saved("sparse.npz", lambda path: scipy.sparse.save_npz(path, sparse)), kind="numbers"),
    )
    add(
        "read streamed",
        lambda: read(saved("s.parquet", _frames(NUMBERS)["rows.parquet"]), streamed=True, kind="numbers"),
    )  # type: ignore[arg-type]
    add("read_vectors frame", lambda: read(LISTS, kind="vectors", ids="id", label="kind"))
    add("read_vectors array", lambda: read(VECTORS, kind="vectors"))
    lists = saved("lists.parquet", lambda path: pq.write_table(LISTS, path))
    add("read_vectors lists.parquet", lambda: read(lists, "kind", kind="vectors", vectors="vector", ids="id"))
    add("read_vectors streamed", lambda: read(lists, kind="vectors", vectors="vector", streamed=True))
    add(
        "read cells.h5ad",
        lambda: read(saved("cells.h5ad", lambda path: _cells().write_h5ad(path)), "kind", kind="numbers"),
    )
    add("read AnnData", lambda: read(_cells(), "kind", kind="numbers"))

    def add_graph(name: str, read_it: Callable[[], Graph]) -> None:
        found[f"read_graph {name}"] = lambda: describe_graph(read_it())

    pairs = "\n".join(" ".join(pair) for pair in EDGES).encode()
    table = pd.DataFrame(EDGES, columns=["child", "parent"])
    add_graph("pairs.txt", lambda: read_graph(str(_written(folder, "pairs.txt", b"# said\n" + pairs))))
    add_graph("pairs.csv", lambda: read_graph(str(_written(folder, "pairs.csv", _text(table))), directed=True))
    add_graph("pairs.tsv", lambda: read_graph(str(_written(folder, "pairs.tsv", _text(table, sep="\t")))))
    add_graph("pairs.txt.gz", lambda: read_graph(str(_written(folder, "pairs.txt.gz", gzip.compress(pairs)))))
    add_graph("pairs.parquet", lambda: read_graph(saved("pairs.parquet", lambda path: table.to_parquet(path))))
    add_graph("array", lambda: read_graph(np.array([[0, 1], [1, 2], [5, 2]])))
    add_graph("list", lambda: read_graph(EDGES, np.eye(6)))
    return found


def as_json(value: Any) -> Any:
    """A value as it comes back from a file."""
    return json.loads(json.dumps(value))
