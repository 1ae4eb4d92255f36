"""read_graph: the same graph from every source, names and features kept; what is refused is in another file."""

import gzip
import logging
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
import torch

from horoball.datasets import preferential_attachment
from horoball.graphs import Graph, read_graph
from horoball.plugins import required
from tests.late import late

nx = late("networkx")
pl = late("polars")

EDGES = [[0, 1], [0, 2], [1, 3], [2, 3]]
TEXT = "0 1\n2 0\n1 3\n2 3\n"


def data(**fields):
    """A Data of PyTorch Geometric."""
    return required("torch_geometric.data").Data(**fields)


@pytest.fixture
def write(tmp_path):
    def written(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return written


@pytest.fixture
def log(caplog):
    with caplog.at_level(logging.INFO, "horoball"):
        yield caplog


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.edges", TEXT),
        ("a.txt", TEXT.replace(" ", "\t")),
        ("a", TEXT.strip()),
        ("windows.txt", TEXT.replace("\n", "\r\n")),
        ("old_mac.csv", "a,b\r" + TEXT.replace(" ", ",").replace("\n", "\r")),
        ("mixed.txt", "0\t1\n 2   0 \n\n1 \t 3\n2 3"),
        ("commas.edges", TEXT.replace(" ", ", ")),
        ("comments.txt", "# Nodes: 4\n% sym\n\n  # 7 7\n" + TEXT),
        ("indented.txt", "  # 7 7\n" + TEXT),
        ("zeros.edges", "0 1 007\n2 0 0x1\n1 3 0.05\n2 3 1e-05\n"),
        ("weights.edges", "0 1 0.5\n2 0 1\n1 3 2\n2 3 7e-3\n"),
        ("networkx.edgelist", "0 1 {}\n2 0 {'weight': 3}\n1 3 {'weight': 3, 'a': 1}\n2 3 {}\n"),
        ("header.txt", "from to\n" + TEXT),
        ("floats.txt", TEXT.replace("2", "2.0")),
        ("a.csv", TEXT.replace(" ", ",")),
        ("header.csv", "a,b\n" + TEXT.replace(" ", ",")),
        ("hash.csv", "#a,b\n" + TEXT.replace(" ", ",")),
        ("bom.csv", "\ufeffa,b\n" + TEXT.replace(" ", ",")),
        ("columns.csv", "w,Target,id,Source\n.5,0,7,1\n1,0,8,2\n1,1,9,3\n1,3,10,2\n"),
        ("a.tsv", "source\ttarget\n" + TEXT.replace(" ", "\t")),
    ],
)
def test_text_files_give_the_same_graph(write, name, text):
    graph = read_graph(write(name, text))
    assert graph.edges.tolist() == EDGES
    assert graph.nodes == 4
    assert graph.names is None


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
@pytest.mark.parametrize("mark", "#%")
def test_nodes_may_begin_with_a_mark(write, name, mark, caplog):
    edges = [(f"{mark}tag{i}", f"user{i % 5}") for i in range(30)] + [("user0", f"{mark}end")]
    between = {"a.csv": ",", "a.tsv": "\t", "a.txt": " "}[name]
    header = f"source{between}target\n" if name != "a.txt" else "user1 user2\n"
    text = header + "".join(between.join(edge) + "\n" for edge in edges)
    assert len(read_graph(write(name, text)).edges) == len(edges) + (name == "a.txt")
    whole = text if name == "a.txt" else text.removeprefix(header)
    assert len(read_graph(write(name, whole), comment="none").edges) == len(edges) + (name == "a.txt")


def test_lines_before_the_edges_that_look_like_edges_are_told(write, caplog):
    assert len(read_graph(write("a.csv", "#a,b\n#b,c\nd,e\ne,f\nd,f\n")).edges) == 3
    assert "2 lines before the edges" in caplog.text
    assert "--comment none" in caplog.text
    with pytest.raises(ValueError, match=r"has no edges.*--comment none"):
        read_graph(write("b.csv", "#a,#b\n#b,#c\n"))
    caplog.clear()
    read_graph(write("c.txt", "# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n"))
    assert not caplog.text


