from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import cdist, pdist

from horoball.hierarchy.verdicts.gaps import gaps, spanning_tree


@pytest.mark.parametrize("d", [1, 3, 10])
def test_the_edges_are_those_of_single_linkage(d: int) -> None:
    x = np.random.default_rng(0).normal(size=(60, d))
    assert np.allclose(spanning_tree(cdist(x, x))[:, 2], linkage(pdist(x), "single")[:, 2])


def test_a_few_outliers_that_lie_together_are_no_group() -> None:
    x = np.random.default_rng(0).normal(size=(200, 3))
    x[:5] += 50
    assert gaps(x, cdist(x, x)).count == 1


def test_groups_of_unequal_size_and_width_are_found() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate(
        (rng.normal(size=(200, 3)), 20 + 0.1 * rng.normal(size=(15, 3)), -30 + 3 * rng.normal(size=(60, 3)))
    )
    found = gaps(x, cdist(x, x))
    assert sorted(np.bincount(found.labels)) == [15, 60, 200]
    assert found.p == 0.05


@pytest.mark.parametrize("kind", ["line", "square", "heavy tails"])
def test_rows_without_gaps_are_one_group_in_any_dimension(kind: str) -> None:
    rng = np.random.default_rng(1)
    x = {
        "line": rng.uniform(size=(300, 1)) * np.ones(3),
        "square": rng.uniform(size=(300, 2)),
        "heavy tails": rng.standard_t(3, size=(300, 4)),
    }[kind]
    assert gaps(x, cdist(x, x)).count == 1
