"""What the intervals of a branch's columns are: a description."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from horoball.hierarchy import branches, tree

PAGE = Path(__file__).parents[3] / "docs" / "trees.md"


def test_intervals_of_branches_are_called_a_description_as_noise_has_them_too() -> None:
    apart, compared = 0, 0
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=(60, 20))
        large = [branch for branch in branches(tree(x, draws=0), x, most=20) if branch.rows >= 10][:6]
        apart, compared = apart + sum(len(branch.differences) for branch in large), compared + 20 * len(large)
    assert apart / compared > 0.1  # a test at 95 % would have 0.05
    for text in (branches.__doc__ or "", PAGE.read_text(encoding="utf-8")):
        words = " ".join(text.split())
        assert "a description, not a test" in words
        assert "14 to 28 % of" in words
        assert "in twenty" not in words
