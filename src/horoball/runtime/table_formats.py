"""Table formats that come with the package: which module reads files with which ending.

This module imports nothing, so that the help text of a command can name the formats without importing torch. The
readers register themselves with `horoball.data.readers.registry.table_reader`.
"""

from __future__ import annotations

__all__ = ["TABLE_FORMATS", "one_of"]

TABLE_FORMATS = {
    ".csv": "horoball.data.readers.delimited",
    ".tsv": "horoball.data.readers.delimited",
    ".parquet": "horoball.data.readers.parquet",
    ".csv.gz": "horoball.data.readers.frames",
    ".tsv.gz": "horoball.data.readers.frames",
    ".zip": "horoball.data.readers.frames",
    ".xlsx": "horoball.data.readers.frames",
    ".feather": "horoball.data.readers.frames",
    ".arrow": "horoball.data.readers.frames",
    ".jsonl": "horoball.data.readers.frames",
    ".npy": "horoball.data.readers.arrays",
    ".npz": "horoball.data.readers.arrays",
    ".h5ad": "horoball.data.readers.cells",
}


def one_of(endings: list[str]) -> str:
    """Endings as words of a sentence.

    Example:
        >>> one_of([".csv", ".npy", ".h5ad"])
        '.csv, .npy or .h5ad'
    """
    return " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
