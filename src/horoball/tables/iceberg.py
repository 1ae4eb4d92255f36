"""Iceberg tables in files, without a catalog: which Parquet files hold the rows that are left."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_METADATA = "metadata"
_HINT = "version-hint.text"
_NAMED = re.compile(r"(?:v(\d+)|(\d+)-[^/]*?)(?:\.gz)?\.metadata\.json")
_ELSE = (
    "In Python, pass the table that pyiceberg.table.StaticTable.from_metadata(path).scan().to_arrow() gives; for a "
    "command, write that to a .parquet file first."
)


def is_description(name: str) -> bool:
    """Whether a name in the folder `metadata` is one of those by which an Iceberg table is known.

    Example:
        >>> is_description("00002-5f1c.metadata.json"), is_description("version-hint.text"), is_description("a.json")
        (True, True, False)
    """
    return name.endswith(".metadata.json") or name == _HINT


def iceberg_files(path: str, system: Any) -> list[str]:
    """The files with the rows of a table, in the order of names; refuses tables whose files hold other rows too.

    The table is as its newest description says: the one that `version-hint.text` names, or that with the highest
    version. Nothing is read that does not lie below the table's folder, whatever its description names.

    Args:
        path: The folder or the URL of the table.
        system: Its file system, of fsspec.
    """
    try:
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.manifest import FileFormat
        from pyiceberg.serializers import FromInputFile
        from pyiceberg.table import StaticTable
    except ImportError:
        raise ImportError(
            f"{path} is an Iceberg table. Its Parquet files hold deleted and replaced rows too, which its metadata "
            'tells. Install what reads them: pip install "horoball[iceberg]".'
        ) from None
    inside = _inside(path, system)
    files = _reader(system, inside)
    described = inside(_newest(path, system))
    try:
        metadata = FromInputFile.table_metadata(files.new_input(described))
    except OSError:
        raise
    except Exception as error:  # of pyiceberg's own kinds
        raise ValueError(
            f"{described} is no description of an Iceberg table. Restore it, or name an older one in {_HINT}."
        ) from error
    # `StaticTable.from_metadata` would import whichever reader of files the description names.
    table = StaticTable(("table", path), metadata, described, files, NoopCatalog("none"))
    tasks = [] if metadata.current_snapshot() is None else list(table.scan().plan_files())
    if not tasks:
        raise ValueError(f"The Iceberg table {path} has no rows.")
    if any(task.delete_files for task in tasks):
        raise ValueError(
            f"{path} is an Iceberg table with deletes in files of their own: its Parquet files hold deleted rows. "
            f"Write these out first, with CALL system.rewrite_data_files of Spark. {_ELSE}"
        )
    if any(task.file.file_format != FileFormat.PARQUET for task in tasks):
        raise ValueError(f"{path} is an Iceberg table with files that are not Parquet. {_ELSE}")
    found = sorted(inside(task.file.file_path) for task in tasks)
    _check_columns(path, metadata, found, system)
    return found if _is_local(system) else [str(system.unstrip_protocol(file)) for file in found]


def _is_local(system: Any) -> bool:
    return "file" in (system.protocol if isinstance(system.protocol, tuple | list) else (system.protocol,))


def _inside(path: str, system: Any) -> Callable[[str], str]:
    """A function that gives the path of a file of the table in its file system, and refuses all others."""

    def plain(location: str) -> str:
        stripped = str(system._strip_protocol(location))
        return str(Path(stripped).resolve()) if _is_local(system) else stripped

    base = plain(path).rstrip("/")

    def inside(location: str) -> str:
        found = plain(location)
        if not found.startswith(f"{base}/"):
            raise ValueError(
                f"{path} is an Iceberg table that names {location[:200]}, which does not lie below it. If it was "
                f"moved, read it where it was. {_ELSE}"
            )
        return found

    return inside


def _reader(system: Any, inside: Callable[[str], str]) -> Any:
    """What pyiceberg reads the table's own files by."""
    from pyiceberg.io import FileIO
    from pyiceberg.io.fsspec import FsspecInputFile

    class Below(FileIO):
        """Files below the table alone; nothing is written."""

        def new_input(self, location: str) -> Any:
            return FsspecInputFile(inside(location), system)

        def new_output(self, location: str) -> Any:
            raise PermissionError(f"Iceberg tables are read only, not written: {location}.")

        def delete(self, location: Any) -> None:
            raise PermissionError(f"Iceberg tables are read only, not written: {location}.")

    return Below()


def _newest(path: str, system: Any) -> str:
    """The description of the table that counts."""
    folder = f"{str(system._strip_protocol(path)).rstrip('/')}/{_METADATA}"
    names = sorted(str(name).rpartition("/")[2] for name in system.ls(folder, detail=False))
    versions: dict[int, list[str]] = {}
    for name in names:
        if named := _NAMED.fullmatch(name):
            versions.setdefault(int(named[1] or named[2]), []).append(name)
    newest = max(versions, default=-1)
    if _HINT in names:
        hint = system.cat_file(f"{folder}/{_HINT}").decode("utf-8", "replace").strip()
        if hint in names or f"{hint}.metadata.json" in names:
            return f"{folder}/{hint if hint in names else f'{hint}.metadata.json'}"
        if hint.isdecimal() and int(hint) in versions:
            newest = int(hint)  # a hint may lag behind: what follows it was written since
            while newest + 1 in versions:
                newest += 1
    if newest < 0:
        raise ValueError(f"{path} is an Iceberg table without a description: {_METADATA} holds no vN.metadata.json.")
    if len(versions[newest]) > 1:
        raise ValueError(
            f"{path} is an Iceberg table with {len(versions[newest])} newest descriptions, of which its catalog alone "
            f"knows the right one: {', '.join(versions[newest])}. Name it in {_METADATA}/{_HINT}. {_ELSE}"
        )
    return f"{folder}/{versions[newest][0]}"


def _check_columns(path: str, metadata: Any, files: Sequence[str], system: Any) -> None:
    """Refuse files whose columns are not those of the table; they are known by numbers, and read by their names."""
    import pyarrow.parquet as pq

    now = {field.name: field.field_id for field in metadata.schema().fields}
    changed = any({field.name: field.field_id for field in schema.fields} != now for schema in metadata.schemas)
    for file in files if changed else files[:1]:
        with system.open(file, "rb") as stream:
            there = pq.read_schema(stream)
        numbers = {field.name: int((field.metadata or {}).get(b"PARQUET:field_id", -1)) for field in there}
        if numbers.keys() != now.keys() or any(number not in (-1, now[name]) for name, number in numbers.items()):
            raise ValueError(
                f"{path} is an Iceberg table whose columns were added, renamed or dropped since some of its files were "
                f"written, such as {file}. Write it anew. {_ELSE}"
            )
