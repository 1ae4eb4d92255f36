"""The Parquet files that a path stands for: a file, a folder, a prefix of a store, a pattern, a table in many files.

A folder is listed once a reading: a store is asked for all names below a prefix at once, see `one_reading`.
"""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import unquote

from horoball.plugins import TABLE_FORMATS
from horoball.storage.stores import STORES, store_errors, without_secrets
from horoball.tables.iceberg import iceberg_files, is_description

Found = TypeVar("Found")

_DELTA, _HUDI, _ICEBERG = "_delta_log", ".hoodie", "metadata"
# What reads the rows of these, and gives them to us as an Arrow table.
_READS = {"a Hudi table": "spark.read.format('hudi').load(path).toPandas()"}
_OF_RUNS = frozenset(("model.safetensors", "last.safetensors"))  # what a finished run has, and an unfinished one
_OTHERS = (*(ending for ending in TABLE_FORMATS if ending != ".parquet"), ".pq", ".orc", ".avro")
_MOST = 1 << 20  # files of a table
_LISTED = (*STORES, "file", "local")  # kinds of URLs that can be listed
_NONE = "__HIVE_DEFAULT_PARTITION__"  # the value of a gap, in the name of a folder
_log = logging.getLogger("horoball")
_found: ContextVar[dict[Any, Any] | None] = ContextVar("found", default=None)


@contextmanager
def one_reading() -> Iterator[None]:
    """Within it a path stands for the same files, and what was found of them is not asked for again."""
    if _found.get() is not None:
        yield
        return
    token = _found.set({})
    try:
        yield
    finally:
        _found.reset(token)


def found_once(key: Any, find: Callable[[], Found]) -> Found:
    """What `find` gives, in a reading that of the first time.

    Example:
        >>> with one_reading():
        ...     found_once("a", lambda: 1), found_once("a", lambda: 2)
        (1, 1)
    """
    known = _found.get()
    if known is None:
        return find()
    if key not in known:
        known[key] = find()
    return known[key]


class PartFile(str):
    """The path of a file of a partitioned table, with the columns whose values are in the names of its folders."""

    values: Mapping[str, int | str | None]

    def __new__(cls, path: str, values: Mapping[str, int | str | None]) -> PartFile:
        """Make it; a path that is partitioned by nothing has no values."""
        made = super().__new__(cls, path)
        made.values = values
        return made

    def __reduce__(self) -> Any:
        return PartFile, (str(self), dict(self.values))


def is_pattern(path: str) -> bool:
    """Whether a path has the signs of a pattern, and is not the name of a file."""
    if not any(sign in path for sign in "*?["):
        return False
    return _system(path) is not None if "://" in path else not Path(path).exists()


def is_folder(path: str) -> bool:
    """Whether a path is a folder of this machine, a prefix of a store, or a pattern of such or of Parquet files."""
    if is_pattern(path):
        return path.lower().endswith((".parquet", "/", "*"))
    if "://" not in path:
        return Path(path).is_dir()
    named = path.lower().endswith(tuple(ending for ending in TABLE_FORMATS if ending != ".parquet"))
    system = None if named else _system(path)
    if system is None:
        return False
    with store_errors(without_secrets(path)):
        return found_once(("folder", path), lambda: bool(system.isdir(path)))


def is_there(path: str) -> bool:
    """Whether a path is of something on this machine, or elsewhere, where it is asked for when it is read."""
    return "://" in path or is_pattern(path) or Path(path).exists()


def parquet_files(path: str) -> list[str]:
    """The Parquet files that a path stands for: itself, or those of a folder and its subfolders, in the order of names.

    Names that begin with a dot or an underscore are what systems leave beside the rows, as `_metadata` and `.x.crc`;
    they are not read, as in Spark and Arrow. Folders named as `year=2026` are columns of the rows below them. A Delta
    table is the files that its log has left, and an Iceberg table those that its newest description names.

    Raises:
        ValueError: There is no such file, or they belong to a table of a format that keeps deleted rows in them.
    """
    if is_pattern(path):
        return _with_values([file for each in _matches(path) for file in _of_folder(each)], path)
    if path.lower().endswith((".parquet", ".pq")) and ("://" not in path or not is_folder(path)) and not _is_dir(path):
        return [path]
    if not is_folder(path):
        return [path]
    return _with_values(_of_folder(path), path)


def _is_dir(path: str) -> bool:
    return "://" not in path and Path(path).is_dir()


