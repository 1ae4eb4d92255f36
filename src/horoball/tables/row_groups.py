"""Row groups of Parquet files as arrays: few files are open at a time, and a large group is read stretch by stretch."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from horoball.tables.limits import Budget, check_rows, parsing, spend_shared
from horoball.tables.parquet_files import LOOKED_THROUGH, Chunk, check_pages
from horoball.tables.partitions import partitioned, values_of, with_values

_OPEN = 8  # files kept open: systems allow some hundred, and the footer of a large file takes megabytes
_BUFFER = 1 << 12  # bytes read at once from a column of a large group; without it, all of its bytes would be
_AT_ONCE = 16  # files that are asked for at once
_FOOTERS = 1 << 12  # files whose footers are kept: some kilobytes each, or megabytes
_HELD = 1 << 28  # bytes of small files that are kept whole


def _stream(path: str) -> Any:
    import fsspec

    return fsspec.open(str(path), "rb").open()


class Stretch(NamedTuple):
    """Consecutive rows of a row group; most often all of them."""

    file: int
    group: int
    rows: int
    first: int
    whole: bool

    def parts(self, limit: int) -> list[Stretch]:
        """This, or shorter stretches of one size within the limit."""
        if self.rows <= limit:
            return [self]
        size = -(-self.rows // -(-self.rows // limit))
        starts = range(0, self.rows, size)
        return [Stretch(self.file, self.group, min(size, self.rows - s), self.first + s, whole=False) for s in starts]


class ParquetFiles:
    """Parquet files, opened on first use: they may be sent to another process before they are read.

    Args:
        paths: Paths or URLs, on any file system that fsspec knows.
        texts: Columns of text that are read as the dictionaries and codes that files hold, which is several times
            faster than reading every text.
        like: The same files, of which some may have been read ahead.
    """

    def __init__(self, paths: Sequence[str], texts: Sequence[str] = (), like: ParquetFiles | None = None) -> None:
        self.paths, self.texts = list(paths), list(texts)
        self.lock = threading.Lock()  # a file is read by one thread at a time
        self._open: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self._chunks: dict[int, list[list[Chunk] | None] | None] = {}
        # Read ahead, of files that take long to open: footers, and small files whole.
        self._footers: dict[int, Any] = {} if like is None else like._footers
        self._held: dict[int, bytes] = {} if like is None else like._held

    def __getstate__(self) -> tuple[list[str], list[str]]:
        return self.paths, self.texts

    def __setstate__(self, state: tuple[list[str], list[str]]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def open(self, number: int, buffer: int = 0) -> Any:
        """The file of that number; with a buffer, column chunks are not read whole."""
        import pyarrow.parquet as pq

        key = (number, buffer)
        if key not in self._open:
            with _readable(f"{self.paths[number]} is not a Parquet file, or not a whole one"):
                held = self._held.get(number)
                stream = _stream(self.paths[number]) if held is None else io.BytesIO(held)
                # With pre_buffer a file keeps the bytes of its last row group for as long as it is open. Bytes that
                # have changed are found where the writer has left checksums.
                options: dict[str, Any] = {"pre_buffer": False, "page_checksum_verification": True}
                known = self._footers.get(number)
                texts = [name for name in self.texts if name not in values_of(self.paths[number])]
                file = pq.ParquetFile(stream, metadata=known, buffer_size=buffer, read_dictionary=texts, **options)
            with parsing(self.paths[number], "Parquet file"):
                check_rows(file.metadata.num_rows, stream.seek(0, 2))
                if number not in self._chunks:
                    self._chunks[number] = _chunks_of(stream, file)
            self._open[key] = partitioned(file, self.paths[number])
            if len(self._open) > _OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(key)
        return self._open[key]

    def schemas(self) -> list[Any]:
        """Arrow schemas of all files."""
        self._read_ahead()
        found = []
        for number, path in enumerate(self.paths):
            known = self._footers.get(number)
            if known is None:
                found.append(self.open(number).schema_arrow)
            else:
                found.append(with_values(known.schema.to_arrow_schema().empty_table(), path).schema)
        return found

    def footer(self, number: int) -> Any:
        """The metadata of a file; it is not opened for it if that was read ahead."""
        return self._footers[number] if number in self._footers else self.open(number).metadata

    def _read_ahead(self) -> None:
        """Read footers of files that are elsewhere, and small files whole, several at once: each waits long."""
        import pyarrow.parquet as pq

        wanted = [number for number, path in enumerate(self.paths) if "://" in path and number not in self._footers]
        if not 1 < len(wanted) <= _FOOTERS or self.paths[wanted[0]].startswith("memory:"):
            return

        def ahead(number: int) -> Any:
            with _readable(f"{self.paths[number]} is not a Parquet file, or not a whole one"):
                stream = _stream(self.paths[number])
                size = stream.seek(0, 2)
                if size <= LOOKED_THROUGH and size * len(wanted) <= _HELD:
                    stream.seek(0)
                    self._held[number] = stream.read()
                    stream = io.BytesIO(self._held[number])
                footer = pq.read_metadata(stream)
            with parsing(self.paths[number], "Parquet file"):
                check_rows(footer.num_rows, size)
            return footer

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            self._footers |= zip(wanted, pool.map(ahead, wanted), strict=True)

    def column(self, number: int, group: int, name: str, budget: Budget) -> Any:
        """A column of a row group that is no feature, an Arrow array; text takes no more memory than is left."""
        with parsing(self.paths[number], "Parquet file"), self.reading(number, group):
            return read_column(self.open(number), group, name, budget, self._chunks.get(number))

    def size(self, number: int) -> int:
        """Bytes of a file."""
        import fsspec

        with fsspec.open(self.paths[number], "rb") as stream:
            return int(stream.seek(0, 2))

    @contextmanager
    def reading(self, number: int, group: int) -> Iterator[None]:
        """Read a row group of a file by itself; what cannot be decoded is refused with the file's name."""
        with self.lock, _readable(f"{self.paths[number]} is damaged in row group {group}"):
            _check_group(self._chunks.get(number), group)
            yield


