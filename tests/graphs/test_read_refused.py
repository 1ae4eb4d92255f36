"""read_graph: input that holds no graph is refused with a message that helps."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import torch

from horoball.graphs import read_graph
from horoball.plugins import required
from tests.late import late

nx = late("networkx")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "", r"a\.txt is empty: it has no edges"),
        ("a.txt", "# nothing\n\n", "is empty"),
        ("a.csv", "source,target\n", "no edges below its header line: source, target"),
        ("a.txt", "3 3\n", r"no edges between different nodes \(1 node\)"),
        ("a.txt", "# c\n0 1\n\n2\n3 4\n", "line 4: expected two node ids, got 1 column: '2'"),
        ("a.csv", "0,1\n1,2\n2\n", "line 3: expected two node ids, got 1 column: '2'"),
        ("a.csv", "0;1\n1;2\n", "line 1: expected two node ids, got 1 column: '0;1'"),
        ("a.csv", "s,t\n0,1\n1,\n", "line 3: a node id is missing: '1,'"),
        ("a.csv", "0,1\nNA,2\n", "line 2: a node id is missing: 'NA,2'"),
        ("a.csv", "s,t\nann,bob\n,bob\n", "line 3: a node id is missing"),
        ("a.txt", "0 1\n1.5 2\n", "has the id 1.5 in edge 1. Expected whole numbers"),
        ("a.txt", "0.25 0.5\n", "has the id 0.25 in edge 0"),
        ("a.csv", '{"edges": "' + 140_000 * "x" + '"}', "line 1: expected two node ids, got 1 column"),
        ("a.npz", "text", "not a readable .npy or .npz file: it does not begin as one"),
        ("a.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 x\n", "not a readable Matrix Market file"),
        (
            "a.mtx",
            "%%MatrixMarket matrix coordinate real general\n3 3 99999999999999999999\n1 1 1\n",
            "Matrix Market file",
        ),
        (
            "a.mtx",
            "%%MatrixMarket matrix array real general\n99999999 99999999\n1\n",
            "entries, which a file of 61 bytes does not hold",
        ),
        ("a.mtx", "%%MatrixMarket " + 5000 * "x", "not a readable Matrix Market file"),
        ("a.csv", "a," + 5000 * "x" + "\n", "no edges below its header line: a, xxx"),
        ("a.parquet", "text", "not a readable .parquet"),
    ],
)
def test_bad_files_are_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_graph(tmp_path / name)


@pytest.mark.parametrize("end", ["", " ", "\r", "x", "\n"])
def test_a_matrix_whose_last_line_has_no_end_is_read(tmp_path, end):
    """scipy's reader ends the process at such files."""
    (tmp_path / "a.mtx").write_text(f"%%MatrixMarket matrix coordinate pattern symmetric\n4 4 3\n2 1\n3 2\n4 1{end}")
    assert read_graph(tmp_path / "a.mtx").edges.tolist() == [[0, 1], [0, 3], [1, 2]]


def test_a_matrix_with_a_zero_byte_is_refused(tmp_path):
    (tmp_path / "a.mtx").write_bytes(b"%%MatrixMarket matrix coordinate pattern symmetric\n4 4 1\n2 1\0\0?")
    with pytest.raises(ValueError, match=r"a\.mtx is not text in UTF-8: it holds a zero byte"):
        read_graph(tmp_path / "a.mtx")


def test_a_saved_matrix_that_points_outside_itself_is_refused(tmp_path):
    broken = scipy.sparse.csr_matrix((np.ones(1), [7], [0, 1, 1, 1]), shape=(3, 3))
    scipy.sparse.save_npz(tmp_path / "a.npz", broken)
    with pytest.raises(ValueError, match=r"a\.npz is not a readable .*: indices must be < 3"):
        read_graph(tmp_path / "a.npz")


