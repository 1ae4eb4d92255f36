"""Files of edges by their kind: text, Parquet tables, saved matrices, also compressed."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from horoball.data.edge_lines import EdgeLines, Ends, ends_of

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
    ending = next((s for s in reversed(Path(path).suffixes) if s not in _COMPRESSED), "").lower()
    if ending == ".parquet":
        return _parquet(path, data)
    if ending in (".npy", ".npz"):
        return _numpy(path, data)
    if data.startswith(b"%%MatrixMarket"):
        import scipy.io

        try:
            return scipy.io.mmread(io.BytesIO(data))
        except ValueError as error:
            raise ValueError(f"{path} is not a readable Matrix Market file: {error}") from None
    if b"\0" in data:
        raise ValueError(
            f"{path} is not text in UTF-8: it holds a zero byte. Expected a line with two node ids for each edge, or a "
            "file that ends in .parquet, .npz or .npy."
        )
    return EdgeLines(path, data, {".csv": ",", ".tsv": "\t"}.get(ending)).ends()


def _bytes(path: str) -> bytes:
    """What a file holds, decompressed."""
    import fsspec

    if "://" not in path and Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected a file of edges.")
    if "://" not in path and not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with fsspec.open(path, "rb", compression="infer") as file:
            return bytes(file.read())
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        if Path(path).suffix not in _COMPRESSED or isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise ValueError(f"{path} is not a readable {Path(path).suffix} file: {error}") from None


def _parquet(path: str, data: bytes) -> Ends:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        names = file.schema_arrow.names
        columns = [names[position] for position in ends_of(names, path)]
        table = file.read(columns=columns)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a readable .parquet file: {str(error).splitlines()[0]}") from None
    return Ends(table.column(columns[0]), table.column(columns[1]))


def _numpy(path: str, data: bytes) -> Any:
    import scipy.sparse

    if not data.startswith((b"\x93NUMPY", b"PK")):  # numpy would take it for a pickle, and advise to trust it
        raise ValueError(f"{path} is not a readable .npy or .npz file: it does not begin as one.")
    try:
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        if "format" in loaded.files:
            return scipy.sparse.load_npz(io.BytesIO(data))
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        first = (str(error) or "it is empty").splitlines()[0]
        raise ValueError(f"{path} is not a readable .npy or .npz file: {first}") from None
    raise ValueError(
        f"{path} is not a saved scipy sparse matrix; it holds the arrays {', '.join(loaded.files[:8])}. Save the "
        "adjacency with scipy.sparse.save_npz."
    )