def read_whole(stream: Any, columns: Sequence[str] | None = None, size: int | None = None) -> Any:
    """The Arrow table of a Parquet file, held in memory. Refused before it takes more than a file of that size may.

    Args:
        stream: The file's bytes, which can be sought.
        columns: Names of the columns; all if not given.
        size: Bytes that the file took, if it was compressed as a whole.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(stream, pre_buffer=False, page_checksum_verification=True)
    budget = Budget(stream.seek(0, 2) if size is None else size)
    check_rows(file.metadata.num_rows, budget.size)
    names = list(file.schema_arrow.names) if columns is None else list(columns)
    if len(set(names)) < len(names):
        raise ValueError("it has columns of the same name; rename them")
    fields = [file.schema_arrow.field(name) for name in names]
    # Numbers are known before they are read, and text is counted as it is.
    numbers = [field.name for field in fields if _width(field.type)]
    wanted = file.metadata.num_rows * sum(_width(field.type) for field in fields)
    if wanted > budget.limit:
        budget.spend(wanted)
    chunks = _chunks_of(stream, file, budget.size)
    groups = []
    for group in range(file.metadata.num_row_groups):
        _check_group(chunks, group)
        held = file.read_row_group(group, columns=numbers, use_threads=False)
        budget.spend(held.nbytes)
        parts = {name: read_column(file, group, name, budget, chunks) for name in names if name not in numbers}
        whole = [parts[name] if name in parts else held.column(name) for name in names]
        groups.append(pa.table(whole, schema=pa.schema(fields)))
    return pa.concat_tables(groups) if groups else pa.schema(fields).empty_table()


def _width(kind: Any) -> int:
    """Bytes of a value of a type that has one size, 0 of others."""
    if hasattr(kind, "value_type"):  # a dictionary, whose codes have one size, or a list
        return 0
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 0


def _check_group(chunks: list[list[Chunk] | None] | None, group: int) -> None:
    if chunks is not None and (group >= len(chunks) or chunks[group] is None):
        raise OSError("the header of a page cannot be read, or tells of other rows")


def _chunks_of(stream: Any, file: Any, size: int | None = None) -> list[list[Chunk] | None] | None:
    """Columns of the row groups of a small file, by their pages; None of a large one. Refuses pages that grow."""
    if stream.seek(0, 2) > LOOKED_THROUGH:
        return None
    stream.seek(0)
    repeated = [file.schema.column(number).max_repetition_level > 0 for number in range(len(file.schema))]
    return check_pages(stream.read(), repeated, size)


def read_column(file: Any, group: int, name: str, budget: Budget, chunks: list[list[Chunk] | None] | None) -> Any:
    """A column of a row group, an Arrow array. Text that would take more than is left is refused before it does.

    A dictionary of one long text makes as much as there are rows, so that text is decoded a few rows at a time where
    its pages do not tell how much it becomes.

    Args:
        file: The file, as pyarrow has opened it.
        group: Number of the row group.
        name: The column.
        budget: What may be taken.
        chunks: Its columns by their pages, of a small file.
    """
    import pyarrow as pa

    kind = file.schema_arrow.field(name).type
    leaves = {file.schema.column(number).path: number for number in range(len(file.schema))}
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if chunks is not None and name in leaves and any(test(kind) for test in texts):
        chunk = (chunks[group] or [])[leaves[name]]
        if chunk.values * chunk.largest > budget.left:
            parts = []
            for batch in file.iter_batches(
                max(1, budget.left // (4 * chunk.largest)), row_groups=[group], columns=[name]
            ):
                budget.spend(batch.nbytes)
                parts.append(batch.column(0))
            return pa.chunked_array(parts, kind)
    column = file.read_row_group(group, columns=[name]).column(0)
    budget.spend(column.nbytes)
    spend_shared(column.chunks, budget)
    return column


@contextmanager
def _readable(otherwise: str) -> Iterator[None]:
    """Say what is wrong with a file in one line; errors of the system, which have a number, stay as they are."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        first = next(iter(str(error).splitlines()), type(error).__name__)
        first = "".join(filter(str.isprintable, first)).strip(" .:")  # it may repeat bytes of the file
        raise ValueError(f"{otherwise}: {first}. Use another copy, or write it again.") from None


