"""The study of the verdict's errors: its tables, and that the printed rates keep what the page promises."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from experiments import runs, verdicts
from experiments.verdict_tables import FAMILIES, GRID, simulated


@pytest.mark.parametrize("kind", [kind for family in FAMILIES.values() for kind in family] + list(GRID)[:2])
def test_tables_are_fixed_by_their_seed(kind: str) -> None:
    x = simulated(kind, 3)
    assert np.array_equal(x, simulated(kind, 3))
    assert not np.array_equal(x[:9], simulated(kind, 4)[:9])


@pytest.mark.parametrize("family", ["flat", "blobs", "loops", "grid"])
def test_at_most_one_in_twenty_is_falsely_called_hierarchical(family: str) -> None:
    said: Counter[str] = Counter()
    for record in runs.results(verdicts.STUDY):
        if record["setting"]["kind"] in (GRID if family == "grid" else FAMILIES[family]):
            said.update(record["result"]["answers"])
    assert said.total() >= 50
    assert said["nested"] + said["branching"] <= 0.05 * said.total()
