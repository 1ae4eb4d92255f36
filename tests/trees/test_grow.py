"""Trees from rows: the right tree, believed where it should be, whatever the leaves and the root are."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from sklearn.metrics import adjusted_rand_score

from horoball import PoincareGraphVAE, PoincareVAE
from horoball.datasets import branching_diffusion
from horoball.hierarchy import Space
from horoball.hierarchy.delta import random_tree
from horoball.trees import Tree, branches, tree
from horoball.trees.linkage import candidates
from tests.late import late

nx = late("networkx")


@pytest.fixture(scope="module")
def noisy() -> tuple[np.ndarray, np.ndarray, list[frozenset[int]]]:
    """A branching diffusion with twice as many columns of noise, its nodes, and its clades."""
    data = branching_diffusion(depth=4, features=30)
    x = np.concatenate([data.x.numpy(), np.random.default_rng(1).standard_normal((len(data.x), 60))], axis=1)
    parent, node = data.parent.numpy(), data.node.numpy()
    inside = np.eye(len(parent), dtype=bool)
    for child in range(len(parent) - 1, 0, -1):
        inside[parent[child]] |= inside[child]
    return x, node, [frozenset(np.flatnonzero(clade).tolist()) for clade in inside[1:][:, node]]


def clades(found: Tree) -> dict[frozenset[int], float]:
    assert found.support is not None
    inner = range(found.leaves, found.nodes - 1)
    return {frozenset(found.members(node).tolist()): float(found.support[node]) for node in inner}


def _nodes(found: Tree) -> dict[frozenset[int], int]:
    return {frozenset(found.members(node).tolist()): node for node in range(found.leaves, found.nodes - 1)}


def test_the_model_finds_clades_that_noise_hides_from_linkage(
    noisy: tuple[np.ndarray, np.ndarray, list[frozenset[int]]],
) -> None:
    x, _, truth = noisy
    model = PoincareVAE(5, posterior="wrapped", max_epochs=120, random_state=0).fit(x)
    found = model.tree(x, draws=40)
    assert (found.method, found.source) == ("gromov", "columns weighted by the model")
    sure = clades(found)
    related = clades(tree(x, draws=1))
    made = linkage((x - x.mean(0)) / x.std(0), "average")
    raw = _nodes(Tree.from_merges(made[:, :2], made[:, 2]))
    recall, without, before = (sum(clade in of for clade in truth) / len(truth) for of in (sure, related, raw))
    assert min(recall, without) > 0.9
    assert recall > before + 0.3
    believed = [clade for clade, node in _nodes(found).items() if sure[clade] >= 0.9 and found.supported[node]]
    assert believed
    assert all(max(len(clade & one) / len(clade | one) for one in truth) >= 0.8 for clade in believed)
    assert found.support is not None
    again = model.tree(x, draws=40)
    np.testing.assert_array_equal(found.support, again.support)


def test_labels_are_leaves_and_a_label_is_the_root(noisy: tuple[np.ndarray, np.ndarray, list[frozenset[int]]]) -> None:
    x, node, _ = noisy
    found = tree(x[:, :30], labels=[f"node {i}" for i in node], root="node 0", draws=20)
    assert found.leaves == 31
    assert found.size.tolist() == [5] * 31
    assert found.method == "gromov"
    at = found.names.index("node 0")
    assert found.depth[at] == found.depth[: found.leaves].min()
    with pytest.raises(ValueError, match="no leaf 'nowhere'"):
        tree(x, labels=node, root="nowhere", draws=0)
    with pytest.raises(ValueError, match="one label per row"):
        tree(x, labels=node[1:], draws=0)


def test_midpoint_and_row_roots_of_a_tree_metric() -> None:
    space = random_tree(60)
    d = space.matrix()
    for root in ("midpoint", 7):
        found = tree(space, root=root)
        assert found.support is None
        graph = found.to_networkx().to_undirected()
        far = dict(nx.all_pairs_dijkstra_path_length(graph, weight="length"))
        np.testing.assert_allclose([far[3][i] for i in range(60)], d[3], atol=1e-3)


def test_clusters_are_joined_by_average_linkage() -> None:
    rng = np.random.default_rng(0)
    centers = np.repeat(4 * rng.standard_normal((4, 20)), 4, 0) + 2 * rng.standard_normal((16, 20))
    x = np.repeat(centers, 10, 0) + 0.5 * rng.standard_normal((160, 20))
    assert candidates(x, {"columns": np.ones(20)})[0].method == "average"
    found = tree(x, draws=30)
    assert found.method == "average"
    np.testing.assert_array_equal(found.cut(16), np.repeat(np.arange(16), 10))


def test_noise_alone_gets_no_support() -> None:
    x = np.random.default_rng(0).standard_normal((100, 20))
    found = tree(x, draws=50)
    assert found.support is not None
    assert np.mean((found.support >= 0.9)[found.leaves : -1] & found.supported[found.leaves : -1]) <= 0.02
    assert found.verdict is not None
    assert found.verdict.p > 0.05
    assert (found.levels([3]) == -1).all()


def test_threads_give_the_same_tree_as_one() -> None:
    x = np.random.default_rng(0).standard_normal((60, 8))
    np.testing.assert_array_equal(tree(x, draws=6, n_jobs=1).support, tree(x, draws=6, n_jobs=2).support)


def test_what_is_no_table_of_rows_is_refused() -> None:
    masked = np.ma.masked_less(np.random.default_rng(0).standard_normal((20, 4)), 0)
    with pytest.raises(ValueError, match="Masks are not read"):
        tree(masked)
    with pytest.raises(ValueError, match="Masks are not read"):
        branches(tree(masked.data, draws=0), masked)
    with pytest.raises(ValueError, match="Row 0, counted from 0, holds no value at all, and so do 4 others"):
        tree(np.full((5, 3), np.nan))
    with pytest.raises(ValueError, match="Row 4 holds an infinite number"):
        tree(np.diag([1.0, 1.0, 1.0, 1.0, np.inf]))
    with pytest.raises(ValueError, match="shape"):
        tree(np.zeros(5))
    with pytest.raises(ValueError, match="All rows are the same"):
        tree(np.ones((5, 3)))
    with pytest.raises(ValueError, match="auto, gromov, average, consensus, got 'ward'"):
        tree(np.eye(5), method="ward")
    with pytest.raises(ValueError, match="at most 20,000 rows"):
        tree(Space.of_points(np.zeros((20_001, 1))))


def test_sources_are_chosen_by_name(caplog: pytest.LogCaptureFixture) -> None:
    x = branching_diffusion(depth=3).x.numpy()
    model = PoincareVAE(max_epochs=3, hidden=(16,), random_state=0).fit(x)
    names = {"columns": "columns", "weighted": "columns weighted by the model", "latent": "latent space"}
    for source, name in names.items():
        assert model.tree(x, draws=2, source=source).source == name
    with pytest.raises(ValueError, match="auto, columns, weighted, latent"):
        model.tree(x, source="raw")
    with caplog.at_level(logging.WARNING, "horoball"):
        model.tree(x, draws=0, source="latent")
    assert "no room for twigs" in caplog.text


def test_counts_and_categories_have_trees() -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(rng.standard_normal((60, 1)) + rng.standard_normal(6)))
    assert PoincareVAE(max_epochs=2, hidden=(8,), random_state=0).fit(counts).tree(counts, draws=2).leaves == 60
    codes = rng.integers(0, 3, (60, 5))
    model = PoincareVAE(5, likelihood="categorical", max_epochs=2, hidden=(8,), random_state=0).fit(codes)
    assert model.tree(codes, draws=2).source == "latent space"
    with pytest.raises(ValueError, match='source="latent"'):
        model.tree(codes, source="columns")


def test_the_tree_of_a_graph_that_is_a_tree() -> None:
    graph = nx.balanced_tree(3, 3)
    model = PoincareGraphVAE(5, beta=0.1, max_epochs=200, random_state=0).fit(list(graph.edges))
    found = model.tree(draws=20)
    assert found.source == "latent space"
    down = nx.bfs_tree(graph, 0)
    truth = [{node} | nx.descendants(down, node) for node in range(1, 13)]
    below = clades(found)
    assert all(below.get(frozenset(clade), 0) > 0.8 for clade in truth)


def test_a_branch_is_described_by_what_sets_it_apart() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 4))
    x[:40, 2] += 8
    kind = np.repeat(["left", "right"], 40)
    found = tree(x, draws=0, method="average", standardize=False)
    described = branches(found, x, columns=["a", "b", "c", "d"], labels=kind)
    halves = [branch for branch in described if branch.rows == 40]
    assert len(halves) == 2
    for branch in halves:
        assert branch.differences[0].column == "c"
        assert abs(branch.differences[0].value) > 5
        assert next(iter(branch.labels.values())) == 1
        inside = set(np.flatnonzero(kind == next(iter(branch.labels))).tolist())
        assert set(branch.exemplars) <= inside
    assert halves[0].differences[0].value * halves[1].differences[0].value < 0


def test_intervals_of_differences_hold_in_95_of_100_cases() -> None:
    rng = np.random.default_rng(0)
    held = 0
    merges = np.array([[0, 1], [2, 3], [4, 5]])
    base = Tree.from_merges(merges, [1.0, 1.0, 2.0], leaf=np.repeat([0, 1, 2, 3], 15))
    for _ in range(300):
        x = rng.standard_normal((60, 1))
        x[30:] += 0.5
        (branch, *_) = (one for one in branches(base, x, support=0) if one.rows == 30 and one.exemplars[0] < 30)
        apart = branch.differences
        held += not apart or apart[0].low <= -0.5 <= apart[0].high
    assert held / 300 > 0.93


def test_a_group_that_is_the_root_joins_last() -> None:
    rng = np.random.default_rng(0)
    ends = {"stem": [0, 0, 0], "a": [4, 0.5, 0], "b": [4, -0.5, 0], "c": [-0.7, 0, 3.0]}
    labels = np.repeat(list(ends), 40)
    x = np.repeat(np.array(list(ends.values()), float), 40, axis=0) + rng.normal(0, [0.3], (160, 3))
    x[:40] += rng.normal(0, 1.5, (40, 3))  # a wide root
    found = tree(x, labels=labels, root="stem", standardize=False, draws=20)
    stem = found.names.index("stem")
    assert found.parent[stem] == found.nodes - 1
    assert found.depth[stem] == pytest.approx(0, abs=1e-5)  # distances are float32
    clades = {frozenset(found.names[i] for i in found.members(node)) for node in range(found.leaves, found.nodes)}
    assert {"a", "b"} in clades
    assert {"a", "b", "c"} in clades


def test_counts_are_compared_by_their_shares() -> None:
    rng = np.random.default_rng(0)
    kinds = rng.dirichlet(np.full(40, 0.3), 4)
    at = np.arange(80) % 4
    counts = np.stack([rng.multinomial(rng.integers(30, 3000), kinds[kind]) for kind in at])  # of very unequal totals
    found = tree(counts, draws=30)
    assert found.source == "square roots of shares"
    assert adjusted_rand_score(at, found.cut(4)) == 1
    assert tree(counts, draws=0, standardize=False).source == "columns"
    assert tree(rng.integers(100, 200, (30, 5)), draws=0).source == "columns"  # whole numbers, but not counted


def test_a_constant_column_of_any_value_is_left_out() -> None:
    x = np.random.default_rng(0).normal(size=(150, 5))
    constant = np.full((150, 1), 0.1)
    assert constant.std() > 0  # by rounding
    assert np.array_equal(tree(np.hstack([x, constant]), draws=0).depth, tree(x, draws=0).depth)
