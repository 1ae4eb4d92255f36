"""Any source of edges as a graph: files, arrays, matrices, data frames, networkx, PyTorch Geometric.

Files are text, Parquet tables and saved matrices, also compressed.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.graphs.edge_lines import EdgeLines, Ends, ends_of, named_ends, refuse_triples
from horoball.graphs.graph import Graph
from horoball.graphs.nodes import Numbered, node_features, number_hashables, number_ids
from horoball.tables.limits import check_held, check_nodes, check_rows, parsing
from horoball.tables.numpy_files import load_arrays
from horoball.tables.row_groups import read_whole

_NETWORKX = {"graphml": "GraphML", "gml": "GML", "gexf": "GEXF"}
_PART = 1 << 20  # bytes that are decompressed at once
_EDGE = 128  # bytes that a line of text takes on the way: two ids, their order, their numbers and copies of these
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")


def read_edge_file(path: str, comment: str | None = None) -> Ends | np.ndarray | Any:
    """The edges of a file: two columns of ids, an array of pairs, or a scipy sparse adjacency matrix.

    Args:
        path: A path or URL. `.csv`, `.tsv`, `.parquet`, `.npy` and `.npz` are told by their endings, Matrix Market by
            its first line; anything else is lines of ids between blanks, tabs or commas. `.gz` may follow.
        comment: What lines of text that are comments begin with; without it they are those before the first edge that
            begin with # or %.
    """
    data = _bytes(path)
    ending = next((s for s in reversed(Path(path.lower()).suffixes) if s not in _COMPRESSED), "")
    _refuse_networkx(path, ending, data[:1000])
    if ending == ".parquet":
        return _parquet(path, data)
    if ending in (".npy", ".npz"):
        return _numpy(path, data)
    if b"\0" in data:
        raise ValueError(
            f"{path} is not text in UTF-8: it holds a zero byte. Expected a line with two node ids for each edge, or a "
            "file that ends in .parquet, .npz or .npy."
        )
    if data.startswith(b"%%MatrixMarket"):
        import scipy.io

        with parsing(path, "Matrix Market file"):
            # scipy reads on beyond a last line that has no end (version 1.17), and ends the process.
            _check_entries(io.BytesIO(data + b"\n"), len(data))
            return scipy.io.mmread(io.BytesIO(data + b"\n"))
    with parsing(path):
        check_held(_EDGE * data.count(b"\n"), _stored(path), "the list of its edges")
    return EdgeLines(path, data, {".csv": ",", ".tsv": "\t"}.get(ending), comment).ends()


def _refuse_networkx(path: str, ending: str, start: bytes) -> None:
    """Say who reads GraphML, GML and GEXF: their tags and brackets would be taken for ids."""
    kind = next((name for name in _NETWORKX if ending == f".{name}"), None)
    if start.lstrip().startswith((b"<?xml", b"<graphml", b"<gexf")):
        kind = "gexf" if b"<gexf" in start else "graphml"
    elif re.search(rb"^\s*graph\s*\[", start, re.MULTILINE):
        kind = "gml"
    if kind is not None:
        raise ValueError(
            f"{path} is a {_NETWORKX[kind]} file, which is not read. In Python, pass the graph that networkx reads: "
            f"read_graph(networkx.read_{kind}(path)); for a command, write its edges with networkx.write_edgelist."
        )


def _bytes(path: str) -> bytes:
    """What a file holds, decompressed."""
    import fsspec

    if "://" not in path and Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected a file of edges.")
    if "://" not in path and not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    with parsing(path):
        size = _stored(path)  # before it is opened: a file in memory has one place for all who read it
    with parsing(path), fsspec.open(path, "rb", compression="infer") as opened:
        file: Any = opened
        data = bytearray()
        while part := file.read(_PART):
            data += part
            check_held(len(data), size, "its compressed text")
        return bytes(data)


def _stored(path: str) -> int:
    """Bytes of a file, compressed as it may be."""
    import fsspec

    with fsspec.open(path, "rb") as stored:
        return int(stored.seek(0, 2))


def _check_entries(file: io.BytesIO, size: int) -> None:
    """Refuse a Matrix Market file whose header tells of more entries than its lines can hold: scipy believes it."""
    import scipy.io

    rows, columns, entries, kind, _, symmetry = scipy.io.mminfo(file)
    shortest = 4 if kind == "coordinate" else 2  # bytes of a line: "1 1" or "1", and its end
    stored = entries if kind == "coordinate" or symmetry == "general" else entries // 2 - max(rows, columns)
    if min(rows, columns, entries) < 0 or stored * shortest > size + shortest:
        raise ValueError(f"its header tells of {entries:,} entries, which a file of {size:,} bytes does not hold")
    if min(rows, columns) == 0:  # of which scipy divides by none (version 1.17), and ends the process
        raise ValueError(f"it is a matrix of {rows:,} rows and {columns:,} columns, which has no nodes")
    check_nodes(rows, size)


def _parquet(path: str, data: bytes) -> Ends:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    check_rows(file.metadata.num_rows, len(data))
    names = file.schema_arrow.names
    columns = [names[position] for position in ends_of(names, path)]
    if any(names.count(name) > 1 for name in columns):
        raise ValueError(
            f"{path} has columns of the same name, {columns[0][:40]!r} or {columns[1][:40]!r}. Rename them."
        )
    facts = len(names) == 3 and named_ends(names) is None
    with parsing(path, "Parquet file"):
        table = read_whole(io.BytesIO(data), names if facts and len(set(names)) == 3 else columns, _stored(path))
    if facts:
        some = table.slice(0, 1000)
        refuse_triples(zip(*(column.to_pylist() for column in some.columns), strict=True), path)
    return Ends(table.column(columns[0]), table.column(columns[1]))


def _numpy(path: str, data: bytes) -> Any:
    with parsing(path, ".npy or .npz file"):
        loaded = load_arrays(io.BytesIO(data))
    if isinstance(loaded, dict):
        raise ValueError(
            f"{path} is not a saved scipy sparse matrix; it holds the arrays {', '.join(list(loaded)[:8])[:200]}. Save "
            "the adjacency with scipy.sparse.save_npz."
        )
    return loaded


_LOG = logging.getLogger("horoball")


def read_graph(source: Any, features: Any = None, *, directed: bool = False, comment: str | None = None) -> Graph:
    """A graph from a source; weights, self-loops and repeated edges are left out, and the log says so.

    - a path or URL, also with `.gz`: `.csv`, `.tsv` and `.parquet` (columns source and target, from and to, src and
      dst, u and v, head and tail, subject and object, child and parent, descendant and ancestor, hyponym and hypernym,
      or the first two unless they are facts (head, relation, tail) without such names), a saved scipy sparse adjacency
      (`.npz`), Matrix Market, an array of pairs (`.npy`), and anything else as lines of two ids; lines before the first
      edge that begin with # or % are comments;
    - a networkx graph, a `Data` of PyTorch Geometric with its features, a scipy sparse adjacency;
    - pairs of node ids: an integer array or tensor of shape (m, 2), also (2, m) unless m is 2, a list of pairs of
      anything hashable, also with a weight, a pandas or polars data frame;
    - an adjacency matrix as a pandas data frame, with the nodes as index and as columns.

    Nodes that are exactly the numbers 0 … n − 1, or whose number the source states, have no names. All others are
    numbered in the order of their ids, which become names: text, negative, sparse and huge numbers. Nodes without
    edges are kept where the source knows them: networkx, `Data`, a matrix.

    Args:
        source: Where the edges come from.
        features: Numbers known of the nodes, shape (nodes, k): an array, a tensor or a scipy sparse matrix with rows
            in the order of the nodes, a pandas frame whose index are the nodes, or a table whose rows have their names,
            such as `read("people.csv", kind="numbers", ids="name")`.
        directed: Whether an edge goes from a child to its parent: the first of a pair, the source of an edge, the row
            of a matrix is the child. Otherwise directions are left out.
        comment: Of a text file: what comments begin with, wherever they stand, such as "#"; "none" if there are none,
            so that #cat is a node in the first line, too.

    Example:
        >>> graph = read_graph([("lion", "cat"), ("cat", "mammal"), ("dog", "mammal")])
        >>> graph.names.tolist(), graph.edges.tolist()
        (['cat', 'dog', 'lion', 'mammal'], [[0, 2], [0, 3], [1, 3]])
    """
    where = str(source) if isinstance(source, str | Path) else f"The {type(source).__name__}"
    if isinstance(source, str | Path):
        with parsing(source):
            graph = _graph(read_edge_file(str(source), comment), where, directed)
    else:
        graph = _as_asked(source, directed) if isinstance(source, Graph) else _graph(source, where, directed)
    if not len(graph.edges):
        of = f"{graph.nodes} node{'' if graph.nodes == 1 else 's'}"
        raise ValueError(f"{where} has no edges between different nodes ({of}). Expected at least one.")
    if features is None:
        return graph
    return replace(graph, features=node_features(features, graph.nodes, graph.names))


def _as_asked(graph: Graph, directed: bool) -> Graph:
    if directed and not graph.directed:
        raise ValueError("The graph has no directions. Make it with Graph.of(pairs, directed=True), (child, parent).")
    if graph.directed and not directed:
        _LOG.info("The directed graph was taken as undirected.")
        return graph.undirected()
    return graph


def _graph(source: Any, where: str, directed: bool) -> Graph:
    if isinstance(source, Ends):
        return _named(number_ids(source.first, source.second, where), directed)
    if hasattr(source, "tocsr"):
        return _of_matrix(source, where, directed)
    if getattr(source, "edge_index", None) is not None:
        return _of_data(source, where, directed)
    if hasattr(source, "is_directed") and hasattr(source, "nodes"):
        return _of_networkx(source, directed)
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        return _of_frame(source, where, directed)
    if isinstance(source, Tensor):
        source = source.detach().cpu().numpy()
    if isinstance(source, np.ndarray):
        return _of_array(source, where, directed)
    if isinstance(source, list | tuple | set | frozenset):
        return _of_pairs(list(source), where, directed)
    raise TypeError(
        f"Cannot read a graph from {type(source).__name__}. Expected a path, pairs of nodes, a data frame, a scipy "
        "sparse matrix, a networkx graph or a Data of PyTorch Geometric with an edge_index."
    )


def _named(numbered: Numbered, directed: bool) -> Graph:
    return Graph.of(numbered.edges, numbered.nodes, numbered.names, directed=directed)


def _of_matrix(matrix: Any, where: str, directed: bool) -> Graph:
    """Both triangles of an adjacency matrix together; of a directed one, each row's parents."""
    import scipy.sparse

    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"{where} has shape {matrix.shape}. Expected a square matrix, a row and a column for each node."
        )
    values = matrix.data if hasattr(matrix, "data") else np.empty(0)
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError(
            f"{where} has {int(np.isnan(values).sum()):,} missing values (NaN). Where there is no edge, 0 is expected: "
            "fill them, as by frame.fillna(0)."
        )
    joined = scipy.sparse.csr_array(matrix != 0)
    if directed:
        return Graph.of(np.stack(joined.nonzero(), 1).astype(np.int64), matrix.shape[0], directed=True)
    upper, lower = scipy.sparse.triu(joined, 1), scipy.sparse.triu(joined.T, 1)
    if upper.nnz and lower.nnz and (upper != lower).nnz:
        _LOG.info("%s is not symmetric: each of its entries became an edge without a direction.", where)
    loops = np.flatnonzero(joined.diagonal())
    i, j = (upper + lower).nonzero()
    return Graph.of(np.stack([np.append(i, loops), np.append(j, loops)], 1).astype(np.int64), matrix.shape[0])


