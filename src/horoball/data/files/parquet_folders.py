"""Parquet files of a folder: which of them hold its rows, and which folders have a log that tells."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from horoball.runtime.table_formats import TABLE_FORMATS

__all__ = ["parquet_files"]

_DELTA, _HUDI, _ICEBERG = "_delta_log", ".hoodie", "metadata"
# What reads the rows of these, and gives them to us as an Arrow table.
_READS = {
    "a Delta table": "deltalake.DeltaTable(path).to_pyarrow_table()",
    "an Iceberg table": "pyiceberg.table.StaticTable.from_metadata(path).scan().to_arrow()",
    "a Hudi table": "spark.read.format('hudi').load(path).toPandas()",
}
_OTHERS = (*(ending for ending in TABLE_FORMATS if ending != ".parquet"), ".pq", ".orc", ".avro")
_log = logging.getLogger("horoball")


def parquet_files(path: str) -> list[str]:
    """The Parquet files that a path stands for: itself, or those of a folder and its subfolders, in the order of names.

    Names that begin with a dot or an underscore are what systems leave beside the rows, as `_metadata` and `.x.crc`;
    they are not read, as in Spark and Arrow.

    Raises:
        ValueError: The folder holds no such file, or is one of a format that keeps deleted rows in such files.

    Example:
        >>> parquet_files("s3://rows/part.parquet")
        ['s3://rows/part.parquet']
    """
    if "://" in path or not Path(path).is_dir():
        return [path]
    _refuse_format(path)
    found, others = [], []
    for top, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for name in folders:
            _refuse_folder(path, Path(top) / name)
        for name in sorted(files):
            if not _is_hidden(name) and name.lower().endswith(".parquet"):
                found.append(str(Path(top) / name))
            elif not _is_hidden(name) and name.lower().endswith(_OTHERS):
                others.append(name)
    if not found:
        raise ValueError(f"The folder {path} holds no .parquet files.")
    if others:
        _log.warning(
            "Not read, as %s is a folder of Parquet files: %s.", path, ", ".join(name[:40] for name in others[:5])
        )
    return sorted(found)


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _refuse_format(path: str) -> None:
    """Refuse a folder that belongs to a table whose log says which of its files, and which of their rows, are left."""
    folder = Path(path).resolve()
    for place in (folder, *folder.parents):
        kind = None
        if (place / _DELTA).is_dir():
            kind = "a Delta table"
        elif (place / _HUDI).is_dir():
            kind = "a Hudi table"
        elif any((place / _ICEBERG).glob("*.metadata.json")) or (place / _ICEBERG / "version-hint.text").exists():
            kind = "an Iceberg table"
        if kind is not None:
            of = "" if place == folder else f" part of {place},"
            raise ValueError(
                f"{path} is{of} {kind}. Its Parquet files hold deleted and replaced rows too, so it is not read as a "
                f"folder of files. In Python, pass the table that {_READS[kind]} gives; for a command, write that to a "
                ".parquet file first."
            )


def _refuse_folder(path: str, folder: Path) -> None:
    name = folder.name
    if folder.is_symlink():
        raise ValueError(f"{path} holds a link to another folder, {name!r}, which is not followed. Give that one too.")
    if "=" in name:
        raise ValueError(
            f"{path} is partitioned: the folder {name[:60]!r} holds the value of a column in its name, which would be "
            "lost. In Python, pass pyarrow.dataset.dataset(path, partitioning='hive').to_table(); for a command, write "
            "that to a .parquet file first."
        )
