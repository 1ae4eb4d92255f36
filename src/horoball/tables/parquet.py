"""Tables in Parquet files: small ones are held in memory, large ones are streamed row group by row group.

The memory of a streamed table does not grow with the number of rows. A row group larger than a block is cut into
blocks, and decoded bit by bit: writers make groups of a million rows unless told otherwise. A block has fewer rows if
they are wide. See `streamed` for how blocks become batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from horoball.process import given_memory
from horoball.tables.cell_values import GAP_WORDS
from horoball.tables.encoding import Unseen, encode, may_be_dates
from horoball.tables.formats import is_file, table_reader
from horoball.tables.limits import Budget, check_widths
from horoball.tables.numbers import loses_digits, tell_names
from horoball.tables.parquet_files import check_single, common_schema, is_number_type, shown_type
from horoball.tables.profile import Profile, profile_batches
from horoball.tables.row_groups import ParquetFiles, RowReader, Stretch
from horoball.tables.schema import ReadOptions, Schema, choose, some_names, with_index
from horoball.tables.streamed import StreamedTable
from horoball.tables.table import ArrayTable, Table

MAX_BYTES_IN_MEMORY = 256 << 20  # of a decoded table; larger ones are streamed
_BLOCK = 1 << 16  # rows shuffled together
_BLOCK_VALUES = 1 << 24  # numbers of a block: 64 MiB


def most_in_memory() -> int:
    """Bytes of a decoded table that is held; a larger one is streamed. No more than the user allows.

    Example:
        >>> from horoball.process import max_memory
        >>> with max_memory("1MB"):
        ...     most_in_memory()
        1000000
    """
    return min(MAX_BYTES_IN_MEMORY, given_memory() or MAX_BYTES_IN_MEMORY)


@table_reader(".parquet")
def read_parquet(path: str, options: ReadOptions) -> Table:
    """The table of a Parquet file, or of a folder of them.

    In memory a table is what the same rows of a .csv file would be, so that both give the same model.

    Args:
        path: Path or URL of a file, or a folder on this machine.
        options: Which columns are meant, and whether the table is streamed.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> pq.write_table(pa.table({"a": np.arange(10.0), "b": np.ones(10)}), path)
        >>> [type(read_parquet(str(path), ReadOptions(streamed=streamed))).__name__ for streamed in ("auto", True)]
        ['ArrayTable', 'ParquetTable']
    """
    files = _files_of(path)
    names, first = list(files.schemas()[0].names), files.paths[0]
    chosen = choose(names, with_index(options, names, first), first)
    table = ParquetTable(files, chosen.label, chosen.ids, None if options.columns is None else chosen.features)
    table.name_column = chosen.name_column
    streamed = table.decoded_bytes() > most_in_memory() if options.streamed == "auto" else options.streamed
    return table if streamed else table.in_memory()


def _files_of(path: str) -> ParquetFiles:
    """The files that a path stands for, in a reading with what was read of them ahead."""
    from horoball.tables.listing import found_once, parquet_files  # tables in memory do not need it

    return found_once(("files", path), lambda: ParquetFiles(parquet_files(path)))


class ParquetTable(StreamedTable):
    """One or more Parquet files of numbers, on any file system that fsspec knows.

    Args:
        paths: Paths or URLs of the files, or the files.
        label: Name of a column to keep aside.
        ids: Name of a column that holds the rows' names, of text or of numbers.
        columns: Names of the features, in their order; all that are left without it.
        texts: Columns of text that are read as dictionaries; see `ParquetFiles`.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, pathlib
        >>> from horoball.tables import Order
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> pq.write_table(pa.table({"a": np.arange(10.0), "b": np.ones(10)}), path, row_group_size=4)
        >>> table = ParquetTable([str(path)])
        >>> table.rows, sorted(float(x) for batch in table.batches(Order(4)) for x in batch.x[:, 0])[-1]
        (10, 9.0)
    """

    def __init__(
        self,
        paths: Sequence[str] | ParquetFiles,
        label: str | None = None,
        ids: str | None = None,
        columns: Sequence[str] | None = None,
        texts: Sequence[str] = (),
    ) -> None:
        like = paths if isinstance(paths, ParquetFiles) else None
        paths = paths.paths if isinstance(paths, ParquetFiles) else paths
        if not paths:
            raise ValueError("Expected at least one Parquet file, got none.")
        self._files = ParquetFiles(paths, texts, like)
        self._ends: dict[int, tuple[Any, Any]] | None = None  # what readers note of their columns
        self._units: list[Stretch] = []
        schemas, aside = self._files.schemas(), [name for name in (label, ids) if name is not None]
        self.columns = self._features(schemas[0], aside, paths[0], columns)
        self._schema = common_schema(schemas, paths, {*self.columns, *aside})
        check_single((self._schema.field(name) for name in aside), paths[0])
        for number, path in enumerate(paths):
            footer = self._files.footer(number)
            if number:
                self._features(schemas[number], aside, path, columns)
            groups = range(footer.num_row_groups)
            units = [Stretch(number, g, footer.row_group(g).num_rows, first=0, whole=True) for g in groups]
            if any(unit.rows < 0 for unit in units):
                raise ValueError(f"{path} is damaged: a row group has less than no rows. Use another copy.")
            if sum(unit.rows for unit in units) != footer.num_rows:
                raise ValueError(f"{path} is damaged: its row groups have other rows than it says. Use another copy.")
            self._units += [unit for unit in units if unit.rows]
        self.label, self.ids = label, ids
        self.name_column = ids or "row"

    def _features(self, schema: Any, aside: Sequence[str], path: str, columns: Sequence[str] | None) -> list[str]:
        """Names of the columns that are read of a file; refuses those that hold no numbers."""
        return _number_columns(schema, aside, path, columns)

    def decoded_bytes(self) -> int:
        """Memory that all rows would take, with the label and the ids; these are counted as all that the files hold.

        Sizes of single columns are not asked for: pyarrow ends the process if their description is damaged.
        """
        aside = any(name is not None for name in (self.label, self.ids))
        footers = [self._files.footer(number) for number in range(len(self._files.paths))] if aside else []
        groups = (footer.row_group(number) for footer in footers for number in range(footer.num_row_groups))
        return 4 * self.rows * self.features + sum(max(0, group.total_byte_size) for group in groups)

    def in_memory(self) -> ArrayTable:
        """The same table, read now."""
        x, start = torch.empty(self.rows, self.features), 0
        self._ends = {}
        for block in self.blocks():
            x[start : start + len(block)] = block
            start += len(block)
        ends, self._ends = self._ends, None
        with np.errstate(over="ignore", invalid="ignore"):
            tell_names([self.columns[i] for i, (low, high) in sorted(ends.items()) if _coarse(low, high)])
        table = ArrayTable(x, self.columns, self.read_labels())
        table.names, table.name_column = self.read_names(), self.name_column
        return table

    def _block_rows(self) -> int:
        return max(1, min(_BLOCK, _BLOCK_VALUES // self.features))

    def _reader(self) -> RowReader:
        reader = RowReader(self._files, self.columns)
        reader.ends = self._ends
        return reader

    def read_labels(self) -> np.ndarray | None:
        """The label column, if one was named.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, pathlib
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
            >>> pq.write_table(pa.table({"a": [1.0, 2.0], "kind": ["x", "y"]}), path)
            >>> list(ParquetTable([str(path)], label="kind").read_labels())
            ['x', 'y']
        """
        import pyarrow as pa

        if self.label is None:
            return None
        column = self._aside(self.label)
        # pyarrow makes floats of whole numbers where some are missing, which merges large ones.
        exact = column.null_count and not pa.types.is_floating(column.type)
        labels = np.array(column.to_pylist(), object) if exact else np.asarray(column.to_numpy())
        if labels.dtype == object:
            check_widths(labels, f"The labels of {self._files.paths[0]}")
        return labels

    def read_names(self) -> Any:
        """The column of names, if one was given."""
        return None if self.ids is None else self._aside(self.ids)

    def _names_in_parts(self) -> Iterator[Any]:
        if self.names is not None:
            yield self.names
        elif self.ids is not None:
            yield from self._chunks(self.ids)

    def _aside(self, name: str) -> Any:
        """A column that is no feature, an Arrow array."""
        import pyarrow as pa

        budget = Budget(sum(map(self._files.size, range(len(self._files.paths)))))
        kind = self._schema.field(name).type
        return pa.chunked_array([part.cast(kind) for part in self._chunks(name, budget)], kind)

    def _chunks(self, name: str, budget: Budget | None = None) -> Iterator[Any]:
        """The same, row group by row group; without a budget for all of them, each has one of its own."""
        for unit in self._units:
            own = Budget(self._files.size(unit.file)) if budget is None else budget
            column = self._files.column(unit.file, unit.group, name, own)
            yield from column.slice(unit.first, unit.rows).chunks


def _coarse(low: Any, high: Any) -> bool:
    """Whether a column between these loses digits; whole numbers are compared as Python's, which do not round."""
    whole = low.dtype.kind in "iu"
    return bool(loses_digits(int(low), int(high), exact=True) if whole else loses_digits(low, high))


