from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from sklearn.metrics import adjusted_rand_score

from horoball.trees import Tree, taxonomy, tree
from horoball.trees.levels import group_nodes, level_sizes


def nested(outliers: int = 0) -> np.ndarray:
    """Nine clusters of ten rows, three by three, and rows far from all; every column has a part in all of it."""
    rng = np.random.default_rng(0)
    centers = 100 * np.eye(3, 12)[:, None] + 20 * np.eye(3, 12, 3)
    rows = (centers[..., None, :] + rng.normal(size=(3, 3, 10, 12))).reshape(-1, 12)
    turned = rows @ np.linalg.qr(rng.normal(size=(12, 12)))[0]
    return np.concatenate([turned, 1000 * rng.normal(size=(outliers, 12))])


def test_groups_are_those_of_the_data_and_outliers_are_in_none() -> None:
    found = tree(nested(outliers=4), method="average", draws=10, standardize=False)
    coarse, fine = found.levels([9, 3]).T
    np.testing.assert_array_equal(coarse[:90], np.repeat(np.arange(3), 30))
    np.testing.assert_array_equal(fine[:90], np.repeat(np.arange(9), 10))
    assert set(coarse[90:]) == set(fine[90:]) == {-1}


@pytest.mark.parametrize("sizes", [[1], [2, 3, 4, 5], [7, 7], [40, 13, 2], [60]])
def test_as_many_groups_as_asked_for_are_given_and_nested(sizes: list[int]) -> None:
    x = np.random.default_rng(3).normal(size=(60, 4))
    made = linkage(x, "single")  # the most uneven of trees
    levels = Tree.from_merges(made[:, :2], made[:, 2]).levels(sizes)
    assert [len(set(level[level >= 0])) for level in levels.T] == sorted(sizes)
    for above, below in zip(levels.T[:-1], levels.T[1:], strict=True):
        held = below >= 0
        assert (above[held] >= 0).all()  # what is unsure stays so
        assert len({*zip(above[held].tolist(), below[held].tolist(), strict=True)}) == len(set(below[held]))


def test_the_cut_is_where_support_is_highest() -> None:
    merges, height = [[0, 1], [2, 3], [4, 5], [8, 9], [6, 7], [10, 12], [11, 13]], np.arange(1.0, 8)
    support = np.array([np.nan] * 8 + [0.9, 0.9, 0.9, 0.2, 0.9, 0.8, 1.0])
    # Nodes 11 = {0, 1, 2, 3} and 13 = {4, 5, 6, 7}: the second is the surer one.
    assert group_nodes(Tree.from_merges(merges, height, support=support), [3])[0] == [8, 9, 13]
    support[[11, 13]] = 0.8, 0.2
    assert group_nodes(Tree.from_merges(merges, height, support=support), [3])[0] == [11, 10, 12]


def test_levels_may_be_counted() -> None:
    found = tree(nested(), method="average", draws=0)
    assert found.levels(2).shape == (90, 2)
    assert level_sizes(90, 2) == [3, 9]
    assert level_sizes(3, 4) == [2]
    with pytest.raises(ValueError, match="one level or more, got 0"):
        found.levels(0)
    with pytest.raises(ValueError, match="between 1 and 90 groups, got 91"):
        found.levels([91])


def test_collapsed_trees_have_levels_too() -> None:
    found = tree(nested(), draws=20).collapse(0.9)
    assert set(found.levels([3])[:, 0]) - {-1} == {0, 1, 2}


def test_where_no_number_is_given_groups_are_the_finest_that_are_likely() -> None:
    found = tree(nested(outliers=4), method="average", draws=10, standardize=False)
    coarse, finest = found.levels("auto").T
    np.testing.assert_array_equal(coarse, [*np.repeat(np.arange(3), 30), -1, -1, -1, -1])
    np.testing.assert_array_equal(finest, [*np.repeat(np.arange(9), 10), -1, -1, -1, -1])
    np.testing.assert_array_equal(taxonomy(found).levels, found.levels())


def test_noise_has_no_groups_where_no_number_is_given() -> None:
    found = tree(np.random.default_rng(0).normal(size=(60, 6)), draws=20)
    assert found.verdict is not None
    assert found.verdict.answer == "not detected"
    assert (found.levels() == -1).all()


def test_columns_that_say_nothing_are_left_out_of_tables_with_gaps_too() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 30)
    x = np.hstack([6 * rng.normal(size=(4, 4))[groups] + rng.normal(size=(120, 4)), rng.normal(size=(120, 12))])
    x[rng.random(x.shape) < 0.05] = np.nan
    found = tree(x, draws=20)
    assert found.source == "columns that others say something about"
    assert adjusted_rand_score(groups, found.levels()[:, -1]) > 0.9


def test_a_branch_stays_where_few_of_its_rows_are_in_likely_ones_inside_it() -> None:
    none = [np.nan] * 20
    # Four clades of five leaves, joined two by two, and then all.
    joins = []
    for first in (0, 5, 10, 15):
        joins += [[first, first + 1], *([first + k, 20 + len(joins) + k - 2] for k in (2, 3, 4))]
    joins += [[23, 27], [31, 35], [36, 37]]
    support = np.array([*none, *([0.0, 0.0, 0.0, 0.9] * 3), 0.0, 0.0, 0.0, 0.1, 0.8, 0.8, 1.0])
    made = Tree.from_merges(joins, np.repeat([1.0, 2.0, 3.0], [16, 2, 1]), support=support)
    np.testing.assert_array_equal(made.levels()[:, -1], np.repeat([0, 1, 2], [5, 5, 10]))
