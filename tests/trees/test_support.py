"""Support: how often a branch comes back, up to a few leaves, and in a part of the leaves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from horoball.trees import tree
from horoball.trees.chance import KINDS, Chance, FlatTables, Judged, Kind
from horoball.trees.support import Branches


def clades(merges: np.ndarray) -> list[set[int]]:
    n = len(merges) + 1
    found: list[set[int]] = [{leaf} for leaf in range(n)]
    for a, b in merges:
        found.append(found[a] | found[b])
    return found[n:-1]


def merges_of(x: np.ndarray) -> np.ndarray:
    return linkage(x, "average")[:, :2].astype(np.int64)


@pytest.mark.parametrize("part", [None, 0.7])
def test_support_is_the_share_of_replicates_with_an_overlap_of_four_fifths(part: float | None) -> None:
    rng = np.random.default_rng(0)
    x = np.repeat(3 * rng.standard_normal((5, 12)), 12, 0) + rng.standard_normal((60, 12))
    merges, replicates = merges_of(x), []
    for _ in range(8):
        leaves = None if part is None else np.sort(rng.choice(60, 42, replace=False))
        columns = rng.integers(0, 12, 12)
        replicates.append((merges_of(x[:, columns] if leaves is None else x[leaves][:, columns]), leaves))
    expected = []
    for clade in clades(merges):
        back = asked = 0
        for other, leaves in replicates:
            names = np.arange(60) if leaves is None else leaves
            here = clade & set(names.tolist())
            if len(here) >= 2:
                asked += 1
                found = [{int(names[leaf]) for leaf in each} for each in clades(other)]
                back += any(5 * len(here & each) >= 4 * len(here | each) for each in found)
        expected.append(back / max(asked, 1))
    np.testing.assert_allclose(Branches(merges).support(replicates), expected, atol=1e-12)
    with pytest.raises(ValueError, match="at least one replicate"):
        Branches(merges).support([])


@pytest.mark.parametrize("kind", KINDS)
def test_flat_tables_have_the_covariance_of_the_data_and_no_groups(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((4, 6))
    real = rng.standard_normal((400, 4)) @ mix + 0.3 * rng.standard_normal((400, 6))
    coins = (real > 0).astype(float)  # binaries, which normals of the same correlation would make less correlated
    counts = rng.poisson(np.exp(0.6 * real / real.std(0)))
    for x in (real, coins, counts):
        flat = FlatTables(x.astype(float), rng)
        drawn = np.mean([np.corrcoef(flat.draw(kind, 400, rng).T) for _ in range(10)], axis=0)
        assert np.abs(drawn - np.corrcoef(x.T)).max() < 0.1


def test_flat_tables_of_columns_have_their_values_and_gaps() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (200, 4)).astype(float)
    x[rng.random(x.shape) < 0.2] = np.nan
    drawn = FlatTables(x, rng).draw("columns", 200, rng)
    assert np.isnan(drawn).mean() == pytest.approx(np.isnan(x).mean(), abs=1e-9)
    assert set(np.unique(drawn[~np.isnan(drawn)])) == {0.0, 1.0, 2.0}


def test_two_halves_are_above_chance() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 12))
    x[:40] += 4
    found = tree(x, draws=40)
    halves = [node for node in range(found.leaves, found.nodes) if found.clade_sizes[node] == 40]
    assert len(halves) == 2
    assert found.supported[halves].all()
    assert found.verdict is not None
    assert found.verdict.p <= 0.05


def test_three_groups_of_two_columns_are_found() -> None:
    rng = np.random.default_rng(0)
    x = np.repeat(np.array([[0, 0], [20, 8], [8, 20.0]]), 20, 0) + rng.standard_normal((60, 2))
    found = tree(x, draws=40)
    groups = found.cut(3)
    assert sorted(np.unique(groups, return_counts=True)[1].tolist()) == [20, 20, 20]
    assert (groups.reshape(3, 20) == groups.reshape(3, 20)[:, :1]).all()


def test_rows_with_gaps_have_a_tree_of_what_they_share() -> None:
    rng = np.random.default_rng(0)
    x = np.repeat(4 * rng.standard_normal((3, 20)), 20, 0) + rng.standard_normal((60, 20))
    x[rng.random(x.shape) < 0.3] = np.nan
    groups = tree(x, draws=30).cut(3)
    assert (groups.reshape(3, 20) == groups.reshape(3, 20)[:, :1]).mean() > 0.9
    assert len(set(groups[groups >= 0].tolist())) == 3


def test_a_larger_tree_is_compared_with_few_rows_by_size_and_with_many_by_share() -> None:
    flat = [Judged(np.array([2, 10, 100]), np.array([0.6, 0.3, 0.1]), np.zeros(3))] * 20
    chance = Chance(300, {"ellipsoid": flat, "columns": flat})
    found = Judged(np.array([2, 10, 1000]), np.ones(3), np.zeros(3))
    np.testing.assert_allclose(chance.level(found, 3000), [0.6, 0.3, 0.1])


def test_newick_and_record_have_no_number_for_a_branch_that_chance_makes() -> None:
    found = tree(np.random.default_rng(0).standard_normal((30, 12)), draws=20)
    assert found.shown_support is not None
    text = found.to_newick()
    assert text.count(")") - 1 > int((~np.isnan(found.shown_support)).sum()) - 1
    shown = found.collapse(0.0)
    assert shown.nodes - shown.leaves == int((~np.isnan(found.shown_support)).sum())
