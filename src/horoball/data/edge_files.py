"""Files of edges by their kind: text, Parquet tables, saved matrices, also compressed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from horoball.data.edge_lines import EdgeLines, Ends, ends_of
from horoball.data.numpy_files import load_arrays
from horoball.data.parsing import parsing

__all__ = ["read_edge_file"]

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")


def read_edge_file(path: str) -> Ends | np.ndarray | Any:
    """The edges of a file: two columns of ids, an array of pairs, or a scipy sparse adjacency matrix.

    Args:
        path: A path or URL. `.csv`, `.tsv`, `.parquet`, `.npy` and `.npz` are told by their endings, Matrix Market by
            its first line; anything else is lines of ids between blanks, tabs or commas. `.gz` may follow.

    Example:
        >>> read_edge_file("missing.edges")
        Traceback (most recent call last):
            ...
        FileNotFoundError: There is no file missing.edges.
    """
    data = _bytes(path)
    ending = next((s for s in reversed(Path(path.lower()).suffixes) if s not in _COMPRESSED), "")
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
            return scipy.io.mmread(io.BytesIO(data + b"\n"))
    return EdgeLines(path, data, {".csv": ",", ".tsv": "\t"}.get(ending)).ends()


def _bytes(path: str) -> bytes:
    """What a file holds, decompressed."""
    import fsspec

    if "://" not in path and Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected a file of edges.")
    if "://" not in path and not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    with parsing(path), fsspec.open(path, "rb", compression="infer") as file:
        return bytes(file.read())


def _parquet(path: str, data: bytes) -> Ends:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    names = file.schema_arrow.names
    columns = [names[position] for position in ends_of(names, path)]
    if any(names.count(name) > 1 for name in columns):
        raise ValueError(
            f"{path} has columns of the same name, {columns[0][:40]!r} or {columns[1][:40]!r}. Rename them."
        )
    table = file.read(columns=columns)
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
