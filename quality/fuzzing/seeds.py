"""Small sound files of every kind that is read, as bytes by their names in a folder."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tempfile
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quality.fuzzing.folders import Folder
from quality.fuzzing.run_seeds import embedding_seeds, run_seeds

__all__ = ["Files", "seeds"]

Files = dict[str, bytes]

_CSV = b'a,b,c,kind\n1,-2.5,0,u\n0,3,1e-3,"v, w"\n7,0,4,u\n0.25,9,-1,w\n'
_MIXED = b"""day;kind;x;n;yes\n2024-01-31;u;1,5;3;true\n2024-02-29;v;;0;false\n;;-2,25;7;true\n2024-04-01;u;0,5;1;\n"""
_NUMBERS = b"x,y\n1,2\n3,4\n5,6\n"
_EDGES = [
    b"# a tree\n0 1\n0 2\n1 3\n1 4\n2 5\n",
    b"cat  animal 0.5\ndog animal\nlion\tcat {}\n",
    b"% weights\n10\t20\t0.5\n20\t30\t0.25\n-7\t10\t1\n",
    b"0,1\n1,2\n2,3\n",
]
_EDGE_TABLES = [b"weight,source,target\n0.5,ann,bob\n1,bob,eve\n", b"a,b\n1,2\n2,30\n", b'x,y\n"a, b",c\nc,d\n']
_MATRIX = [
    b"%%MatrixMarket matrix coordinate pattern symmetric\n% note\n4 4 3\n2 1\n3 2\n4 1\n",
    b"%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 0.5\n2 3 1e0\n",
    b"%%MatrixMarket matrix array integer general\n2 2\n0\n1\n1\n0\n",
]


@cache
def seeds(readers: tuple[str, ...] = ()) -> dict[str, list[Folder]]:
    """The files of each reader.

    Args:
        readers: Those that are asked for; models are trained only if one of them reads models. All, if none is named.
    """
    files: dict[str, list[Folder]] = {}
    for some in (_tables(), _columns(), _graphs(), _published()):
        files |= _copied(some)
    files |= _structures(files) | _trees() | _places()
    if readers and files.keys() >= set(readers):
        return files
    files |= _copied(_runs()) | _copied(_index()) | run_seeds() | embedding_seeds()
    for folder in files["resume, graph"]:  # so that there are graphs of the same size
        run = {name.removeprefix("run/"): data for name, data in folder.items() if name.startswith("run/")}
        files["run of a graph"].append({name: run[name] for name in ("model.safetensors", "graph.safetensors")})
    return files | {"structure, run": files["run of a table"], "structure, index": files["index"]}


def _copied(some: dict[str, list[Files]]) -> dict[str, list[Folder]]:
    return {reader: [dict(folder) for folder in folders] for reader, folders in some.items()}


def _structures(files: dict[str, list[Folder]]) -> dict[str, list[Folder]]:
    """The files from which those are made that ask for much."""
    alike = {name: f"columns, {name}" for name in ("compressed", "zip", "JSON lines", "Parquet", "Excel")}
    alike |= {"text": ".csv", "cells": ".h5ad"}
    out = {f"structure, {name}": list(files[other]) for name, other in alike.items()}
    arrow: list[Folder] = [{"x.arrow": data} for folder in files["columns, Feather"] for data in folder.values()]
    out["structure, Feather"] = [*files["columns, Feather"], *arrow]
    out["structure, NumPy"] = [*files[".npy"], *files[".npz"]]
    lines = [*files["edges, lines"], *files["edges, compressed"]]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("e.txt", _EDGES[0])
    out["structure, edges"] = [*lines, {"e.txt.zip": packed.getvalue()}]
    out["structure, edges in arrays"] = [
        folder for name in ("Matrix Market", "NumPy", "Parquet") for folder in files[f"edges, {name}"]
    ]
    return out


def _trees() -> dict[str, list[Folder]]:
    from horoball.trees import Tree, tree_to_json

    trees = [
        Tree.from_merges([[0, 1], [2, 3]], [0.5, 1.5], names=["a", "b", "c"]),
        Tree.from_merges([[0, 1], [2, 3], [4, 5]], [0.5, 0.7, 1.5], names=list("abcd")),
    ]
    return {"structure, tree": [{"tree.json": tree_to_json(tree).encode()} for tree in trees]}


def _places() -> dict[str, list[Folder]]:
    from horoball.tables import ArrayTable
    from horoball.training import TrainConfig
    from horoball.trees import Placer
    from horoball.vae.train import train
    from horoball.vae.tree import save_places

    torch.manual_seed(0)
    points = torch.randn(4, 6).numpy()
    with tempfile.TemporaryDirectory() as name:
        run = train(ArrayTable(torch.randn(40, 6)), {"hidden": (4,)}, TrainConfig(max_epochs=1), Path(name) / "run")
        placer = Placer(points, [[0, 0], [0, 1], [1, 2], [1, 3]], (0.1, 0.1, 1.0, 0.0, 1.0, 0.0))
        save_places(placer, run, Path(name) / "run")
        files = _folder(Path(name) / "run")
    return {"structure, places": [{file: files[file] for file in ("model.safetensors", "places.safetensors")}]}


def _saved(save: Any, *arguments: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    save(out, *arguments, **options)
    return out.getvalue()


def _parquet(columns: dict[str, Any], **options: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, **options)
    return out.getvalue()


def _tables() -> dict[str, list[Files]]:
    import scipy.sparse

    x = np.array([[1.0, -2.5, 0.0], [0.0, 3.0, 1e-3], [7.0, 0.0, 4.0], [0.25, 9.0, -1.0]])
    columns = dict(zip("abc", x.T, strict=True)) | {"kind": ["u", "v", "u", "w"]}
    parquet = [
        _parquet(columns, row_group_size=3),
        _parquet(columns, row_group_size=2, compression="zstd", use_dictionary=False, write_statistics=False),
    ]
    sparse = scipy.sparse.csr_matrix(x)
    npz = [
        _saved(np.savez_compressed, x=x),
        _saved(np.savez, x=x.astype(np.float32)),
        _saved(scipy.sparse.save_npz, sparse),
    ]
    npz.append(_saved(scipy.sparse.save_npz, sparse.tocoo(), compressed=False))
    return {
        ".csv": [{"x.csv": data} for data in (_CSV, _NUMBERS)],
        ".tsv": [{"x.tsv": data.replace(b",", b"\t")} for data in (_CSV, _NUMBERS)],
        ".parquet": [{"x.parquet": data} for data in parquet],
        ".npy": [{"x.npy": _saved(np.save, array)} for array in (x, x.astype(np.int16), np.asfortranarray(x))],
        ".npz": [{"x.npz": data} for data in npz],
        ".h5ad": [{"x.h5ad": data} for data in _cells(np.abs(np.rint(x)))],
    }


def _columns() -> dict[str, list[Files]]:
    import json

    import pyarrow as pa
    import pyarrow.feather as feather

    texts = [_MIXED, _MIXED.replace(b";", b"\t"), _MIXED.replace(b",", b".").replace(b";", b",")]
    columns: dict[str, Any] = {
        "day": ["2024-01-31", "2024-02-29", None, "2024-04-01"],
        "kind": ["u", "v", None, "u"],
        "x": [1.5, None, -2.25, 0.5],
        "n": [3, 0, 7, 1],
        "yes": [True, False, True, None],
    }
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.csv", _MIXED)
    feathered = io.BytesIO()
    feather.write_feather(pa.table(columns), feathered, compression="uncompressed")
    return {
        "columns, text": [{"x.csv": data} for data in texts],
        "columns, compressed": [{"x.csv.gz": gzip.compress(data)} for data in texts],
        "columns, zip": [{"x.zip": packed.getvalue()}],
        "columns, JSON lines": [{"x.jsonl": lines.encode()}],
        "columns, Feather": [{"x.feather": feathered.getvalue()}],
        "columns, Parquet": [{"x.parquet": _parquet(columns, row_group_size=3)}],
        "columns, Excel": [{"x.xlsx": _spreadsheet(columns)}] if find_spec("openpyxl") else [],
    }


def _spreadsheet(columns: dict[str, Any]) -> bytes:
    from openpyxl import Workbook

    book, out = Workbook(write_only=True), io.BytesIO()
    sheet = book.create_sheet()
    for row in (list(columns), *zip(*columns.values(), strict=True)):
        sheet.append(row)
    book.save(out)
    return out.getvalue()


def _cells(counts: np.ndarray) -> list[bytes]:
    import anndata
    import scipy.sparse

    out = []
    with tempfile.TemporaryDirectory() as name:
        for form in (np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix):
            cells = anndata.AnnData(form(counts.astype(np.float32)))
            cells.obs["kind"] = ["u", "v", "u", "w"]
            cells.write_h5ad(Path(name) / "x.h5ad")
            out.append((Path(name) / "x.h5ad").read_bytes())
    return out


def _graphs() -> dict[str, list[Files]]:
    import scipy.sparse

    pairs = np.array([[0, 1], [1, 2], [2, 3], [0, 4]])
    ends = {"source": pairs[:, 0], "target": pairs[:, 1], "weight": np.ones(4)}
    adjacency = scipy.sparse.coo_matrix((np.ones(4), pairs.T), shape=(5, 5)).tocsr()
    texts = [("e.edges", data) for data in _EDGES]
    tables = [("e.csv", data) for data in _EDGE_TABLES] + [("e.tsv", _EDGE_TABLES[0].replace(b",", b"\t"))]
    packed = [("e.edges.gz", gzip.compress(_EDGES[0], mtime=0)), ("e.csv.gz", gzip.compress(_EDGE_TABLES[0], mtime=0))]
    packed += [("e.txt.bz2", bz2.compress(_EDGES[1])), ("e.txt.xz", lzma.compress(_EDGES[1]))]
    arrays = [("e.npy", _saved(np.save, array)) for array in (pairs, pairs.T.astype(np.float64))]
    arrays.append(("e.npz", _saved(scipy.sparse.save_npz, adjacency)))
    words = {"a": ["cat", "dog"], "b": ["animal", "animal"]}
    parquet = [("e.parquet", _parquet(columns)) for columns in (ends, words)]
    kinds = {"lines": texts, "table": tables, "compressed": packed, "NumPy": arrays, "Parquet": parquet}
    kinds["Matrix Market"] = [("e.mtx", data) for data in _MATRIX]
    return {f"edges, {kind}": [{name: data} for name, data in files] for kind, files in kinds.items()}


def _published() -> dict[str, list[Files]]:
    """Files of the right names; the checksums of the real ones are not theirs."""
    pixels = b"\x00\x00\x08\x03" + np.array([2, 28, 28], ">i4").tobytes() + bytes(range(256)) * 6 + bytes(32)
    labels = b"\x00\x00\x08\x01" + np.array([2], ">i4").tobytes() + b"\x01\x02"
    names = {"mnist/t10k-images-idx3-ubyte.gz": pixels, "mnist/t10k-labels-idx1-ubyte.gz": labels}
    images = {name: gzip.compress(data, mtime=0) for name, data in names.items()}
    return {"MNIST": [images], "graph of the paper": [{"graphs/csphd.edges": _EDGES[0]}]}


def _folder(path: Path) -> Files:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*.safetensors"))}


def _runs() -> dict[str, list[Files]]:
    from horoball.cells import CellModel, fit, simulate
    from horoball.graphs import PoincareGraphVAE, read_graph
    from horoball.graphs.run import train_graph
    from horoball.tables import ArrayTable
    from horoball.training import TrainConfig
    from horoball.vae.estimator import PoincareVAE
    from horoball.vae.train import train

    torch.manual_seed(0)
    rows, config = torch.randn(40, 4), TrainConfig(max_epochs=1)
    table, graph, estimators, graph_estimators, cells = [], [], [], [], []
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        train(ArrayTable(rows, list("abcd")), {"hidden": (3,)}, config, top / "a")
        train(ArrayTable(rows.abs().round()), {"hidden": (3,), "posterior": "wrapped"}, config, top / "b")
        for folder in (top / "a", top / "b"):
            files = _folder(folder)
            table += [
                {"model.safetensors": files["model.safetensors"]},
                {"last.safetensors": files["last.safetensors"]},
            ]
        PoincareVAE(max_epochs=1, hidden=(3,), random_state=0, distance_weight=0.0).fit(rows.numpy()).save(top / "c")
        estimators += [_folder(top / "c"), table[0]]
        edges = read_graph([("cat", "animal"), ("dog", "animal"), ("lion", "cat"), ("puma", "cat"), ("wolf", "dog")])
        features = torch.randn(edges.nodes, 3)
        train_graph(edges, {"d": 2}, config, top / "d", test=0.2)
        train_graph(read_graph(edges, features), {"d": 2, "hidden": 2}, config, top / "e")
        for folder in (top / "d", top / "e"):
            files = _folder(folder)
            last = {file: files[file] for file in ("last.safetensors", "graph.safetensors")}
            graph += [{file: files[file] for file in ("model.safetensors", "graph.safetensors")}, last]
        PoincareGraphVAE(max_epochs=1, random_state=0).fit(edges).save(top / "f")
        graph_estimators += [_folder(top / "f"), graph[0]]
        some = simulate(depth=2, cells=30, genes=8)
        options: dict[str, Any] = {"max_epochs": 1, "hidden": (3,), "n_neighbors": None}
        model: CellModel = fit(some, batch_key="batch", **options)
        model.save(top / "g")
        cells.append(_folder(top / "g"))
    return {
        "checkpoint": [{"last.safetensors": files["last.safetensors"]} for files in table[1::2]],
        "run of a table": table,
        "PoincareVAE": estimators,
        "run of a graph": graph,
        "PoincareGraphVAE": graph_estimators,
        "CellModel": cells,
    }


def _index() -> dict[str, list[Files]]:
    from horoball.geometry import PoincareBall
    from horoball.neighbors import Index

    ball, out = PoincareBall(1.0), []
    z = torch.randn(1001, 2, generator=torch.Generator().manual_seed(0))
    with tempfile.TemporaryDirectory() as name:
        for number, names in enumerate((None, ["cat", "dog", "lion"], [7, 8, 9])):
            Index(ball).add(z[: 300 if names is None else 3], names).save(Path(name) / str(number))
            out.append(_folder(Path(name) / str(number)))
        partitioned = Index(ball, recall=0.9, exact_up_to=1000)  # the fewest, so that files are small
        partitioned.add(z, [f"name {i}" for i in range(len(z))]).save(Path(name) / "in part")
        out.append(_folder(Path(name) / "in part"))
    return {"index": out}