def _number_columns(schema: Any, aside: Sequence[str], path: str, wanted: Sequence[str] | None) -> list[str]:
    import pyarrow as pa

    fields = list(schema)  # looking one up by its name costs as much as listing all
    place = {field.name: number for number, field in enumerate(fields)}
    for name in (*aside, *(wanted or ())):
        if name not in place:
            raise ValueError(f"{path} has no column {name!r}. Its columns are: {some_names(list(place))}.")
    if len(place) < len(fields):
        repeated = [name for name, count in Counter(field.name for field in fields).items() if count > 1]
        raise ValueError(f"{path} has columns of the same name: {some_names(sorted(repeated))}. Rename them.")
    columns = [name for name in place if name not in aside] if wanted is None else list(wanted)
    for name in columns:
        kind = fields[place[name]].type
        if pa.types.is_temporal(kind):
            raise ValueError(
                f"Column {name[:40]!r} of {path} holds {shown_type(kind)}, not numbers. Turn dates and times into "
                "numbers first, for example days since the first one, or name it as the label (--label) or the "
                "rows' names (--id)."
            )
        if not (is_number_type(kind) or pa.types.is_boolean(kind)):
            raise ValueError(
                f"Column {name[:40]!r} of {path} holds {shown_type(kind)}, not numbers. When fitting, name it as the "
                "label (--label) or as the rows' names (--id), or drop it."
            )
    if not columns:
        raise ValueError(f"{path} has no column of numbers. Expected at least one, beside a label.")
    return columns


