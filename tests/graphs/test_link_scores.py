"""Against the definitions, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from horoball.graphs import link_scores


@pytest.mark.parametrize("levels", [2, 5, 30, 10**9])
def test_scores_are_those_of_their_definitions_ties_included(levels: int) -> None:
    rng = np.random.default_rng(levels)
    for size in (2, 3, 10, 101, 1000):
        is_edge = rng.random(size) < 0.4
        is_edge[:2] = True, False
        score = rng.integers(0, levels, size) / levels + is_edge * rng.integers(0, 2)
        found = link_scores(score, is_edge)
        edges, others = score[is_edge, None], score[~is_edge]
        assert found.auc == pytest.approx(float(((edges > others) + (edges == others) / 2).mean()), abs=1e-12)
        precision = (edges <= edges.T).sum(1) / (score >= edges).sum(1)
        assert found.ap == pytest.approx(float(precision.mean()), abs=1e-12)


def test_tensors_infinite_scores_and_one_score_for_all() -> None:
    is_edge = torch.tensor([True, True, False, False])
    assert link_scores(torch.tensor([np.inf, 1.0, -np.inf, -np.inf]), is_edge) == (1.0, 1.0)
    assert link_scores(torch.zeros(4, requires_grad=True), is_edge) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("score", "is_edge", "message"),
    [
        ([1.0, 2.0], [True, True], "edges and non-edges, got 2 and 0"),
        ([1.0, 2.0], [False, False], "edges and non-edges, got 0 and 2"),
        ([], [], "edges and non-edges, got 0 and 0"),
        ([1.0, np.nan], [True, False], "1 NaN of 2"),
        ([1.0, 2.0], [True], r"shapes \(2,\) and \(1,\)"),
        ([True, False], [0.3, 0.2], "Pass the scores first"),
    ],
)
def test_what_has_no_scores_is_refused(score: list[float], is_edge: list[bool], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        link_scores(score, is_edge)