def _system(path: str) -> Any:
    """The file system of a URL that can be listed; None of others."""
    import fsspec

    scheme = path.partition("://")[0].lower()
    if "::" in path or scheme not in _LISTED:
        return None
    with store_errors(without_secrets(path)):
        return fsspec.filesystem(scheme, use_listings_cache=False)


def _matches(pattern: str) -> list[str]:
    """Paths that a pattern stands for."""
    if "://" not in pattern:
        found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  of any path, whole or not
    else:
        system = _system(pattern)
        with store_errors(without_secrets(pattern)):
            found = sorted(map(system.unstrip_protocol, system.glob(pattern)))
    shown = [path for path in found if not _is_hidden(PurePosixPath(path).name)]
    if not shown:
        raise FileNotFoundError(f"There is no file {pattern}.")
    return shown


def _of_folder(path: str) -> list[str]:
    """Paths of the Parquet files below a folder, or of the file itself."""
    if not is_folder(path):
        return [path]
    return _of_store(path.rstrip("/")) if "://" in path else _of_disk(path)


def _of_disk(path: str) -> list[str]:
    kind, place = _format_of(Path(path).resolve())
    if kind == "a Delta table":
        return _of_delta(path, str(place))
    if kind == "an Iceberg table":
        return _of_iceberg(path, str(place), own=place == Path(path).resolve())
    _refuse(path, kind, str(place), own=place == Path(path).resolve())
    found, others = [], []
    for top, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for name in folders:
            if (Path(top) / name).is_symlink():
                raise ValueError(
                    f"{path} holds a link to another folder, {name!r}, which is not followed. Give that one too."
                )
        for name in sorted(files):
            if not _is_hidden(name) and name.lower().endswith(".parquet"):
                found.append(str(Path(top) / name))
            elif not _is_hidden(name) and name.lower().endswith(_OTHERS):
                others.append(name)
    return _told(path, found, others, (file.name for file in Path(path).iterdir()))


def _of_store(path: str) -> list[str]:
    system = _system(path)
    with store_errors(without_secrets(path)):
        base = str(system._strip_protocol(path)).rstrip("/")
        names = [str(name) for name in system.find(base)]
        below = [name[len(base) + 1 :] for name in names]
        parents = PurePosixPath(base).parents
        above = [str(place) for place in (*parents,)[:-1] if str(place) not in (".", "/")]
        delta = [place for place in above if system.exists(f"{place}/{_DELTA}")]
        # The folder of an Iceberg table's files is called data.
        homes = [place for place in above if f"{base}/".startswith(f"{place}/data/")]
        iceberg = [place for place in homes if system.glob(f"{place}/{_ICEBERG}/*.metadata.json")]
    if delta or any(name.startswith(f"{_DELTA}/") for name in below):
        return _of_delta(path, str(system.unstrip_protocol(delta[-1])) if delta else path)
    if any(name.startswith(f"{_HUDI}/") for name in below):
        _refuse(path, "a Hudi table", path, own=True)
    if any(name.startswith(f"{_ICEBERG}/") and is_description(name.removeprefix(f"{_ICEBERG}/")) for name in below):
        return _of_iceberg(path, path, own=True)
    if iceberg:
        return _of_iceberg(path, str(system.unstrip_protocol(iceberg[-1])), own=False)
    shown = [name for name in below if not any(map(_is_hidden, name.split("/")))]
    found = [name for name in shown if name.lower().endswith(".parquet")]
    others = [name for name in shown if name.lower().endswith(_OTHERS)]
    return _told(path, [f"{path}/{name}" for name in found], others, below)


def _told(path: str, found: Sequence[str], others: Sequence[str], held: Iterable[str]) -> list[str]:
    if not found and not _OF_RUNS.isdisjoint(held):
        raise ValueError(f"{path} is the folder of a run, not of rows: give the data after it.")
    if not found:
        raise ValueError(f"The folder {path} holds no .parquet files.")
    if len(found) > _MOST:
        raise ValueError(f"{path} holds {len(found):,} .parquet files. Write fewer, larger ones: up to {_MOST:,}.")
    if others:
        _log.warning(
            "Not read, as %s is a folder of Parquet files: %s.", path, ", ".join(name[:40] for name in others[:5])
        )
    return sorted(found)


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _format_of(folder: Path) -> tuple[str | None, Path]:
    """The format whose log says which files of a folder, and which of their rows, are left; and where the log is."""
    for place in (folder, *folder.parents):
        if (place / _DELTA).is_dir():
            return "a Delta table", place
        if (place / _HUDI).is_dir():
            return "a Hudi table", place
        if any(is_description(found.name) for found in (place / _ICEBERG).glob("*.*")):
            return "an Iceberg table", place
    return None, folder


