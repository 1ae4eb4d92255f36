"""How often the test of drift is wrong, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, ks_1samp, uniform
from sklearn.datasets import load_digits

from horoball.trees import Placer
from horoball.trees.drift import Drift, unfit


@pytest.mark.parametrize(("held", "rows"), [(19, 5), (40, 300), (400, 100), (2000, 1000)])
def test_p_is_what_orders_of_exchangeable_rows_say(held: int, rows: int) -> None:
    rng = np.random.default_rng(0)
    p = np.empty(4000)
    for i in range(len(p)):
        known, new = np.sort(rng.normal(size=held)), rng.normal(size=rows)
        typical = (np.searchsorted(known, new, "right") + 1) / (held + 1)
        p[i] = Drift(rows, int(unfit(typical, held).sum()), held).p
    for level in (0.01, 0.05, 0.2):
        assert (p <= level).sum() <= binom.ppf(1 - 1e-4, len(p), level)
    if held == 2000:  # where counts are large, p is nearly continuous
        assert ks_1samp(np.sort(p), uniform.cdf).statistic < 0.06


def test_p_is_counted_by_hand() -> None:
    # One held-out row and two new: both are less typical than it in a third of the orders, one or both in two thirds.
    assert Drift(rows=2, unfit=2, held=1).p == pytest.approx(1 / 3)
    assert Drift(rows=2, unfit=1, held=1).p == pytest.approx(2 / 3)
    assert Drift(rows=2, unfit=0, held=1).p == 1
    assert Drift(rows=0, unfit=0, held=1).p == 1


def digits(seed: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    return (x / 16)[order], y[order]


def test_alarms_are_as_rare_on_digits_as_they_say() -> None:
    """Over draws of the rows of the fit; nothing was chosen by these data."""
    p = []
    for seed in range(60):
        x, y = digits(seed)
        p.append(Placer.fit(x[:900], y[:900, None], seed=seed).place(x[900:]).drift.p)
    for level in (0.05, 0.2, 0.5):
        assert np.sum(np.array(p) <= level) <= binom.ppf(1 - 1e-3, len(p), level)
    assert np.mean(p) < 0.75  # not all of them say nothing


def test_a_digit_that_was_not_there_is_noticed() -> None:
    found = []
    for digit in range(10):
        x, y = digits(digit)
        old = np.flatnonzero(y != digit)
        placer = Placer.fit(x[old[:900]], y[old[:900], None])
        new = np.concatenate([old[900:], np.flatnonzero(y == digit)[:100]])  # a seventh of them or so
        found.append(placer.place(x[new]).drift.anew)
        assert not placer.place(x[old[:0]]).drift.anew
    assert np.sum(found) >= 6, found  # 180 rows are held out: a share of 0.08 is the least that tells itself from 0.05