def _of_frame(frame: Any, where: str, directed: bool) -> Graph:
    """Pairs of nodes; or an adjacency matrix, which has as many rows as columns."""
    import scipy.sparse

    columns = list(frame.columns)
    names = [str(column) for column in columns]
    if len(columns) != len(frame) or len(columns) < 3 or named_ends(names) is not None:
        ends = ends_of(names, where)
        if len(columns) == 3 and named_ends(names) is None:
            refuse_triples(zip(*(frame[column].to_numpy() for column in columns), strict=True), where)
        a, b = (frame[columns[i]].to_numpy() for i in ends)
        return _named(_number_columns(a, b, where), directed)
    if list(getattr(frame, "index", ())) != columns:
        raise ValueError(
            f"{where} has as many rows as columns, as an adjacency matrix has. Give it the nodes as index, too; or "
            "call the columns with the ends of edges source and target."
        )
    number, names_of = number_hashables(columns)
    place = np.array([number[column] for column in columns])
    joined = _of_matrix(scipy.sparse.csr_array(frame.to_numpy(dtype=np.float64)), where, directed)
    return Graph.of(place[joined.edges.numpy()], len(columns), names_of, directed=directed)


def _of_data(data: Any, where: str, directed: bool) -> Graph:
    """A PyTorch Geometric graph, which has each undirected edge in both directions."""
    import scipy.sparse

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a Data that does not state its number of nodes warns that it was inferred
        n = int(data.num_nodes)
    i, j = data.edge_index.detach().cpu().numpy()
    if len(i) and (i.min() < 0 or j.min() < 0 or max(i.max(), j.max()) >= n):
        raise ValueError(
            f"{where} has {n} nodes, but its edge_index goes from {data.edge_index.min()} to "
            f"{data.edge_index.max()}. Set num_nodes."
        )
    graph = _of_matrix(scipy.sparse.coo_array((np.ones(len(i), bool), (i, j)), shape=(n, n)), where, directed)
    x = getattr(data, "x", None)
    return graph if x is None else replace(graph, features=node_features(x, n, None))


