"""The one door for rows: files, arrays, frames, AnnData, by what their rows are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from horoball.tables.anndata import cell_table, is_cells
from horoball.tables.cell_values import gap_words
from horoball.tables.mixed import read_columns, read_fitted
from horoball.tables.schema import ReadOptions, Schema, closest
from horoball.tables.table import Table
from horoball.tables.uniform import read_numbers

# What rows are, in words; `horoball.vae.kinds` has what models make of each.
KINDS = {
    "numbers": "real numbers, complete, in columns that are alike",
    "counts": "whole numbers from 0 on that were counted",
    "cells": "counts of genes in cells, each a share of its own total",
    "vectors": "directions, compared by their cosine",
    "mixed": "columns of several kinds, with gaps",
}


class Reading(NamedTuple):
    """How the rows of a fit were read, so that new ones are read alike."""

    kind: str
    columns: list[str]  # of the features
    schema: Schema = Schema(())
    label: str | None = None  # which new rows need not have
    ids: str | None = None
    options: Mapping[str, Any] = {}  # of cells: layer, batch and numbers; of vectors: the name of their column


def read(
    source: Any,
    label: str | None = None,
    *,
    kind: str = "auto",
    ids: str | None = None,
    columns: Mapping[str, str] | Sequence[str] | None = None,
    drop: Sequence[str] = (),
    na: Sequence[str] = (),
    vectors: str | None = None,
    layer: str | None = "auto",
    batch: Sequence[str] = (),
    numbers: Mapping[str, Sequence[float] | None] | None = None,
    streamed: bool | Literal["auto"] = "auto",
    label_may_miss: bool = False,
    ids_may_miss: bool = False,
    like: Reading | None = None,
) -> Table:
    """A table from a source. Rows are numbered from 0 in all messages.

    - a path or URL: `.csv`, `.tsv`, `.xlsx`, `.feather`, `.jsonl`, `.npy`, `.npz` (an array, or a scipy sparse matrix)
      are read into memory; `.parquet`, or a folder of such files, is read into memory up to 256 MiB, and streamed
      beyond; `.h5ad`, on this machine, holds cells; other endings by the readers that plugins register, see
      `table_reader`;
    - a numpy array, a torch tensor, a scipy sparse matrix, a pandas or polars data frame, an Arrow table, a DuckDB
      relation;
    - a torch Dataset of rows, or of (row, label) pairs;
    - AnnData.

    What the columns are is decided by their values, wherever they come from: the same numbers in an array and in a file
    are the same table.

    Args:
        source: Where the rows come from.
        label: Name of a column to keep aside; refused by sources whose columns have no names.
        kind: What the rows are: "numbers", "counts", "cells", "vectors" or "mixed"; "auto" is cells for AnnData and
            .h5ad files, mixed where columns are of several kinds or have gaps, and numbers otherwise, which a model
            takes for counts where they look counted. "numbers" and "counts" refuse text and gaps.
        ids: Name of a column that holds the rows' names. Without it an index of pandas, the first column of a .csv
            file if it has no name, is taken as such.
        columns: Kinds of some columns by name, see `horoball.tables.schema.KINDS`; the others are guessed. Or names of
            the columns to take, in their order; all of them without it.
        drop: Names of columns to leave out.
        na: Texts and numbers that stand for a missing value, such as ["unknown", "-999"], beside
            `horoball.tables.cell_values.GAP_WORDS`. The model knows them for rows that come later.
        vectors: Of vectors: name of the column of lists that holds them, if there is more than one.
        layer: Of cells: name of the layer with the counts, None for X; "auto" is the layer "counts" if there is one,
            otherwise X.
        batch: Of cells: columns of obs that a model is given as categories.
        numbers: Of cells: columns of obs that it is given as numbers, with the mean and standard deviation to scale
            each by; None for its own.
        streamed: Whether the rows of .parquet files stay in the files and are read anew in each epoch. True takes
            little memory however many rows there are, but has no distance term and shuffles in blocks; "auto" (default)
            streams tables of more than 256 MiB, 4 bytes a number.
        label_may_miss: Whether a source without the label is taken as it is, and not refused.
        ids_may_miss: Whether a source without the column of names is taken as it is, too.
        like: How the rows of a fit were read: columns, or genes, are found by their names, in any order, and the label
            may miss. All other options but ids and na are its own.

    Returns:
        A table; its `kind` says what its rows are, and its `schema` what its columns are and why, if they are of
        several kinds or some were left out.

    Example:
        >>> import numpy as np, pyarrow as pa
        >>> read(np.eye(3)).features
        3
        >>> table = read(pa.table({"a": [0.5, None, 2.5, 1.0], "b": ["x", "y", "x", "z"]}))
        >>> print(*table.schema.lines(), sep=chr(10))
        a  real      numbers from 0.5 to 2.5; 1 missing
        b  category  text with 3 different values: x, y, z
    """
    if isinstance(source, Table):
        return source
    na = gap_words(na)
    from horoball.tables.listing import one_reading  # tables in memory do not need it

    with _named(source), one_reading():
        if like is not None:
            return _read_like(source, like, ids, na)
        options = ReadOptions(label, label_may_miss, ids, ids_may_miss, None, streamed, na)
        return _read(source, kind, options, columns, drop, vectors, layer, batch, numbers)


@contextmanager
def _named(source: Any) -> Iterator[None]:
    """Name the file in what is said of its rows, where it is not."""
    try:
        yield
    except ValueError as error:
        path = str(source) if isinstance(source, str | Path) else ""
        if type(error) is not ValueError or Path(path).name in str(error):
            raise
        raise ValueError(f"{path}: {error}") from error


def _read(
    source: Any,
    kind: str,
    options: ReadOptions,
    columns: Mapping[str, str] | Sequence[str] | None,
    drop: Sequence[str],
    vectors: str | None,
    layer: str | None,
    batch: Sequence[str],
    numbers: Mapping[str, Sequence[float] | None] | None,
) -> Table:
    if kind != "auto" and kind not in KINDS:
        raise ValueError(
            f"There is no kind of rows {kind[:40]!r}.{closest(kind, KINDS)} Kinds are: {', '.join(KINDS)}."
        )
    cells = is_cells(source)
    if cells and kind in ("vectors", "mixed"):
        raise ValueError(f"AnnData and .h5ad files hold cells, counts or numbers, not rows of the kind {kind!r}.")
    where = str(source) if isinstance(source, str | Path) else f"the {type(source).__name__}"
    if vectors is not None and kind != "vectors":
        raise ValueError(f"--column is for vectors. Say so: --kind vectors --column {vectors}.")
    if cells and kind in ("auto", "cells"):
        if options.ids is not None and not options.ids_may_miss:
            raise ValueError(f"--id is for tables; the cells of {where} have names, which are kept.")
        if isinstance(columns, Mapping) or options.na:
            raise ValueError(f"Kinds of columns and --na are for tables; {where} has counts of cells.")
        return cell_table(
            source,
            layer=layer,
            batch=batch,
            numbers=numbers,
            genes=columns,
            without=drop,
            label=options.label,
            label_may_miss=options.label_may_miss,
        )
    if batch or layer not in ("auto", None) or numbers:
        raise ValueError(f"--layer and --batch are for .h5ad files, not for {where}.")
    if kind == "vectors":
        if columns or drop:
            raise ValueError("--columns and --drop are for tables. Of vectors, name the one column: --column.")
        from horoball.tables.vectors import read_vectors

        return read_vectors(source, vectors, options)
    kinds = columns if isinstance(columns, Mapping) else {}
    options = options._replace(columns=None if isinstance(columns, Mapping) else columns)
    if kind in ("auto", "mixed"):
        return read_columns(source, options, kinds, drop, apart=kind == "mixed")
    if kinds:
        raise ValueError(f"Kinds of columns are those of mixed tables; rows of {kind} have columns that are alike.")
    table = read_numbers(source, options._replace(drop=drop))
    table.kind = kind
    if kind == "counts":
        _check_counts(table, where)
    return table


def _check_counts(table: Table, where: str) -> None:
    """Refuse what was never counted, where rows are said to be counts."""
    from horoball.tables.scaling import summarize  # which only these need

    found = summarize(table)
    low = float(found.low.min())
    if not found.whole or low < 0:
        shown = low if low < 0 else found.odd
        raise ValueError(f"Counts are whole numbers from 0 on, and {where} holds {shown:g}. Leave the kind out.")


def _read_like(source: Any, like: Reading, ids: str | None, na: Sequence[str]) -> Table:
    """Rows for a fitted model; words that stand for a missing value are those of the fit and those that are given."""
    options = ReadOptions(like.label, True, ids or like.ids, ids is None, like.columns, na=na)
    if like.kind == "mixed":
        return read_fitted(source, like.schema, options)
    if like.kind == "vectors":
        array = isinstance(source, str | Path) and str(source).lower().endswith((".npy", ".npz"))
        column = None if array else like.options.get("vectors")
        from horoball.tables.vectors import read_vectors

        return read_vectors(source, column, options._replace(columns=None))
    if is_cells(source):
        if ids is not None:
            raise ValueError("--id is for tables; cells have names, which are kept.")
        return cell_table(source, genes=like.columns, label=like.label, label_may_miss=True, **like.options)
    table = read_numbers(source, options)
    table.kind = like.kind
    return table
