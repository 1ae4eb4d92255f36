"""Files of edges by their kind: text, Parquet tables, saved matrices, also compressed."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np

from horoball.data.files.limits import check_held, check_nodes, check_rows
from horoball.data.files.numpy_files import load_arrays
from horoball.data.files.parse_errors import parsing
from horoball.data.readers.edge_lines import EdgeLines, Ends, ends_of, named_ends
from horoball.data.readers.triples import refuse_triples
from horoball.data.tables.row_groups import read_whole

__all__ = ["read_edge_file"]

_NETWORKX = {"graphml": "GraphML", "gml": "GML", "gexf": "GEXF"}
_PART = 1 << 20  # bytes that are decompressed at once
_EDGE = 128  # bytes that a line of text takes on the way: two ids, their order, their numbers and copies of these
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")


def read_edge_file(path: str, comment: str | None = None) -> Ends | np.ndarray | Any:
    """The edges of a file: two columns of ids, an array of pairs, or a scipy sparse adjacency matrix.

    Args:
        path: A path or URL. `.csv`, `.tsv`, `.parquet`, `.npy` and `.npz` are told by their endings, Matrix Market by
            its first line; anything else is lines of ids between blanks, tabs or commas. `.gz` may follow.
        comment: What lines of text that are comments begin with; without it they are those before the first edge that
            begin with # or %.

    Example:
        >>> read_edge_file("missing.edges")
        Traceback (most recent call last):
            ...
        FileNotFoundError: There is no file missing.edges.
    """
    data = _bytes(path)
    ending = next((s for s in reversed(Path(path.lower()).suffixes) if s not in _COMPRESSED), "")
    _refuse_networkx(path, ending, data[:1000])
    if ending == ".parquet":
        return _parquet(path, data)
    if ending in (".npy", ".npz"):
        return _numpy(path, data)
    if b"\0" in data:
        raise ValueError(
            f"{path} is not text in UTF-8: it holds a zero byte. Expected a line with two node ids for each edge, or a "
            "file that ends in .parquet, .npz or .npy."
        )
    if data.startswith(b"%%MatrixMarket"):
        import scipy.io

        with parsing(path, "Matrix Market file"):
            # scipy reads on beyond a last line that has no end (version 1.17), and ends the process.
            _check_entries(io.BytesIO(data + b"\n"), len(data))
            return scipy.io.mmread(io.BytesIO(data + b"\n"))
    with parsing(path):
        check_held(_EDGE * data.count(b"\n"), _stored(path), "the list of its edges")
    return EdgeLines(path, data, {".csv": ",", ".tsv": "\t"}.get(ending), comment).ends()


def _refuse_networkx(path: str, ending: str, start: bytes) -> None:
    """Say who reads GraphML, GML and GEXF: their tags and brackets would be taken for ids."""
    kind = next((name for name in _NETWORKX if ending == f".{name}"), None)
    if start.lstrip().startswith((b"<?xml", b"<graphml", b"<gexf")):
        kind = "gexf" if b"<gexf" in start else "graphml"
    elif re.search(rb"^\s*graph\s*\[", start, re.MULTILINE):
        kind = "gml"
    if kind is not None:
        raise ValueError(
            f"{path} is a {_NETWORKX[kind]} file, which is not read. In Python, pass the graph that networkx reads: "
            f"read_graph(networkx.read_{kind}(path)); for a command, write its edges with networkx.write_edgelist."
        )


def _bytes(path: str) -> bytes:
    """What a file holds, decompressed."""
    import fsspec

    if "://" not in path and Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected a file of edges.")
    if "://" not in path and not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    with parsing(path), fsspec.open(path, "rb", compression="infer") as opened:
        file: Any = opened
        data, size = bytearray(), _stored(path)
        while part := file.read(_PART):
            data += part
            check_held(len(data), size, "its compressed text")
        return bytes(data)


def _stored(path: str) -> int:
    """Bytes of a file, compressed as it may be."""
    import fsspec

    with fsspec.open(path, "rb") as stored:
        return int(stored.seek(0, 2))


def _check_entries(file: io.BytesIO, size: int) -> None:
    """Refuse a Matrix Market file whose header tells of more entries than its lines can hold: scipy believes it."""
    import scipy.io

    rows, columns, entries, kind, _, symmetry = scipy.io.mminfo(file)
    shortest = 4 if kind == "coordinate" else 2  # bytes of a line: "1 1" or "1", and its end
    stored = entries if kind == "coordinate" or symmetry == "general" else entries // 2 - max(rows, columns)
    if min(rows, columns, entries) < 0 or stored * shortest > size + shortest:
        raise ValueError(f"its header tells of {entries:,} entries, which a file of {size:,} bytes does not hold")
    if min(rows, columns) == 0:  # of which scipy divides by none (version 1.17), and ends the process
        raise ValueError(f"it is a matrix of {rows:,} rows and {columns:,} columns, which has no nodes")
    check_nodes(rows, size)


def _parquet(path: str, data: bytes) -> Ends:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    check_rows(file.metadata.num_rows, len(data))
    names = file.schema_arrow.names
    columns = [names[position] for position in ends_of(names, path)]
    if any(names.count(name) > 1 for name in columns):
        raise ValueError(
            f"{path} has columns of the same name, {columns[0][:40]!r} or {columns[1][:40]!r}. Rename them."
        )
    facts = len(names) == 3 and named_ends(names) is None
    with parsing(path, "Parquet file"):
        table = read_whole(io.BytesIO(data), names if facts and len(set(names)) == 3 else columns, _stored(path))
    if facts:
        some = table.slice(0, 1000)
        refuse_triples(zip(*(column.to_pylist() for column in some.columns), strict=True), path)
    return Ends(table.column(columns[0]), table.column(columns[1]))


def _numpy(path: str, data: bytes) -> Any:
    with parsing(path, ".npy or .npz file"):
        loaded = load_arrays(io.BytesIO(data))
    if isinstance(loaded, dict):
        raise ValueError(
            f"{path} is not a saved scipy sparse matrix; it holds the arrays {', '.join(list(loaded)[:8])[:200]}. Save "
            "the adjacency with scipy.sparse.save_npz."
        )
    return loaded
