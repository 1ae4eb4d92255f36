"""Trees of more rows than leaves: micro-clusters counted by their rows, and nothing lost or made up by them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from horoball.trees import Tree, tree, tree_from_json, tree_to_json
from horoball.trees.microclusters import MicroClusters, micro_clusters
from horoball.trees.source import Source, distance_matrix


def nested(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Four groups of three, of unequal sizes."""
    rng = np.random.default_rng(seed)
    centers = (4 * rng.normal(size=(4, 1, 12)) + 2 * rng.normal(size=(4, 3, 12))).reshape(12, 12)
    group = rng.choice(12, n, p=rng.dirichlet(np.full(12, 3.0)))
    return centers[group] + rng.normal(size=(n, 12)), group


@pytest.mark.parametrize("gaps", [False, True])
def test_distances_of_leaves_are_those_of_their_rows_in_the_mean_square(gaps: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6)) * np.arange(1.0, 7.0) + 100
    weight = rng.uniform(0.5, 2, 6)
    if gaps:
        x[rng.random(x.shape) < 0.05] = np.nan
    made = MicroClusters.of(Source("columns", x, weight=weight), 20, rng)
    at = np.arange(len(made.size))
    d = distance_matrix(made.source.weighted(at), None, made.source.within(at))
    assert made.size.sum() == len(made.leaf) == 300
    assert np.isfinite(d).all()
    if not gaps:
        square = cdist(x * weight, x * weight, "sqeuclidean")
        for i, j in ((0, 1), (3, 17), (12, 5)):
            mean = square[np.ix_(made.leaf == i, made.leaf == j)].mean()
            assert d[i, j] == pytest.approx(mean**0.5, rel=1e-5)
        times = np.bincount(np.random.default_rng(7).integers(0, 6, 6), minlength=6)
        points, within = made.source.replicate(np.random.default_rng(7), at)
        square = cdist(x * weight * np.sqrt(times), x * weight * np.sqrt(times), "sqeuclidean")
        mean = square[np.ix_(made.leaf == 2, made.leaf == 9)].mean()
        assert distance_matrix(points, None, within)[2, 9] == pytest.approx(mean**0.5, rel=1e-5)


def test_every_row_is_in_the_nearest_micro_cluster_and_the_middle_row_is_in_it() -> None:
    z = torch.randn(2000, 5, generator=torch.Generator().manual_seed(0))
    leaf, middle = micro_clusters(z, 100, np.random.default_rng(0))
    assert len(middle) == 100
    np.testing.assert_array_equal(leaf[middle], np.arange(100))
    x = z.numpy()
    centers = np.array([x[leaf == one].mean(0) for one in range(100)])
    own = np.linalg.norm(x - centers[leaf], axis=1)
    assert own.mean() < 1.15 * cdist(x, centers).min(1).mean()
    assert own[middle].mean() < 0.6 * own.mean()


def test_equal_rows_are_one_micro_cluster() -> None:
    z = torch.eye(4).repeat(50, 1)
    leaf, middle = micro_clusters(z, 10, np.random.default_rng(0))
    assert len(middle) == 4
    assert len({tuple(pair) for pair in zip(leaf.tolist(), z.argmax(1).tolist(), strict=True)}) == 4
    assert len(micro_clusters(torch.zeros(30, 2), 10, np.random.default_rng(0))[1]) == 1


def test_micro_clusters_give_the_groups_of_rows_and_count_by_rows() -> None:
    x, group = nested(600)
    rows, micro = tree(x, draws=30), tree(x, max_leaves=200, draws=30)
    assert micro.leaf is not None
    assert str(micro).startswith(f"Tree of {micro.leaves} micro-clusters of 600 rows, ")
    assert micro.rows[-1] == 600
    assert micro.size.tolist() == np.bincount(micro.leaf).tolist()
    assert adjusted_rand_score(group, rows.levels([12])[:, 0]) > 0.9
    assert adjusted_rand_score(group, micro.levels([12])[micro.leaf, 0]) > 0.9
    assert rows.verdict is not None
    assert micro.verdict is not None
    assert rows.verdict.answer == micro.verdict.answer
    again = tree_from_json(tree_to_json(micro))
    assert again.micro
    np.testing.assert_array_equal(again.levels([12]), micro.levels([12]))