_BATCH = 1 << 16  # rows that are looked at together


def is_parquet(path: str) -> bool:
    """Whether a path is of Parquet files: by its ending, a folder, or a prefix of a store."""
    if path.lower().endswith(".parquet") or is_file(path):
        return path.lower().endswith(".parquet")
    from horoball.tables.listing import is_folder

    return is_folder(path)


def profile_parquet(
    path: str, features: Callable[[list[str]], list[str]], gaps: Sequence[str] = ()
) -> tuple[list[str], list[Profile]]:
    """Names of all columns, and a profile of those that are features, from one pass over the files."""
    import pyarrow as pa

    opened = _files_of(path)
    paths, schemas = opened.paths, opened.schemas()
    first = schemas[0]
    chosen = features(list(first.names))
    common = common_schema(schemas, paths, set(chosen))
    files = ParquetFiles(paths, _texts(common), opened)

    fields = {field.name: field for field in common}  # looking one up by its name costs as much as listing all
    kinds = {name: fields[name].type for name in chosen}
    dated = _dates_of_text(files, [name for name in _texts(common) if name in kinds], gaps)
    fields |= {name: field for name, (field, _) in dated.items()}

    def batches() -> Any:
        at = 0
        for batch in _batches(files, chosen):
            typed, at = _typed(batch, kinds), at + batch.num_rows
            for name, (_, dates) in dated.items():
                part = dates.slice(at - batch.num_rows, batch.num_rows).combine_chunks()
                typed = typed.set_column(typed.schema.get_field_index(name), fields[name], part)
            yield typed

    schema = pa.schema([fields[name] for name in chosen])
    return list(first.names), profile_batches(schema, batches(), str(path), gaps)


