"""What used to be answered wrongly without a word: curvature, features, directions, edges that find no room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from horoball import PoincareGraphVAE
from horoball.graphs import read_graph
from horoball.graphs.fit import training_for
from tests.late import late

networkx = late("networkx")

KINDS = [("cat", "animal"), ("dog", "animal"), ("lion", "cat"), ("tiger", "cat"), ("wolf", "dog")]


def tree(branching: int, height: int) -> list[tuple[str, str]]:
    """Pairs (child, parent) of a balanced tree."""
    nodes = sum(branching**level for level in range(height + 1))
    return [(f"n{i}", f"n{(i - 1) // branching}") for i in range(1, nodes)]


def recall(model: PoincareGraphVAE) -> float:
    """Share of the ancestors in the closure that `ancestors` finds."""
    truth = model.graph_.relation()
    found = [model.graph_.numbers([name for name, _ in model.ancestors(node)] or [node]) for node in model.nodes_]
    hits = sum(truth[i, list(set(map(int, numbers)) - {i})].sum() for i, numbers in enumerate(found))
    return float(hits / truth.nnz)


@pytest.fixture(scope="module")
def kinds() -> PoincareGraphVAE:
    return PoincareGraphVAE(5, directed=True, random_state=0).fit(KINDS)


def test_a_taxonomy_chooses_the_curvature_that_answers() -> None:
    model = PoincareGraphVAE(5, directed=True, c="auto", random_state=0).fit(tree(3, 3))
    assert model.c_ == 1.0
    assert recall(model) == 1.0  # 0.85 with c = 0, which was taken


def test_a_taxonomy_with_features_has_the_weight_of_a_taxonomy() -> None:
    assert training_for("gcn", directed=True, transitive=True).beta == 0.001
    assert training_for("gcn", directed=True).beta == 0.1
    assert training_for("gcn").beta == 1.0
    model = PoincareGraphVAE(5, directed=True, random_state=0).fit(tree(2, 3), features=np.eye(15))
    assert recall(model) > 0.95  # 0.38 of 40 nodes with 1


@pytest.mark.parametrize("whole", [True, False])
def test_a_matrix_with_missing_values_is_refused(whole: bool) -> None:
    listed = pd.DataFrame({"u": list("abcd"), "v": list("bcde"), "w": 1.0})
    names = list("abcde")
    frame = listed.pivot(index="u", columns="v", values="w").reindex(index=names, columns=names)
    matrix: Any = frame if whole else scipy.sparse.csr_array(frame.to_numpy())
    with pytest.raises(ValueError, match=r"has 21 missing values \(NaN\)"):
        read_graph(matrix)
    assert len(read_graph(frame.fillna(0)).edges) == 4


def test_columns_say_who_is_the_child(tmp_path: Path) -> None:
    path = tmp_path / "kinds.csv"
    path.write_text("parent,child\n" + "".join(f"{parent},{child}\n" for child, parent in KINDS))
    frame = pd.DataFrame([(b, a) for a, b in KINDS], columns=["Ancestor", "Descendant"])
    wanted = read_graph(KINDS, directed=True)
    for source in (path, frame):
        found = read_graph(source, directed=True)
        assert found.names is not None
        assert wanted.names is not None
        assert found.names.tolist() == wanted.names.tolist()
        assert np.array_equal(found.edges, wanted.edges)


def test_an_undirected_networkx_graph_has_no_child() -> None:
    with pytest.raises(ValueError, match="The networkx graph has no directions"):
        read_graph(networkx.balanced_tree(2, 2), directed=True)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("big lion,big cat\nbig cat,animal\n", None),
        ('"big lion" cat\ncat animal\n', None),
        ('"big lion",cat\ncat,animal\n', ["animal", "big lion", "cat"]),
        ("a b {'w': 1, 'x': 2}\nb c {'w': 1, 'x': 2}\n", ["a", "b", "c"]),
        ("a b 2,5\nb c 1,0\n", ["a", "b", "c"]),
    ],
)
def test_names_with_blanks_are_not_cut_up(text: str, nodes: list[str] | None, tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text(text)
    if nodes is None:
        with pytest.raises(ValueError, match="may have blanks between its ids or in them"):
            read_graph(path)
    else:
        names = read_graph(path).names
        assert names is not None
        assert names.tolist() == nodes


def test_a_model_that_is_read_back_adds_the_same_nodes(kinds: PoincareGraphVAE, tmp_path: Path) -> None:
    kinds.save(tmp_path)
    first, second = (PoincareGraphVAE.load(tmp_path).add_nodes([("puma", "cat")]).embedding_ for _ in range(2))
    assert np.array_equal(first, second)
    assert PoincareGraphVAE.load(tmp_path).random_state == 0


def test_no_node_is_below_itself(kinds: PoincareGraphVAE) -> None:
    assert [kinds.is_a(node, node) for node in kinds.nodes_] == [0.0] * 6
    assert kinds.predict_proba([("lion", "lion"), ("lion", "cat")])[0] == 0.0


def test_edges_that_find_no_room_are_named(tmp_path: Path, kinds: PoincareGraphVAE) -> None:
    kinds.save(tmp_path)
    with pytest.warns(UserWarning, match=r"1 of 2 edges of the new nodes are not held: x below cat \(0\.\d\d\)"):
        PoincareGraphVAE.load(tmp_path).add_nodes([("x", "cat"), ("x", "dog")])
    with pytest.warns(UserWarning, match="animal below thing .*nor above a root"):
        PoincareGraphVAE.load(tmp_path).add_nodes([("animal", "thing")])
    with pytest.raises(ValueError, match="would put 'dog' below 'cat'"):
        PoincareGraphVAE.load(tmp_path).add_nodes([("dog", "odd"), ("odd", "cat")])


@pytest.mark.parametrize("end", [None, float("nan"), "", " "])
def test_a_missing_name_is_no_node(kinds: PoincareGraphVAE, end: Any) -> None:
    with pytest.raises(ValueError, match="A node id is missing"):
        kinds.add_nodes([(end, "cat")])


def test_numbers_of_steps_and_parents_are_checked(kinds: PoincareGraphVAE) -> None:
    for steps in (-1, 1.5, True):
        with pytest.raises(ValueError, match="steps is a whole number from 1 on"):
            kinds.add_nodes([("puma", "cat")], steps=steps)  # type: ignore[arg-type]
    for k in (0, -1, 2.5):
        with pytest.raises(ValueError, match="k is how many parents"):
            kinds.parents("lion", k=k)  # type: ignore[arg-type]