class RowReader:
    """Reads stretches of row groups. Stretches of one group are decoded once if they come in their order."""

    def __init__(self, files: ParquetFiles, columns: list[str], width: int | None = None) -> None:
        self._files, self._columns, self._width = files, columns, len(columns) if width is None else width
        self._group: tuple[int, int] | None = None  # the large group that is being decoded
        self._next = 0  # its first row that was not given out
        self._decoded: Iterator[Any] = iter(())
        self._rest: Any = None
        self.ends: dict[int, tuple[Any, Any]] | None = None  # of columns of 8 bytes, if asked for

    def read(self, stretches: Sequence[Stretch]) -> np.ndarray:
        """Their rows below each other, a C-ordered float32 array."""
        out = np.empty((sum(stretch.rows for stretch in stretches), self._width), np.float32)
        start = 0
        for stretch in stretches:
            first = stretch.first  # of the frame, in its row group
            for frame in self._whole(stretch) if stretch.whole else self._part(stretch):
                out[start : start + frame.num_rows] = self._rows(frame, stretch, first)
                start, first = start + frame.num_rows, first + frame.num_rows
        return out

    def _rows(self, frame: Any, stretch: Stretch, first: int) -> np.ndarray:
        """Rows of a record batch or table of Arrow, of which the first has a number in its row group."""
        # Parquet stores columns: filling columns and turning them once is three times faster than filling rows.
        columns = np.empty((frame.num_rows, self._width), np.float32, order="F")
        for position, column in enumerate(frame.itercolumns()):
            self._fill(columns[:, position], column, position, stretch, first)
        return columns

    def _fill(self, out: np.ndarray, column: Any, position: int, stretch: Stretch, first: int) -> None:
        """A column as float32; a missing value, or one beyond float32, is refused by its row in the table."""
        import pyarrow as pa

        if column.null_count:
            bad, what, advice = column.is_null(), "a missing value", "Fill or drop such rows."
        else:
            try:
                if pa.types.is_decimal(column.type):  # which NumPy has as objects
                    column = column.cast(pa.float64(), safe=False)
                values = column.to_numpy(zero_copy_only=False)
                with np.errstate(over="raise", invalid="ignore"):
                    out[:] = values
                if self.ends is not None and values.dtype.itemsize == 8 and len(values):
                    low, high = self.ends.get(position, (values.min(), values.max()))
                    self.ends[position] = min(low, values.min()), max(high, values.max())
                return
            except FloatingPointError:
                import pyarrow.compute as pc

                bad = pc.greater(pc.abs(column), float(np.finfo(np.float32).max))
                what, advice = "a number beyond 3.4e38, the largest of float32,", "Scale the column."
        row = self._row(stretch, first + int(np.flatnonzero(bad.to_numpy(zero_copy_only=False))[0]))
        raise ValueError(
            f"{self._files.paths[stretch.file]} has {what} in row {row}, column {self._columns[position][:40]!r}. "
            f"{advice}"
        )

    def _row(self, stretch: Stretch, row: int) -> int:
        """A row of a row group, counted from the first of all files."""
        footers = [self._files.footer(number) for number in range(stretch.file + 1)]
        row += sum(footer.num_rows for footer in footers[:-1])
        return row + sum(footers[-1].row_group(group).num_rows for group in range(stretch.group))

    def _whole(self, stretch: Stretch) -> Iterator[Any]:
        with self._files.reading(stretch.file, stretch.group):
            group = self._files.open(stretch.file).read_row_group(stretch.group, columns=self._columns)
            if group.num_rows != stretch.rows:
                raise OSError(f"it has {group.num_rows} rows, not {stretch.rows}")
        yield group

    def _part(self, stretch: Stretch) -> Iterator[Any]:
        """Record batches of a stretch; what lies before it in the group is decoded and dropped, if it was not yet."""
        if self._group != (stretch.file, stretch.group) or self._next > stretch.first:
            with self._files.reading(stretch.file, stretch.group):
                file = self._files.open(stretch.file, _BUFFER)
                self._decoded = file.iter_batches(stretch.rows, row_groups=[stretch.group], columns=self._columns)
            self._group, self._next, self._rest = (stretch.file, stretch.group), 0, None
        end = stretch.first + stretch.rows
        while self._next < end:
            if self._rest is None:
                with self._files.reading(stretch.file, stretch.group):
                    self._rest = next(self._decoded, None)
                    if self._rest is None:
                        raise OSError(f"it ends after {self._next} rows")
            wanted = (end if self._next >= stretch.first else stretch.first) - self._next
            batch = self._rest.slice(0, wanted)
            self._rest = self._rest.slice(wanted) if wanted < self._rest.num_rows else None
            self._next += batch.num_rows
            if self._next > stretch.first:
                yield batch
