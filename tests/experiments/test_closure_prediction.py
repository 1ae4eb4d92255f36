"""What is given and asked for when pairs of a closure are predicted, and the figure that judges it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.closure_prediction import SHARES, f1, split_closure
from experiments.wordnet_data import Taxonomy
from horoball.graphs import Graph


def random_taxonomy(nodes: int = 200) -> Taxonomy:
    rng = np.random.default_rng(0)
    pairs = [(i, int(rng.integers(i))) for i in range(1, nodes)]
    return Taxonomy.of(np.array([str(i) for i in range(nodes)]), torch.tensor(pairs))


@pytest.mark.parametrize("share", SHARES)
def test_chains_lead_to_all_pairs_of_the_common_split_and_to_none_of_the_other(share: float) -> None:
    tree = random_taxonomy()
    whole = Graph.of(tree.closure, tree.nodes, directed=True)
    for kind, reached in (("all", True), ("fewer", False)):
        split = split_closure(tree, kind, share, seed=1)
        true, wrong = torch.from_numpy(split.true), torch.from_numpy(split.wrong)
        assert len(wrong) == 10 * len(true) > 0
        assert not split.given.holds(true).any()
        assert (split.reached.holds(true) == reached).all()
        assert whole.holds(true).all()
        assert not whole.holds(wrong).any()
        assert not whole.holds(wrong.flip(1)).all()


def test_f1_is_one_for_a_perfect_order_and_nothing_where_all_scores_are_equal() -> None:
    rng = np.random.default_rng(0)
    assert f1(rng.normal(10, 1, 400), rng.normal(0, 1, 4000)) == 1.0
    assert f1(np.zeros(400), np.zeros(4000)) == 0.0  # no threshold tells them apart
    assert f1(rng.normal(size=400), rng.normal(size=4000)) < 0.25
