"""A tree is cut, collapsed, and read by scipy, networkx and programs of phylogenetics."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.cluster.hierarchy import cophenet, fcluster, is_valid_linkage, linkage
from scipy.spatial.distance import pdist

from horoball.trees import Tree, tree, tree_from_json, tree_to_json
from tests.late import late

dendropy = late("dendropy")
nx = late("networkx")


@pytest.fixture(scope="module")
def some() -> Tree:
    rng = np.random.default_rng(0)
    centers = np.repeat(6 * rng.standard_normal((4, 12)), 3, 0) + 2 * rng.standard_normal((12, 12))
    x = np.repeat(centers, 5, 0) + 0.5 * rng.standard_normal((60, 12))
    return tree(x, draws=20, names=[f"row {i}'s (a_b)" for i in range(60)])


def test_every_clade_is_a_range_of_the_order(some: Tree) -> None:
    order, first, last = some.spans
    assert sorted(order.tolist()) == list(range(60))
    for node in range(some.leaves, some.nodes):
        below = np.concatenate([some.members(child) for child in some.children[node]])
        assert set(below) == set(order[first[node] : last[node]])
    assert some.rows[-1] == 60


def test_scipy_reads_the_linkage(some: Tree) -> None:
    made = some.to_linkage()
    assert is_valid_linkage(made)
    assert made[-1, 3] == 60
    x = np.random.default_rng(1).standard_normal((50, 3))
    expected = linkage(pdist(x), "average")
    ours = Tree.from_merges(expected[:, :2], expected[:, 2])
    np.testing.assert_allclose(cophenet(ours.to_linkage()), cophenet(expected))


@pytest.mark.parametrize("groups", [1, 4, 12])
def test_a_cut_is_that_of_scipy_where_groups_are_clear(some: Tree, groups: int) -> None:
    expected = fcluster(some.to_linkage(), groups, "maxclust")
    found = some.cut(groups)
    np.testing.assert_array_equal(found, some.levels([groups])[:, 0])
    assert len(np.unique(found)) == groups
    assert len({*zip(found.tolist(), expected.tolist(), strict=True)}) == groups
    assert found[0] == 0  # groups are numbered as they come


def test_levels_are_nested_and_never_more_than_there_is_support_for(some: Tree) -> None:
    coarse, fine = some.levels([50, 4]).T
    held = fine >= 0
    assert len(np.unique(coarse[coarse >= 0])) == 4
    nodes = {int(number) for number in np.unique(fine[held])}
    assert 12 <= len(nodes) <= int(some.supported[some.leaves :].sum())
    assert len({*zip(fine[held].tolist(), coarse[held].tolist(), strict=True)}) == len(nodes)


def test_a_cut_of_no_groups_is_refused(some: Tree) -> None:
    with pytest.raises(ValueError, match="between 1 and 60 groups, got 0"):
        some.cut(0)


def test_collapsing_keeps_what_is_supported(some: Tree) -> None:
    kept = some.collapse(0.6)
    assert some.support is not None
    assert kept.support is not None
    strong = ((some.support >= 0.6) & some.supported)[some.leaves : -1].sum()
    assert kept.nodes == some.leaves + strong + 1
    assert np.nanmin(kept.support) >= 0.6
    clades = {frozenset(some.members(node).tolist()) for node in range(some.leaves, some.nodes)}
    assert all(frozenset(kept.members(node).tolist()) in clades for node in range(kept.leaves, kept.nodes))
    assert is_valid_linkage(kept.to_linkage())
    assert len(np.unique(kept.cut(4))) == 4


def test_a_tree_without_support_cannot_be_collapsed() -> None:
    with pytest.raises(ValueError, match="draws=100"):
        Tree.from_merges([[0, 1]], [1.0]).collapse()


def test_dendropy_reads_the_newick_text(some: Tree) -> None:
    kept = some.collapse(0.5)
    read = dendropy.Tree.get(data=kept.to_newick(digits=17), schema="newick", preserve_underscores=True)
    assert sorted(node.taxon.label for node in read.leaf_node_iter()) == sorted(kept.names)
    number = {name: i for i, name in enumerate(kept.names)}
    ours = {frozenset(kept.members(node).tolist()): node for node in range(kept.leaves, kept.nodes)}
    assert kept.support is not None
    seen = 0
    for node in read.preorder_internal_node_iter():
        clade = frozenset(number[leaf.taxon.label] for leaf in node.leaf_iter())
        at = ours[clade]
        seen += 1
        if node.parent_node is not None:
            assert float(node.label) / 100 == pytest.approx(kept.support[at])
            assert node.edge_length == pytest.approx(kept.depth[at] - kept.depth[kept.parent[at]])
    assert seen == len(ours)


def test_networkx_has_a_tree_from_the_root_down(some: Tree) -> None:
    graph = some.to_networkx()
    assert nx.is_arborescence(graph)
    root = some.nodes - 1
    assert graph.nodes[root]["rows"] == 60
    far = nx.single_source_dijkstra_path_length(graph, root, weight="length")
    assert far[0] == pytest.approx(some.depth[0] - some.depth[root])


def test_json_gives_the_tree_back_bit_for_bit(some: Tree) -> None:
    again = tree_from_json(tree_to_json(some))
    for field in dataclasses.fields(Tree):
        one, two = getattr(some, field.name), getattr(again, field.name)
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, two)
        else:
            assert one == two


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"version": 2', '"version": 3', "version 3"),
        ('"horoball tree"', '"other"', "format"),
        ('"parent": [2, 2, -1]', '"parent": [2, 1, -1]', "later node"),
        ('"parent": [2, 2, -1]', '"parent": [2, 2, 0]', "later node"),
        ('"parent": [2, 2, -1]', '"parent": [1, 2, -1]', "two children"),
        ('"parent": [2, 2, -1]', '"parent": 5', "whole numbers"),
        ('"parent": [2, 2, -1]', '"parent": [9, 9, -1]', "two children"),
        ('"depth": [1.0', '"depth": [1e999', "finite"),
        ('"depth": [1.0', '"depth": ["x"', "numbers"),
        ('"size": [1, 1]', '"size": [1]', "2 numbers"),
        ('"size": [1, 1]', '"size": [-1, 1]', "negative"),
        ('"support": null', '"support": [null, null, 7.0]', "from 0 to 1"),
        ('"leaf": null', '"leaf": [5]', "name a leaf"),
        ('"method": "average"', '"method": "evil"', "method"),
        ('"evidence": []', '"evidence": [{"a": 1}]', "evidence"),
        ('"names": ["0", "1"]', '"names": [0, 1]', "names"),
        ("{", "[", "JSON"),
    ],
)
def test_damaged_json_is_refused_by_name(old: str, new: str, message: str) -> None:
    text = tree_to_json(Tree.from_merges([[0, 1]], [1.0]))
    assert old in text
    with pytest.raises(ValueError, match=message):
        tree_from_json(text.replace(old, new, 1))