def _batches(files: ParquetFiles, columns: list[str]) -> Iterator[Any]:
    """Some columns of all files, some rows at a time."""
    for number in range(len(files.paths)):
        file = files.open(number)
        for group in range(file.metadata.num_row_groups):
            with files.reading(number, group):
                yield from file.iter_batches(_BATCH, row_groups=[group], columns=columns)


def _dates_of_text(files: ParquetFiles, texts: list[str], gaps: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """Columns of text that are dates, as in other files: their fields and values. Only those that begin so are read."""
    import pyarrow as pa

    from horoball.tables.frames import with_dates  # which files of numbers alone do not need

    head = next(_batches(files, texts), None) if texts else None
    if head is None:
        return {}
    words = pa.array((*GAP_WORDS, *gaps))
    likely = [name for name in texts if may_be_dates(head.column(name).cast(pa.string()), words)]
    if not likely:
        return {}
    parts = [[batch.column(name).cast(pa.string()) for name in likely] for batch in _batches(files, likely)]
    read = pa.table([pa.chunked_array(each) for each in zip(*parts, strict=True)], names=likely)
    found = with_dates(read, gaps)
    told = {name: (found.field(name), found.column(name)) for name in likely}
    return {name: both for name, both in told.items() if not both[0].equals(read.field(name), check_metadata=True)}


def _typed(batch: Any, kinds: Mapping[str, Any]) -> Any:
    """A batch whose columns have the types that all files share; dictionaries stay as they are."""
    import pyarrow as pa

    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        kind = kinds[field.name]
        if pa.types.is_null(field.type):
            column = pa.nulls(len(column), kind)
        elif field.type != kind and not pa.types.is_dictionary(field.type):
            column = column.cast(kind, safe=False)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _texts(schema: Any) -> list[str]:
    """Columns of text, which files hold as dictionaries and codes unless they have very many values."""
    import pyarrow as pa

    return [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]


class MixedParquetTable(ParquetTable):
    """Parquet files whose columns are of several kinds, encoded as they are read."""

    def __init__(self, path: str, schema: Schema, options: ReadOptions) -> None:
        opened = _files_of(path)
        files, schemas = opened.paths, opened.schemas()
        names = list(schemas[0].names)
        self._source = [column.name for column in schema.used]
        found = with_index(options._replace(columns=self._source), names, path)
        chosen = choose(names, found, path)
        leveled = {column.name for column in schema.used if column.levels}
        common = common_schema(schemas, files, leveled) if leveled else ()
        texts = [name for name in _texts(common) if name in leveled]
        super().__init__(opened, chosen.label, chosen.ids, self._source, texts)
        self.name_column, self.schema, self.columns = chosen.name_column, schema, schema.names
        self.unseen = Unseen()

    def held(self) -> Table:
        """The same table in memory, if it is small; this one if it is not."""
        if self.decoded_bytes() > most_in_memory():
            return self
        table = self.in_memory()
        table.schema = self.schema
        return table

    def _features(self, schema: Any, aside: Sequence[str], path: str, columns: Sequence[str] | None) -> list[str]:
        known = set(schema.names)
        missing = [name for name in self._source if name not in known]
        if missing:
            raise ValueError(f"{path} has no column {missing[0][:40]!r}. All files need the same columns.")
        return list(self._source)

    def _reader(self) -> _MixedReader:
        assert self.schema is not None  # noqa: S101  set on making
        return _MixedReader(self._files, self._source, self.schema, self.unseen)


class _MixedReader(RowReader):
    """Stretches of row groups as rows of numbers."""

    def __init__(self, files: ParquetFiles, columns: list[str], schema: Schema, unseen: Unseen) -> None:
        super().__init__(files, columns, len(schema.names))
        self._schema, self._unseen = schema, unseen

    def _rows(self, frame: Any, stretch: Stretch, first: int) -> np.ndarray:
        return encode(self._schema, frame, self._unseen, partial(self._row, stretch, first))
