"""Files of edges: lines of two node ids with any separator, Parquet tables, saved matrices."""

from __future__ import annotations

import csv
import io
import logging
import re
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Ends", "ends_of", "read_edge_file"]

_LOG = logging.getLogger("horoball")
_COMMENT = re.compile(rb"^[ \t]*[#%].*\n?", re.MULTILINE)
_AFTER_TWO = re.compile(rb"^(\S+ \S+) .*$", re.MULTILINE)


class Ends(NamedTuple):
    """The two ends of every edge, as a file or a table has them: pyarrow arrays of ids.

    Example:
        >>> import pyarrow as pa
        >>> Ends(pa.array(["cat", "dog"]), pa.array(["animal", "animal"])).first.to_pylist()
        ['cat', 'dog']
    """

    first: Any
    second: Any


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
    import fsspec

    if "://" not in path and not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    with fsspec.open(path, "rb", compression="infer") as file:
        data: bytes = file.read()
    ending = next(
        (s for s in reversed(Path(path).suffixes) if s not in (".gz", ".bz2", ".xz", ".zst", ".zip")), ""
    ).lower()
    if ending == ".parquet":
        return _parquet(path, data)
    if ending in (".npy", ".npz"):
        return _numpy(path, data)
    if data.startswith(b"%%MatrixMarket"):
        import scipy.io

        return scipy.io.mmread(io.BytesIO(data))
    return _Lines(path, data, {".csv": ",", ".tsv": "\t"}.get(ending)).ends()


def ends_of(names: list[str], where: str) -> tuple[int, int]:
    """Which columns hold the ends of edges: those called source and target, or the first two.

    Example:
        >>> ends_of(["weight", "Source", "target"], "The file")
        (1, 2)
    """
    if len(names) < 2:
        raise ValueError(f"{where} has {len(names)} column, expected two: the ends of each edge.")
    low = [name.strip().lower() for name in names]
    found = (low.index("source"), low.index("target")) if {"source", "target"} <= set(low) else (0, 1)
    if len(names) > 2:
        _LOG.info("Took columns %d and %d of %s; the others, such as weights, are ignored.", *np.add(found, 1), where)
    return found


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


class _Lines:
    """Lines of text with the two ends of an edge each.

    pyarrow reads millions of lines a second, but knows neither comments nor runs of blanks, so that both are taken
    out of the bytes first. Lines are looked at one by one only to say which is wrong.
    """

    def __init__(self, path: str, data: bytes, delimiter: str | None) -> None:
        self.path, self.table, self.problem = path, delimiter is not None, ""
        self.original = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
        data = self.original
        if data.lstrip()[:1] in (b"#", b"%") or b"\n#" in data or b"\n%" in data:
            data = _COMMENT.sub(b"", data)
        data = data.strip(b" \n") if delimiter != "\t" else data.strip(b"\n")
        if not data:
            raise ValueError(f"{path} is empty: it has no edges. Expected a line with two node ids for each edge.")
        self.delimiter = delimiter or self._delimiter(data)
        # pyarrow takes a single line without an end for none.
        self.data = (_single_blanks(data) if self.delimiter == " " else data) + b"\n"
        self.first = self._fields(self.data.split(b"\n", 1)[0])

    def _delimiter(self, data: bytes) -> str:
        """A tab if it is in every line, since names may hold blanks then; a comma if the first line has no blank."""
        first = data.split(b"\n", 1)[0]
        tabs = first.count(b"\t")
        if tabs and data.count(b"\t") == tabs * (data.count(b"\n") + 1):
            return "\t"
        return "," if b"," in first and not first.split(b",")[0].strip().count(b" ") else " "

    def _fields(self, line: bytes) -> list[str]:
        text = line.decode(errors="replace")
        if self.delimiter == " ":
            return text.split()
        return [field.strip() for field in next(csv.reader([text], delimiter=self.delimiter), [])]

    def ends(self) -> Ends:
        """The two columns: of whole numbers if all are, else of text."""
        import pyarrow.compute as pc

        if len(self.first) < 2:
            self._refuse_lines((0, 1))
        columns = ends_of(self.first, self.path)
        found = self._found(columns)
        if found is None:
            self._refuse_lines(columns)
            self.data = _AFTER_TWO.sub(rb"\1", self.data)  # lines of different lengths, such as networkx writes
            found = self._found(columns)
        if found is None:
            raise ValueError(f"{self.path} is not a list of edges: {self.problem}")
        if not len(found.first):
            raise ValueError(f"{self.path} has no edges below its header line: {', '.join(self.first[:4])}.")
        if found.first.null_count or found.second.null_count:
            self._refuse_lines(columns, _MISSING)
        if str(found.first.type) == "string" and any(pc.any(pc.equal(end, "")).as_py() for end in found):
            self._refuse_lines(columns, ("",))
        return found

    def _found(self, columns: tuple[int, int]) -> Ends | None:
        """Numbers, below a header if the first line holds none; else text, below a header if tables have one."""
        text = not any(_is_number(self.first[column]) for column in columns)
        numbers = self._read(columns, header=text, whole=True)
        if numbers is not None:
            return numbers
        named = {"source", "target"} <= {field.lower() for field in self.first}
        header = named or (text and self.table)
        words = self._read(columns, header=header, whole=False)
        if words is not None and header and not named:
            _LOG.info("Took the first line of %s as its header: %s.", self.path, ", ".join(self.first[:4]))
        return words

    def _read(self, columns: tuple[int, int], header: bool, whole: bool) -> Ends | None:
        """Two columns, or None if they do not hold what is asked for."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.csv

        names = [f"f{column}" for column in columns]
        kind = pa.int64() if whole else pa.string()
        lines = self.data.partition(b"\n")[2] if header else self.data
        if not lines:
            return None if whole else Ends(pa.array([], kind), pa.array([], kind))
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(lines),
                read_options=pa.csv.ReadOptions(autogenerate_column_names=True, block_size=1 << 24),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter, quote_char=False if self.delimiter == " " else '"'
                ),
                convert_options=pa.csv.ConvertOptions(
                    include_columns=names, column_types=dict.fromkeys(names, kind), strings_can_be_null=False
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            self.problem = str(error).splitlines()[0]
            return None
        if whole:
            return Ends(table.column(0), table.column(1))
        return Ends(*(pc.utf8_trim_whitespace(table.column(position)) for position in (0, 1)))

    def _refuse_lines(self, columns: tuple[int, int], missing: tuple[str, ...] = ()) -> None:
        """Name the first line that lacks an end, if there is one."""
        for number, line in enumerate(self.original.split(b"\n"), 1):
            if not line.strip() or line.lstrip()[:1] in (b"#", b"%"):
                continue
            fields = self._fields(line)
            shown = repr(line.decode(errors="replace").strip()[:40])
            if len(fields) <= max(columns):
                raise ValueError(
                    f"{self.path}, line {number}: expected two node ids, got {len(fields)} column"
                    f"{'' if len(fields) == 1 else 's'}: {shown}."
                )
            if any(fields[column].lower() in missing for column in columns):
                raise ValueError(
                    f"{self.path}, line {number}: a node id is missing: {shown}. Fill or drop such lines first."
                )


_MISSING = ("", "na", "n/a", "#n/a", "nan", "-nan", "null", "<na>", "none")  # what pyarrow takes for no number


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _single_blanks(data: bytes) -> bytes:
    """One blank between words, none around lines."""
    data = data.replace(b"\t", b" ")
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data.replace(b"\n ", b"\n").replace(b" \n", b"\n")
