"""Node ids of any kind as numbers, with the names that lead back, and what is known of nodes, a row each."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.tables.cell_values import is_missing
from horoball.tables.limits import check_widths
from horoball.tables.numbers import check_numbers, refuse_beyond
from horoball.tables.parquet_files import shown_type
from horoball.tables.table import Table


class Numbered(NamedTuple):
    """Edges between numbered nodes."""

    edges: np.ndarray  # int64, (m, 2)
    nodes: int
    names: np.ndarray | None


def number_ids(first: Any, second: Any, where: str) -> Numbered:
    """Number the nodes of edges whose ends are two columns of ids.

    Whole numbers that are exactly 0 … n − 1 stay as they are. Any other ids become names, in the order of the numbers,
    or of the alphabet.

    Args:
        first: One end of each edge: a pyarrow array, or what pyarrow makes one of.
        second: The other end.
        where: What the ids are of, for messages.
    """
    import pyarrow as pa

    columns = [_column(ids, where) for ids in (first, second)]
    if any(isinstance(column, np.ndarray) for column in columns):
        columns = [_as_numbers(column) for column in columns]  # 1.0 in one column and 2 in the other are both numbers
    if all(isinstance(column, np.ndarray) for column in columns):
        return _number_integers(np.stack(columns, 1))
    texts = [pa.array(column).cast(pa.string()) if isinstance(column, np.ndarray) else column for column in columns]
    edges, ids = _coded([chunk for text in texts for chunk in (text.chunks if hasattr(text, "chunks") else [text])])
    names = ids.to_pylist()
    check_widths(names, f"The node ids of {where}")
    return Numbered(edges, len(ids), np.asarray(names, dtype=str))


def number_hashables(nodes: Iterable[Hashable]) -> tuple[dict[Hashable, int], np.ndarray | None]:
    """The number of each of some objects, and their names; None where the objects are the numbers."""
    known = list(dict.fromkeys(nodes))
    if any(map(is_missing, known)):
        raise ValueError("A node id is missing: None or NaN. Fill or drop such edges first.")
    whole = all(isinstance(node, int | np.integer) for node in known)
    known.sort(key=int if whole else str)  # type: ignore[arg-type]
    number = {node: i for i, node in enumerate(known)}
    if whole and (not known or (known[0] == 0 and known[-1] == len(known) - 1)):
        return number, None
    texts = [str(node) for node in known]
    check_widths(texts, "The node ids")
    names = np.asarray(texts, dtype=str)
    same = np.flatnonzero(names[1:] == names[:-1])
    if len(same):
        a, b = known[same[0]], known[same[0] + 1]
        raise ValueError(f"Two nodes have the same name, {a!r} and {b!r}. Give nodes names that differ as text.")
    return number, names


def _number_integers(pairs: np.ndarray) -> Numbered:
    if not len(pairs):
        return Numbered(pairs, 0, None)
    low, high = int(pairs.min()), int(pairs.max())
    if low == 0 and high < pairs.size:
        seen = np.zeros(high + 1, bool)
        seen[pairs.ravel()] = True
        if seen.all():
            return Numbered(pairs, high + 1, None)
    edges, ids = _coded(list(pairs.T))
    width = max(len(str(low)), len(str(high)))
    return Numbered(edges, len(ids), ids.to_numpy().astype(f"U{width}"))


def _coded(chunks: list[Any]) -> tuple[np.ndarray, Any]:
    """The places of ids, first ends before second ends, among the sorted distinct ones; and those.

    pyarrow hashes numbers and text alike, so that only the distinct ids are sorted.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = pa.chunked_array(chunks).dictionary_encode().unify_dictionaries()
    ids = coded.chunk(0).dictionary
    order = pc.array_sort_indices(ids)
    rank = np.empty(len(ids), np.int64)
    rank[order.to_numpy()] = np.arange(len(ids))
    place = np.concatenate([chunk.indices.to_numpy() for chunk in coded.chunks])
    return rank[place].reshape(2, -1).T, ids.take(order)