@pytest.mark.parametrize("line", ["# 9 9", "  # 7 7", "  # a note", "#9 9", "% end", "#"])
def test_what_may_be_a_comment_among_edges_is_refused_until_it_is_told(write, line):
    path = write("a.txt", TEXT.replace("1 3", f"{line}\n1 3"))
    with pytest.raises(ValueError, match=rf"line \d: {line.strip()!r} may be an edge or a comment.*--comment"):
        read_graph(path)
    assert read_graph(path, comment=line.strip()[0]).edges.tolist() == EDGES


def test_other_files_give_the_same_graph(tmp_path):
    frame = pd.DataFrame(np.array(EDGES)[::-1], columns=["a", "b"])
    frame.to_parquet(tmp_path / "a.parquet")
    frame.assign(source=frame.b, target=frame.a, a=9).to_parquet(tmp_path / "b.parquet")
    adjacency = scipy.sparse.csr_array(nx.to_numpy_array(nx.Graph(EDGES), nodelist=range(4)))
    scipy.sparse.save_npz(tmp_path / "a.npz", adjacency)
    np.save(tmp_path / "a.npy", np.array(EDGES, np.uint8))
    scipy.io.mmwrite(tmp_path / "a.mtx", adjacency)
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write(TEXT)
    for name in ("a.parquet", "b.parquet", "a.npz", "a.npy", "a.mtx", "a.txt.gz"):
        graph = read_graph(tmp_path / name)
        assert (graph.edges.tolist(), graph.nodes, graph.names) == (EDGES, 4, None), name
    assert read_graph(f"file://{tmp_path}/a.txt.gz").edges.tolist() == EDGES


@pytest.mark.parametrize(
    "source",
    [
        np.array(EDGES),
        np.array(EDGES, np.float32),
        torch.tensor(EDGES),
        torch.tensor(EDGES, dtype=torch.int32).T,
        [tuple(edge) for edge in EDGES],
        {tuple(edge) for edge in EDGES},
        pd.DataFrame(EDGES),
        pd.DataFrame(EDGES, columns=["target", "source"]).assign(weight=1.5),
        pd.DataFrame(EDGES, dtype="Int64"),
        pl.DataFrame(EDGES, orient="row"),
        nx.Graph(EDGES),
        nx.MultiDiGraph(EDGES),
        scipy.sparse.coo_array((np.ones(4), np.array(EDGES).T), shape=(4, 4)),
        Graph.of(EDGES),
    ],
    ids=lambda source: type(source).__name__,
)
def test_objects_give_the_same_graph(source):
    graph = read_graph(source)
    assert (graph.edges.tolist(), graph.nodes, graph.names) == (EDGES, 4, None)


def test_a_data_of_pytorch_geometric_brings_its_features():
    index = torch.tensor(EDGES).T
    x = torch.arange(10, dtype=torch.float64).reshape(5, 2)
    graph = read_graph(data(edge_index=torch.cat([index, index.flip(0)], 1), x=x))
    assert graph.edges.tolist() == EDGES
    assert graph.nodes == 5
    assert torch.equal(graph.features, x.float())
    assert torch.equal(read_graph(data(edge_index=index, x=x), features=2 * x).features, 2 * x.float())
    assert read_graph(data(edge_index=index)).nodes == 4