def _refuse(path: str, kind: str | None, place: str, *, own: bool) -> None:
    if kind is None:
        return
    of = "" if own else f" part of {place},"
    raise ValueError(
        f"{path} is{of} {kind}. Its Parquet files hold deleted and replaced rows too, so it is not read as a folder of "
        f"files. In Python, pass the table that {_READS[kind]} gives; for a command, write that to a .parquet file "
        "first."
    )


def _of_delta(path: str, table: str) -> list[str]:
    """Files that the log of a Delta table has left; refuses tables whose files hold deleted rows, or other names."""
    own = path.rstrip("/") == table.rstrip("/") or Path(path).resolve() == Path(table)
    if not own:
        raise ValueError(f"{path} is a part of the Delta table {table}, whose log says which rows are left. Read that.")
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise ImportError(
            f"{path} is a Delta table. Its Parquet files hold deleted and replaced rows too, which its log tells. "
            'Install what reads the log: pip install "horoball[delta]".'
        ) from None
    with store_errors(without_secrets(path)):
        opened = DeltaTable(path, storage_options=_for_delta())
        features = set(opened.protocol().reader_features or ())
        mapped = opened.metadata().configuration.get("delta.columnMapping.mode", "none")
        files = list(map(str, opened.file_uris()))
    if mapped != "none" or ("columnMapping" in features and mapped != "none"):
        raise ValueError(f"{path} is a Delta table that maps the names of its columns. Write it anew without.")
    if "deletionVectors" in features and _has_vectors(opened):
        raise ValueError(
            f"{path} is a Delta table with deletion vectors: its files hold deleted rows. Write these out first, with "
            "REORG TABLE … APPLY (PURGE), or pass the Arrow table that another reader gives."
        )
    if not files:
        raise ValueError(f"The Delta table {path} has no rows.")
    return sorted(path.replace("s3a://", "s3://") if "://" in path else unquote(path) for path in files)


def _of_iceberg(path: str, table: str, *, own: bool) -> list[str]:
    """Files that the newest description of an Iceberg table names; folders name none of their columns."""
    if not own:
        raise ValueError(
            f"{path} is a part of the Iceberg table {table}, whose metadata says which rows are left. Read that."
        )
    import fsspec

    system = _system(path) if "://" in path else fsspec.filesystem("file")
    with store_errors(without_secrets(path)):
        return [PartFile(file, {}) for file in iceberg_files(path, system)]


def _has_vectors(table: Any) -> bool:
    names = table.get_add_actions(flatten=True).schema.names
    return any("deletion" in name.lower() for name in names)


def _for_delta() -> dict[str, str]:
    """What the reader of Delta tables is told of a store that is not Amazon's own."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    return {"AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http://") else {}


def _with_values(files: Iterable[str], path: str) -> list[str]:
    """Files with the columns that the names of their folders hold, those of Iceberg tables as they are."""
    listed = list(files)
    texts = [_values(file, path) for file in listed]
    names = list(texts[0]) if texts else []
    for file, said in zip(listed, texts, strict=True):
        if list(said) != names:
            raise ValueError(
                f"{path} is partitioned, but not all of its files are by the same columns: {listed[0]} by "
                f"{', '.join(names) or 'none'}, {file} by {', '.join(said) or 'none'}. Move those that differ."
            )
    if not names:
        return listed
    whole = {name: all(_is_whole(said[name]) for said in texts) for name in names}
    return [
        PartFile(file, {name: _typed(said[name], whole[name]) for name in names})
        for file, said in zip(listed, texts, strict=True)
    ]


def _values(file: str, path: str) -> dict[str, Any]:
    """What folders below a path say, by name. Above it they name a whole table, and say nothing of its rows."""
    if isinstance(file, PartFile):
        return dict(file.values)
    fixed = path.split("*")[0].rpartition("/")[0] if is_pattern(path) else path.rstrip("/")
    rest = file[len(fixed) :] if file.startswith(fixed) else file
    parts = [part for part in rest.replace(os.sep, "/").split("/")[:-1] if "=" in part]
    return {unquote(name): unquote(value) for name, _, value in (part.partition("=") for part in parts)}


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    plain = digits.isdecimal() and digits.isascii() and len(digits) < 19 and (digits == "0" or digits[0] != "0")
    return plain or text == _NONE


def _typed(text: str, whole: bool) -> int | str | None:
    if text == _NONE:
        return None
    return int(text) if whole else text