def test_columns_of_one_name_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array([0, 1]), pa.array([1, 2])], names=["b", "b"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet has columns of the same name, 'b'"):
        read_graph(tmp_path / "a.parquet")


@pytest.mark.parametrize("place", [20, 120, -60])
def test_a_parquet_file_of_changed_bytes_is_refused_by_name(tmp_path, place):
    pq.write_table(pa.table({"a": range(50), "b": range(1, 51)}), tmp_path / "a.parquet")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[place : place + 30] = b"\xff" * 30
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.parquet is not a readable (\.parquet|Parquet) file: \S+"):
        read_graph(tmp_path / "a.parquet")


def test_a_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("a,b\nzoë,ann\n".encode("latin1"))
    with pytest.raises(ValueError, match=r"not a list of edges.*UTF8"):
        read_graph(tmp_path / "a.csv")
    np.savez(tmp_path / "b.npz", first=np.eye(2), second=np.eye(2))
    with pytest.raises(ValueError, match="holds the arrays first, second"):
        read_graph(tmp_path / "b.npz")


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a"])
@pytest.mark.parametrize("data", [bytes(range(256)), "a,b\nb,c\n".encode("utf-16")], ids=["binary", "UTF-16"])
def test_what_is_not_text_is_refused_by_name(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=r"/a(\.csv|\.txt)? is not text in UTF-8: it holds a zero byte. Expected"):
        read_graph(tmp_path / name)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_what_is_not_compressed_is_refused_by_name(tmp_path, ending):
    (tmp_path / f"a.csv.{ending}").write_bytes(b"0,1\n1,2\n")
    with pytest.raises(ValueError, match=rf"a\.csv\.{ending} is not a readable \.{ending} file"):
        read_graph(tmp_path / f"a.csv.{ending}")


def test_a_compressed_file_that_is_cut_short_is_refused_by_name(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"0 1\n1 2\n")[:-6])
    with pytest.raises(ValueError, match=r"a\.txt\.gz is not a readable \.gz file: .* end"):
        read_graph(tmp_path / "a.txt.gz")


def test_a_file_that_does_not_exist_is_refused(tmp_path):
    for name in ("missing.csv", "missing.csv.gz"):
        with pytest.raises(FileNotFoundError, match="There is no file"):
            read_graph(tmp_path / name)
    with pytest.raises(IsADirectoryError, match="is a folder, expected a file of edges"):
        read_graph(tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (nx.empty_graph(1), r"no edges between different nodes \(1 node\)"),
        (nx.empty_graph(5), r"\(5 nodes\)"),
        ([], r"The list has no edges between different nodes \(0 nodes\)"),
        (scipy.sparse.csr_array((3, 4)), r"shape \(3, 4\). Expected a square matrix"),
        (np.zeros((5, 3), int), r"shape \(5, 3\). Expected pairs of nodes; weights are not used"),
        (np.zeros((5, 4), int), r"shape \(5, 4\). Expected pairs .* scipy.sparse.csr_array"),
        (np.array([[0, 1.5], [1, 2]]), "has the id 1.5 in edge 0"),
        (np.array([[0, np.nan], [1, 2]]), "lacks a node id in edge 0"),
        (np.zeros((3, 2), bool), "holds bool, not node ids"),
        ([("a", "b"), ("c",)], "has the item .*Expected pairs"),
        (["ab", "cd"], "has the item 'ab'. Expected pairs"),
        ([("a", None)], "lacks a node id in edge 0"),
        ([("a", None), (1, "b")], "node id is missing|lacks a node id"),
        (pd.DataFrame({"a": [1.0, None], "b": [2, 3]}), "lacks a node id in edge 1"),
        (pd.DataFrame({"a": [1]}), "has 1 column, expected two"),
        (nx.Graph([(1, "1")]), "Two nodes have the same name, 1 and '1'"),
    ],
)
def test_bad_objects_are_refused(source, message):
    with pytest.raises(ValueError, match=message):
        read_graph(source)


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="Cannot read a graph from int"):
        read_graph(3)
    with pytest.raises(ValueError, match="has 2 nodes, but its edge_index goes from 0 to 3"):
        read_graph(required("torch_geometric.data").Data(edge_index=torch.tensor([[0, 1], [1, 3]]), num_nodes=2))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.eye(4), r"each of the 3 nodes, got features of shape \(4, 4\)"),
        (np.ones(3), r"got features of shape \(3,\)"),
        (np.array([["x"], ["y"], ["z"]]), "not numbers"),
        (np.array([[1.0], [np.nan], [2.0]]), "missing or infinite value in row 1, column 0"),
        (pd.DataFrame(np.eye(4)), "each of the 3 nodes, got a frame of 4"),
        (pd.DataFrame(np.eye(3)), "no row for the node 'a'. Give the frame the nodes as its index"),
        (pd.DataFrame(np.eye(3), index=["a", "b", "b"]), "no row for the node 'c'"),
    ],
)
def test_features_that_do_not_fit_are_refused(features, message):
    with pytest.raises(ValueError, match=message):
        read_graph([("c", "b"), ("b", "a")], features)


def test_an_adjacency_matrix_is_not_taken_for_edges(tmp_path):
    frame = nx.to_pandas_adjacency(nx.karate_club_graph())
    for name, options in (("a.csv", {}), ("b.csv", {"index": False}), ("c.csv", {"index": False, "header": False})):
        frame.to_csv(tmp_path / name, **options)
        with pytest.raises(ValueError, match=r"columns and as many lines, as an adjacency matrix has. Save it"):
            read_graph(tmp_path / name)
    with pytest.raises(ValueError, match=r"as many rows as columns, as an adjacency matrix has. Give it the nodes as"):
        read_graph(frame.set_axis([f"m{i}" for i in range(34)], axis=1))