@pytest.mark.parametrize(
    ("source", "names", "edges"),
    [
        ([("b", "a"), ("c", "b")], ["a", "b", "c"], [[0, 1], [1, 2]]),
        ([(10, 9), (9, 100)], ["9", "10", "100"], [[0, 1], [0, 2]]),
        (np.array([[1, 2], [2, 3]]), ["1", "2", "3"], [[0, 1], [1, 2]]),
        (np.array([["b", "a"], ["c", "b"]]), ["a", "b", "c"], [[0, 1], [1, 2]]),
        ([("a", 1), ("b", 1)], ["1", "a", "b"], [[0, 1], [0, 2]]),
        ([("a", 1), (2, "b")], ["1", "2", "a", "b"], [[0, 2], [1, 3]]),
        ([((0, 0), (0, 1)), ((0, 1), (1, 1))], ["(0, 0)", "(0, 1)", "(1, 1)"], [[0, 1], [1, 2]]),
        (nx.path_graph(["z", "y", "x"]), ["x", "y", "z"], [[0, 1], [1, 2]]),
        (pd.DataFrame({"a": pd.Categorical(["u", "v"]), "b": ["v", "w"]}), ["u", "v", "w"], [[0, 1], [1, 2]]),
        (pl.DataFrame({"a": ["u", "v"], "b": ["v", "w"]}), ["u", "v", "w"], [[0, 1], [1, 2]]),
        ([(2**63 + 1, 2**63), (2**63, 7)], ["7", str(2**63), str(2**63 + 1)], [[0, 1], [1, 2]]),
    ],
)
def test_ids_that_do_not_count_from_0_become_names(source, names, edges):
    graph = read_graph(source)
    assert graph.names.dtype.kind == "U"
    assert graph.names.tolist() == names
    assert graph.edges.tolist() == edges


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("a.txt", "ann bob\nbob carl\n", ["ann", "bob", "carl"]),
        ("one.txt", "ann bob\n", ["ann", "bob"]),
        ("tab.txt", "New York\tBoston\nBoston\tSalt Lake City\n", ["Boston", "New York", "Salt Lake City"]),
        ("a.csv", 'x,y\n"Smith, J.", bob\nbob,zoë\n', ["Smith, J.", "bob", "zoë"]),
        ("named.txt", "source target\nann bob\n", ["ann", "bob"]),
        ("country.csv", "source,target\nNA,ZA\nNA,null\n", ["NA", "ZA", "null"]),
        ("huge.txt", f"{2**31} {2**40}\n{2**40} {2**62}\n", [str(2**31), str(2**40), str(2**62)]),
        ("negative.txt", "-1 0\n0 5\n", ["-1", "0", "5"]),
        ("digits.txt", f"{10**25} {10**24}\n", [str(10**24), str(10**25)]),
        ("mixed.txt", "1 a\n2 a\n", ["1", "2", "a"]),
    ],
)
def test_names_in_files_are_kept(write, name, text, names):
    assert read_graph(write(name, text)).names.tolist() == names


def test_what_is_left_out_is_said_in_the_log(write, log):
    read_graph(write("w.txt", "0 1 0.5\n1 0 0.5\n1 1 3\n"))
    read_graph(nx.DiGraph([(0, 1)]))
    read_graph(scipy.sparse.csr_array(np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])))
    read_graph(write("a.csv", "who,whom\nbob,carl\n"))
    first, *rest = log.messages
    assert "the others, such as weights, are ignored" in first
    assert rest[0] == "Dropped 1 self-loop and 1 duplicate edge."
    assert "directed graph was taken as undirected" in rest[1]
    assert "not symmetric" in rest[2]
    assert "as its header: who, whom" in rest[3]


def test_a_first_line_whose_names_come_again_is_an_edge(write):
    for name, text in (("a.csv", "ann,bob\nbob,carl\n"), ("a.tsv", "New York\tBoston\nBoston\tLos Angeles\n")):
        graph = read_graph(write(name, text))
        assert (graph.nodes, len(graph.edges)) == (3, 2)


@pytest.mark.parametrize("ends", [("source", "target"), ("From", "To"), ("src", "dst"), ("u", "v")])
def test_columns_with_the_names_of_ends_are_taken_wherever_they_are(write, ends):
    frame = pd.DataFrame({"id": [7, 8], ends[0]: ["a", "b"], ends[1]: ["b", "c"]})
    for source in (frame, write("edges.csv", frame.to_csv(index=False))):
        assert read_graph(source).names.tolist() == ["a", "b", "c"]


def test_an_adjacency_matrix_in_a_frame_keeps_its_names():
    graph = nx.relabel_nodes(nx.karate_club_graph(), {i: f"m{i}" for i in range(34)})
    frame = nx.to_pandas_adjacency(graph)
    expected, read = read_graph(graph), read_graph(frame)
    assert read.names.tolist() == expected.names.tolist()
    assert torch.equal(read.edges, expected.edges)
    alone = read_graph(nx.to_pandas_adjacency(nx.Graph([(0, 1), (1, 2)])))
    assert (alone.names, alone.edges.tolist()) == (None, [[0, 1], [1, 2]])


def test_weights_of_networkx_are_left_out():
    graph = nx.karate_club_graph()
    assert torch.equal(read_graph(list(graph.edges(data="weight"))).edges, read_graph(graph).edges)


