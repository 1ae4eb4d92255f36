"""Row groups of Parquet files as arrays: few files are open at a time, and a large group is read stretch by stretch."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from horoball.data.files.limits import check_rows
from horoball.data.files.parse_errors import parsing

__all__ = ["ParquetFiles", "RowReader", "Stretch"]

_OPEN = 8  # files kept open: systems allow some hundred, and the footer of a large file takes megabytes
_BUFFER = 1 << 12  # bytes read at once from a column of a large group; without it, all of its bytes would be


class Stretch(NamedTuple):
    """Consecutive rows of a row group; most often all of them.

    Example:
        >>> Stretch(file=0, group=3, rows=100, first=0, whole=True).rows
        100
    """

    file: int
    group: int
    rows: int
    first: int
    whole: bool

    def parts(self, limit: int) -> list[Stretch]:
        """This, or shorter stretches of one size within the limit.

        Example:
            >>> [part.rows for part in Stretch(file=0, group=3, rows=100, first=0, whole=True).parts(40)]
            [34, 34, 32]
        """
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

    Example:
        >>> ParquetFiles(["rows.parquet"]).paths
        ['rows.parquet']
    """

    def __init__(self, paths: Sequence[str], texts: Sequence[str] = ()) -> None:
        self.paths, self.texts = list(paths), list(texts)
        self.lock = threading.Lock()  # a file is read by one thread at a time
        self._open: OrderedDict[tuple[int, int], Any] = OrderedDict()

    def __getstate__(self) -> tuple[list[str], list[str]]:
        return self.paths, self.texts

    def __setstate__(self, state: tuple[list[str], list[str]]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def open(self, number: int, buffer: int = 0) -> Any:
        """The file of that number; with a buffer, column chunks are not read whole.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, pathlib
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
            >>> pq.write_table(pa.table({"a": [1.0, 2.0]}), path)
            >>> ParquetFiles([str(path)]).open(0).metadata.num_rows
            2
        """
        import fsspec
        import pyarrow.parquet as pq

        key = (number, buffer)
        if key not in self._open:
            with _readable(f"{self.paths[number]} is not a Parquet file, or not a whole one"):
                stream = fsspec.open(self.paths[number], "rb").open()
                # With pre_buffer a file keeps the bytes of its last row group for as long as it is open. Bytes that
                # have changed are found where the writer has left checksums.
                options: dict[str, Any] = {"pre_buffer": False, "page_checksum_verification": True}
                file = pq.ParquetFile(stream, buffer_size=buffer, read_dictionary=self.texts, **options)
            with parsing(self.paths[number], "Parquet file"):
                check_rows(file.metadata.num_rows, stream.seek(0, 2))
            self._open[key] = file
            if len(self._open) > _OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(key)
        return self._open[key]

    @contextmanager
    def reading(self, number: int, group: int) -> Iterator[None]:
        """Read a row group of a file by itself; what cannot be decoded is refused with the file's name.

        Example:
            >>> with ParquetFiles(["rows.parquet"]).reading(0, 3):
            ...     raise OSError("Unexpected end of stream")
            Traceback (most recent call last):
            ...
            ValueError: rows.parquet is damaged in row group 3: Unexpected end of stream. Use another copy...
        """
        with self.lock, _readable(f"{self.paths[number]} is damaged in row group {group}"):
            yield


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
    """Reads stretches of row groups. Stretches of one group are decoded once if they come in their order.

    Args:
        files: The files.
        columns: Names of the columns to read.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> pq.write_table(pa.table({"a": np.arange(5.0), "b": np.ones(5)}), path)
        >>> RowReader(ParquetFiles([str(path)]), ["a", "b"]).read([Stretch(0, 0, rows=2, first=3, whole=False)])
        array([[3., 1.],
               [4., 1.]], dtype=float32)
    """

    def __init__(self, files: ParquetFiles, columns: list[str]) -> None:
        self._files, self._columns = files, columns
        self._group: tuple[int, int] | None = None  # the large group that is being decoded
        self._next = 0  # its first row that was not given out
        self._decoded: Iterator[Any] = iter(())
        self._rest: Any = None
        self.ends: dict[int, tuple[Any, Any]] | None = None  # of columns of 8 bytes, if asked for

    def read(self, stretches: Sequence[Stretch]) -> np.ndarray:
        """Their rows below each other, a C-ordered float32 array."""
        out = np.empty((sum(stretch.rows for stretch in stretches), len(self._columns)), np.float32)
        start = 0
        for stretch in stretches:
            end = start + stretch.rows
            for frame in self._whole(stretch) if stretch.whole else self._part(stretch):
                # Parquet stores columns: filling columns and turning them once is three times faster than filling rows.
                columns = np.empty((frame.num_rows, len(self._columns)), np.float32, order="F")
                for position, column in enumerate(frame.itercolumns()):
                    first = stretch.first + stretch.rows - (end - start)  # of the frame, in its row group
                    self._fill(columns[:, position], column, position, stretch, first)
                out[start : start + frame.num_rows] = columns
                start += frame.num_rows
        return out

    def _fill(self, out: np.ndarray, column: Any, position: int, stretch: Stretch, first: int) -> None:
        """A column as float32; a missing value, or one beyond float32, is refused by its row in the table."""
        if column.null_count:
            bad, what, advice = column.is_null(), "a missing value", "Fill or drop such rows."
        else:
            try:
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
        footers = [self._files.open(number).metadata for number in range(stretch.file + 1)]
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
