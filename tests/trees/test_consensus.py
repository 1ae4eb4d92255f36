from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import pdist, squareform

from horoball.hierarchy.metrics import merges_purity
from horoball.trees import tree, tree_from_json, tree_to_json
from horoball.trees.linkage import Joined
from horoball.trees.support import _add_heights, consensus


def test_heights_are_the_cophenetic_distances_of_scipy() -> None:
    made = linkage(np.random.default_rng(0).normal(size=(50, 3)), "average")
    total = np.ones((50, 50), np.float32)
    _add_heights(total, Joined(made[:, :2].astype(int), made[:, 2], None))
    np.testing.assert_allclose(total, 1 + squareform(cophenet(made)), rtol=1e-6)


def test_replicates_together_find_groups_better_than_one_linkage() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 15)
    x = 0.9 * rng.normal(size=(12, 30))[labels] + rng.normal(size=(180, 30))
    found = tree(x, method="consensus", draws=20, standardize=False)
    assert found.method == "consensus"
    assert tree_from_json(tree_to_json(found)).method == "consensus"
    assert found.support is not None
    ours = merges_purity(found.to_linkage()[:, :2].astype(int), labels)
    assert ours > merges_purity(linkage(pdist(x), "average")[:, :2].astype(int), labels)


def test_a_consensus_needs_replicates() -> None:
    x = np.random.default_rng(0).normal(size=(20, 4))
    with pytest.raises(ValueError, match="use draws=20"):
        tree(x, method="consensus", draws=0)
    with pytest.raises(ValueError, match="at least one replicate"):
        consensus(np.zeros((2, 2)), [])