def _of_networkx(source: Any, directed: bool) -> Graph:
    if directed and not source.is_directed():
        raise ValueError("The networkx graph has no directions. Make it a DiGraph, with edges from child to parent.")
    number, names = number_hashables(source.nodes)
    if source.is_directed() and not directed:
        _LOG.info("The directed graph was taken as undirected.")
    ends = map(number.__getitem__, chain.from_iterable(source.edges()))
    return Graph.of(np.fromiter(ends, np.int64).reshape(-1, 2), len(number), names, directed=directed)


def _of_array(array: np.ndarray, where: str, directed: bool) -> Graph:
    if array.ndim == 2 and array.shape[0] == 2 != array.shape[1]:
        array = array.T
    if array.ndim == 2 and array.shape[1] == 3 != array.shape[0]:
        raise ValueError(
            f"{where} has shape {array.shape}. Expected pairs of nodes; weights are not used: take array[:, :2]."
        )
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(
            f"{where} has shape {array.shape}. Expected pairs of nodes, shape (m, 2), or an edge_index, shape (2, m). "
            "Pass an adjacency matrix as scipy.sparse.csr_array(matrix)."
        )
    return _named(_number_columns(array[:, 0], array[:, 1], where), directed)


def _of_pairs(pairs: list[Any], where: str, directed: bool) -> Graph:
    if not pairs:
        return Graph.of(torch.empty(0, 2, dtype=torch.int64))
    if set(map(type, pairs)) == {tuple} and set(map(len, pairs)) == {3}:  # as networkx has weights
        refuse_triples(pairs, where)
        _LOG.info("Took the first two of three items as the ends of an edge; the third is ignored.")
        pairs = [pair[:2] for pair in pairs]
    if not set(map(type, pairs)) <= {tuple, list} or set(map(len, pairs)) != {2}:
        bad = next(pair for pair in pairs if not isinstance(pair, tuple | list) or len(pair) != 2)
        raise ValueError(f"{where} has the item {str(bad)[:40]!r}. Expected pairs of nodes.")
    first, second = zip(*pairs, strict=True)
    return _named(_number_columns(first, second, where), directed)


def _number_columns(first: Any, second: Any, where: str) -> Numbered:
    """Two columns of ids; of any objects if pyarrow has no type for them."""
    import pyarrow as pa

    try:
        columns = [pa.array(ids, from_pandas=True) for ids in (first, second)]
    except (pa.ArrowException, OverflowError):  # columns of several types, numbers beyond 2⁶⁴
        columns = []
    if columns and not any(pa.types.is_nested(column.type) or pa.types.is_temporal(column.type) for column in columns):
        return number_ids(columns[0], columns[1], where)
    number, names = number_hashables(chain(first, second))
    ends = np.fromiter(map(number.__getitem__, chain(first, second)), np.int64)
    return Numbered(ends.reshape(2, -1).T, len(number), names)
