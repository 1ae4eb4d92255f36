"""Mixed tables in Parquet files too large for memory: looked through once, then read and encoded group by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from horoball.data.columns.encoding import Unseen, encode
from horoball.data.columns.profile import Profile, profile_batches
from horoball.data.files.parquet_folders import parquet_files
from horoball.data.files.parquet_schemas import common_schema
from horoball.data.readers.parquet import ParquetTable, most_in_memory
from horoball.data.tables.column_roles import ReadOptions, choose, with_index
from horoball.data.tables.column_types import Schema
from horoball.data.tables.row_groups import ParquetFiles, RowReader, Stretch
from horoball.data.tables.table import Table

__all__ = ["MixedParquetTable", "is_parquet", "profile_parquet"]

_BATCH = 1 << 16  # rows that are looked at together


def is_parquet(path: str) -> bool:
    """Whether a path is of Parquet files: by its ending, or a folder.

    Example:
        >>> is_parquet("rows.csv"), is_parquet("rows.parquet")
        (False, True)
    """
    return path.lower().endswith(".parquet") or ("://" not in path and Path(path).is_dir())


def profile_parquet(
    path: str, features: Callable[[list[str]], list[str]], gaps: Sequence[str] = ()
) -> tuple[list[str], list[Profile]]:
    """Names of all columns, and a profile of those that are features, from one pass over the files.

    Args:
        path: A file, or a folder of files.
        features: Which of the names are features.
        gaps: Words that stand for a missing value, beside `GAP_WORDS`.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> pq.write_table(pa.table({"a": [1.0, None], "kind": ["x", "y"]}), path)
        >>> names, profiles = profile_parquet(str(path), lambda names: ["a"])
        >>> names, profiles[0].missing
        (['a', 'kind'], 1)
    """
    import pyarrow as pa

    paths = parquet_files(path)
    opened = ParquetFiles(paths)
    first = opened.open(0).schema_arrow
    chosen = features(list(first.names))
    common = common_schema(opened.schemas(), paths, set(chosen))
    files = ParquetFiles(paths, _texts(common))

    def batches() -> Any:
        for number in range(len(files.paths)):
            file = files.open(number)
            for group in range(file.metadata.num_row_groups):
                with files.reading(number, group):
                    for batch in file.iter_batches(_BATCH, row_groups=[group], columns=chosen):
                        yield _typed(batch, kinds)

    fields = {field.name: field for field in common}  # looking one up by its name costs as much as listing all
    schema = pa.schema([fields[name] for name in chosen])
    kinds = {name: fields[name].type for name in chosen}
    return list(first.names), profile_batches(schema, batches(), str(path), gaps)


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
    """Parquet files whose columns are of several kinds, encoded as they are read.

    Args:
        path: A file, or a folder of files.
        schema: What the columns are.
        options: Which column is the label, and which holds the rows' names.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, pathlib
        >>> from horoball.data.tables.column_types import Column
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> pq.write_table(pa.table({"b": ["no", "yes", None]}), path)
        >>> schema = Schema((Column("b", "binary", "", form="text", levels=("no", "yes")),))
        >>> next(MixedParquetTable(str(path), schema, ReadOptions()).blocks()).ravel()
        tensor([0., 1., nan])
    """

    def __init__(self, path: str, schema: Schema, options: ReadOptions) -> None:
        files = parquet_files(path)
        opened = ParquetFiles(files)
        names = list(opened.open(0).schema_arrow.names)
        self._source = [column.name for column in schema.used]
        found = with_index(options._replace(columns=self._source), names, path)
        chosen = choose(names, found, path)
        leveled = {column.name for column in schema.used if column.levels}
        common = common_schema(opened.schemas(), files, leveled) if leveled else ()
        texts = [name for name in _texts(common) if name in leveled]
        super().__init__(files, chosen.label, chosen.ids, self._source, texts)
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
        super().__init__(files, columns)
        self._schema, self._unseen = schema, unseen

    def read(self, stretches: Sequence[Stretch]) -> np.ndarray:
        """Their rows below each other, a C-ordered float32 array."""
        out = np.empty((sum(stretch.rows for stretch in stretches), len(self._schema.names)), np.float32)
        start = 0
        for stretch in stretches:
            row = stretch.first
            for frame in self._whole(stretch) if stretch.whole else self._part(stretch):
                first = partial(self._row, stretch, row)
                out[start : start + frame.num_rows] = encode(self._schema, frame, self._unseen, first)
                row += frame.num_rows
                start += frame.num_rows
        return out