def test_both_directions_of_a_matrix_are_no_duplicates(log):
    graph = read_graph(Graph.of(EDGES).adjacency())
    assert graph.edges.tolist() == EDGES
    assert log.messages == []


def test_isolated_nodes_survive_where_the_source_knows_them():
    other = nx.Graph([("b", "c")])
    other.add_node("a")
    assert read_graph(other).names.tolist() == ["a", "b", "c"]
    assert read_graph(scipy.sparse.csr_array(([1], ([0], [2])), shape=(9, 9))).nodes == 9
    assert read_graph(data(edge_index=torch.tensor([[0], [1]]), num_nodes=7)).nodes == 7


def test_disconnected_graphs_are_fine(write):
    assert read_graph(write("a.txt", "0 1\n2 3\n")).nodes == 4


@pytest.mark.parametrize(
    "features",
    [
        np.diag([1, 2, 3]),
        torch.diag(torch.tensor([1.0, 2.0, 3.0])),
        scipy.sparse.diags_array([1.0, 2.0, 3.0]),
        pl.DataFrame(np.diag([1, 2, 3])),
        pd.DataFrame(np.diag([1, 2, 3]), index=["a", "b", "c"]).loc[["c", "a", "b"]],
    ],
    ids=lambda features: type(features).__name__,
)
def test_features_are_put_in_the_order_of_the_nodes(features):
    graph = read_graph([("c", "b"), ("b", "a")], features)
    assert graph.features.dtype == torch.float32
    assert torch.equal(graph.features, torch.diag(torch.tensor([1.0, 2.0, 3.0])))


def test_a_frame_of_features_is_put_in_order_by_numbers_too():
    frame = pd.DataFrame({"x": [30.0, 10.0, 20.0]}, index=[2, 0, 1])
    assert read_graph([(0, 1), (1, 2)], frame).features.flatten().tolist() == [10, 20, 30]


@pytest.mark.slow
def test_five_million_edges_are_read_in_seconds(tmp_path):
    graph = preferential_attachment(1_000_000, 5)
    np.savetxt(tmp_path / "a.txt", graph.edges.numpy(), "%d")
    start = time.perf_counter()
    again = read_graph(tmp_path / "a.txt")
    assert time.perf_counter() - start < 30
    assert torch.equal(again.edges, graph.edges)


def test_numbers_that_are_names_stay_as_they_were(write):
    graph = read_graph(write("a.txt", "007 1\n7 2\n0x10 16\n"))
    assert (graph.names.tolist(), len(graph.edges)) == (["007", "0x10", "1", "16", "2", "7"], 3)
    assert read_graph(write("zip.csv", "source,target\n01234,00501\n")).names.tolist() == ["00501", "01234"]


def test_endings_are_told_in_any_case(tmp_path):
    (tmp_path / "A.CSV.GZ").write_bytes(gzip.compress(b"from,to\na,b\nb,c\n"))
    assert read_graph(tmp_path / "A.CSV.GZ").names.tolist() == ["a", "b", "c"]


def test_features_beyond_float32_are_refused():
    with pytest.raises(ValueError, match=r"1e\+39 in row 0, column '0', which is beyond 3.4e38"):
        read_graph([(0, 1)], np.array([[1e39], [1.0]]))


def test_directions_are_kept_if_asked_for(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("child,parent\nlion,cat\ncat,animal\n")
    pairs = [("lion", "cat"), ("cat", "animal")]
    sources = [pairs, nx.DiGraph(pairs), pd.DataFrame(pairs, columns=["source", "target"]), tmp_path / "edges.csv"]
    for source in sources:
        graph = read_graph(source, directed=True)
        assert graph.directed
        assert graph.names[graph.edges].tolist() == [["cat", "animal"], ["lion", "cat"]]
    matrix = scipy.sparse.csr_array(([1, 1], ([0, 2], [2, 1])), shape=(3, 3))
    assert read_graph(matrix, directed=True).edges.tolist() == [[0, 2], [2, 1]]
    with pytest.raises(ValueError, match="no directions"):
        read_graph(read_graph(pairs), directed=True)
    assert not read_graph(read_graph(pairs, directed=True)).directed