def test_hardly_more_rows_than_leaves_make_the_same_tree() -> None:
    """What the number of rows jumps over when micro-clusters begin."""
    x, _ = nested(330)
    few, many = tree(x[:300], max_leaves=310, draws=40), tree(x, max_leaves=310, draws=40)
    assert not few.micro
    assert many.micro
    assert many.leaf is not None
    assert adjusted_rand_score(few.levels([12])[:, 0], many.levels([12])[many.leaf[:300], 0]) > 0.9
    assert few.support is not None
    assert many.support is not None
    sure = [float(np.mean(one.support[one.supported & (one.rows >= 5) & (one.rows <= 150)])) for one in (few, many)]
    assert sure[0] == pytest.approx(sure[1], abs=0.05)


def test_micro_clusters_of_noise_get_no_support() -> None:
    x = np.random.default_rng(0).standard_normal((600, 15))
    found = tree(x, max_leaves=150, draws=40)
    assert found.verdict is not None
    assert found.verdict.answer == "not detected"
    assert found.support is not None
    inner = slice(found.leaves, -1)
    assert np.mean((found.support[inner] >= 0.9) & found.supported[inner]) <= 0.02


def test_rare_groups_keep_a_branch() -> None:
    """Ten groups of 0.1 % of the rows, eight standard deviations or more from all others."""
    rng = np.random.default_rng(1)
    x, group = nested(20_000, 1)
    centers = [x[group == one].mean(0) for one in range(12)]
    while len(centers) < 22:
        one = 5 * rng.normal(size=(1, 12))
        if cdist(one, np.array(centers)).min() >= 8:
            centers.append(one[0])
    x = np.concatenate([x, np.repeat(centers[12:], 20, 0) + rng.normal(size=(200, 12))])
    group = np.repeat(np.arange(11), [20_000] + [20] * 10)
    found = tree(x, max_leaves=1000, draws=0)
    assert found.leaf is not None
    held = np.array([np.bincount(found.leaf, group == one, found.leaves) for one in range(1, 11)])
    order, first, last = found.spans
    until = np.concatenate([np.zeros((10, 1)), held[:, order].cumsum(1)], 1)
    shared = (until[:, last] - until[:, first])[:, found.leaves :]  # a branch, which can have support
    assert (shared / (found.rows[found.leaves :] + 20 - shared)).max(1).min() >= 0.8


def test_a_micro_cluster_is_no_group_by_itself() -> None:
    merges, sure = [[0, 1], [2, 3], [4, 5]], np.array([np.nan] * 4 + [0.9, 0.9, 1.0])
    about = {"support": sure, "size": np.array([5, 5, 5, 5])}
    labels = Tree.from_merges(merges, [1.0, 2.0, 9.0], **about)
    micro = Tree.from_merges(merges, [1.0, 2.0, 9.0], micro=True, **about)
    assert labels.levels([4])[:, 0].tolist() == [0, 1, 2, 3]
    assert micro.levels([4])[:, 0].tolist() == [0, 0, 1, 1]


def test_a_root_may_be_any_row_of_a_micro_cluster() -> None:
    x, _ = nested(300)
    found = tree(x, max_leaves=50, root=17, draws=0)
    assert found.leaf is not None
    assert found.depth[found.leaf[17]] == found.depth[: found.leaves].min()
    named = tree(x, max_leaves=50, root="r17", names=[f"r{i}" for i in range(300)], draws=0)
    np.testing.assert_array_equal(named.depth, found.depth)
    with pytest.raises(ValueError, match="3 or more"):
        tree(x, max_leaves=2)