def _column(ids: Any, where: str) -> Any:
    """Ids as int64, or as pyarrow text."""
    import pyarrow as pa

    column = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids, from_pandas=True)
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise ValueError(f"{where} lacks a node id in edge {row}. Fill or drop such edges first.")
    if pa.types.is_integer(column.type):
        try:
            return column.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            return column.cast(pa.string())  # unsigned, beyond 2⁶³
    if pa.types.is_floating(column.type):
        return _whole(column.to_numpy().astype(np.float64), where)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        text = column.cast(pa.string())
        try:
            numbers = text.cast(pa.float64())
        except pa.ArrowInvalid:
            return text
        # Text such as 1.0 or 1.5 is a number if every id is one; digits without a point are kept as they are written.
        return _whole(numbers.to_numpy(), where) if _has_point(text) else text
    raise ValueError(f"{where} holds {shown_type(column.type)}, not node ids. Expected whole numbers or text.")


def _as_numbers(column: Any) -> Any:
    import pyarrow as pa

    try:
        return column if isinstance(column, np.ndarray) else column.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        return column


def _has_point(text: Any) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring_regex(text, r"[.eE]")).as_py())


def _whole(x: np.ndarray, where: str) -> np.ndarray:
    """Whole numbers that came as floats."""
    bad = np.flatnonzero(~((np.abs(x) < 2**53) & (x == np.floor(x))))
    if not len(bad):
        return x.astype(np.int64)
    row, value = int(bad[0]), x[bad[0]]
    if np.isnan(value):
        raise ValueError(f"{where} lacks a node id in edge {row}. Fill or drop such edges first.")
    raise ValueError(
        f"{where} has the id {value} in edge {row}. Expected whole numbers below 2⁵³, or text. Are the first two "
        "columns the ends of the edges?"
    )


def node_features(features: Any, nodes: int, names: np.ndarray | None) -> Tensor:
    """Features as float32, shape (nodes, k), rows in the order of the nodes.

    Args:
        features: An array, a tensor, a scipy sparse matrix, a data frame, or a table. A pandas frame is put in order
            by its index, and a table by the names of its rows if it has them: these are the names of the nodes.
        nodes: Number of nodes.
        names: Their names; None where they are numbers.
    """
    if isinstance(features, Table):
        features = _table(features, nodes, names)
    elif hasattr(features, "columns"):
        features = _frame(features, nodes, names)
    check_numbers(features, "The array of features")
    if hasattr(features, "toarray"):
        features = features.toarray()
    array = features.detach().cpu().numpy() if isinstance(features, Tensor) else np.asarray(features)
    if array.ndim != 2 or len(array) != nodes:
        raise ValueError(
            f"Expected one row of features for each of the {nodes} nodes, got features of shape {array.shape}."
        )
    if array.dtype.kind == "f":  # whole numbers have no room beyond
        refuse_beyond(array, [str(column) for column in range(array.shape[1])], "The array of features")
    with np.errstate(over="ignore"):  # infinite ones, of a wider type
        array = np.array(array, np.float32)
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"The features hold a missing or infinite value in row {row}, column {column}. Fill it first.")
    return torch.from_numpy(array)


def _table(table: Table, nodes: int, names: np.ndarray | None) -> np.ndarray:
    rows = np.concatenate([block.numpy() for block in table.blocks()])
    labels = table.read_names()
    return rows if labels is None else rows[_places(np.asarray(labels).astype(str), nodes, names, "table")]


def _frame(frame: Any, nodes: int, names: np.ndarray | None) -> np.ndarray:
    if hasattr(frame, "index"):  # polars has none: its rows are in the order of the nodes
        frame = frame.iloc[_places(np.asarray(frame.index.to_numpy()).astype(str), nodes, names, "frame")]
    return np.asarray(frame.to_numpy())


def _places(labels: np.ndarray, nodes: int, names: np.ndarray | None, kind: str) -> np.ndarray:
    """The row of each node."""
    if len(labels) != nodes:
        raise ValueError(f"Expected one row of features for each of the {nodes} nodes, got a {kind} of {len(labels)}.")
    wanted = np.arange(nodes).astype(str) if names is None else names.astype(str)
    order = np.argsort(labels)
    place = order[np.searchsorted(labels, wanted, sorter=order).clip(max=nodes - 1)]
    lost = np.flatnonzero(labels[place] != wanted)
    if len(lost):
        advice = "the nodes as its index" if kind == "frame" else "a column with the names of the nodes, see --id"
        raise ValueError(
            f"The features have no row for the node {str(wanted[lost[0]])!r}. Give the {kind} {advice}, or pass an "
            "array with its rows in the order of the nodes."
        )
    return place
