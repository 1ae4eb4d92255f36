"""What sets branches apart is there: intervals hold in noise, and differences that are there are found."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from horoball.trees import Tree, branches, tree
from horoball.trees.branches import HeldOut, differences

NOISE: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "two columns": lambda rng: rng.standard_normal((60, 2)),
    "normal": lambda rng: rng.standard_normal((60, 20)),
    "heavy tails": lambda rng: rng.standard_t(3, (60, 10)),
    "coins": lambda rng: (rng.random((60, 10)) < rng.uniform(0.1, 0.9, 10)).astype(float),
    "counts": lambda rng: np.log1p(rng.poisson(np.exp(rng.standard_normal(10)), (60, 10))),
}


def _two_groups(rng: np.random.Generator, rows: int, columns: int, noise: int, shift: float = 3.0) -> np.ndarray:
    x = rng.standard_normal((rows, columns + noise))
    x[: rows // 2, :columns] += shift
    return x


def _halves(x: np.ndarray) -> Tree:
    """A tree whose root has the first and the second half of the rows as its branches, the only ones with support."""
    n = len(x) // 2
    first = [[0, 1], *([k, 2 * n + k - 2] for k in range(2, n))]
    second = [[n, n + 1], *([n + k, 3 * n + k - 3] for k in range(2, n))]
    merges = [*first, *second, [3 * n - 2, 4 * n - 3]]
    support = np.zeros(4 * n - 1)
    support[[3 * n - 2, 4 * n - 3, 4 * n - 2]] = 1
    return Tree.from_merges(merges, np.arange(len(merges)) + 1.0, support=support)


@pytest.mark.parametrize("kind", NOISE)
def test_in_noise_at_most_6_percent_of_intervals_leave_out_0(kind: str) -> None:
    counts, as_cut = [], []
    for seed in range(20):
        x = NOISE[kind](np.random.default_rng(seed))
        found = tree(x, draws=0)
        order, first, last = found.spans
        place, ends = np.argsort(order), np.column_stack([first, last])
        nodes = np.arange(found.leaves, found.nodes - 1)
        nodes = nodes[found.rows[nodes] >= 5]
        _, low, high, _ = HeldOut(place, x).compare(ends[nodes], ends[found.parent[nodes]])
        counts.append((((low > 0) | (high < 0)).sum(), np.isfinite(low).sum()))
        for node in nodes[-3:]:
            beside = np.setdiff1d(found.members(found.parent[node]), found.members(node))
            as_cut.append(len(differences(x[found.members(node)], x[beside], [""] * x.shape[1])) / x.shape[1])
    apart, tested = np.array(counts).T
    rate = apart.sum() / tested.sum()
    # Intervals of a table depend on each other, tables do not. One run in 1,000 fails if the rate is 6 %.
    error = np.sqrt(((apart - rate * tested) ** 2).sum()) / tested.sum()
    assert rate < 0.06 + 3.1 * error
    assert rate < 0.5 * np.mean(as_cut)  # of branches that are compared on the rows that cut them


def test_columns_that_make_the_branch_are_found_and_noise_is_not() -> None:
    false = 0
    for seed in range(10):
        x = _two_groups(np.random.default_rng(seed), 80, 5, 20)
        names = [f"signal {i}" for i in range(5)] + [f"noise {i}" for i in range(20)]
        halves = branches(_halves(x), x, columns=names, most=25)
        assert [one.rows for one in halves] == [40, 40]
        for branch in halves:
            found = {one.column: one for one in branch.differences}
            assert {f"signal {i}" for i in range(5)} <= set(found)
            sign = 1 if branch.exemplars[0] < 40 else -1
            assert all(1.5 < sign * found[f"signal {i}"].value < 4 for i in range(5))
            false += len(found) - 5
    assert false / (10 * 2 * 20) < 0.08  # of 400 intervals, which come in pairs


def test_a_column_that_relates_to_no_other_needs_a_gap() -> None:
    rng = np.random.default_rng(0)
    x = _two_groups(rng, 80, 1, 3, shift=8.0)
    (branch, *_) = (one for one in branches(_halves(x), x, most=4) if one.exemplars[0] < 40)
    assert branch.differences[0].column == "x0"
    assert branch.differences[0].alone
    assert branch.differences[0].low > 5
    assert str(branch.differences[0]).endswith(" alone")
    flat = np.sort(rng.standard_normal((80, 1)), axis=0)  # halves that a cut through one peak makes
    x = np.concatenate([flat, rng.standard_normal((80, 3))], axis=1)
    assert differences(x[:40], x[40:], list("abcd"))[0].value < -2
    coin = np.concatenate([flat > flat[40], rng.standard_normal((80, 3))], axis=1)
    for table in (x, coin):
        for branch in branches(_halves(table), table, most=4):
            assert all(one.column != "x0" for one in branch.differences)


def test_two_values_that_divide_a_branch_exactly_set_it_apart() -> None:
    x = np.repeat([[1.0, 1.0, 0.0, 5.0], [0.0, 0.0, 1.0, 5.0]], 12, axis=0)
    named = {one.column for one in differences(x[:12], x[12:], list("abcd"))}
    assert named == {"a", "b", "c"}
    x[:, 3] = np.arange(24) % 2
    branch = branches(_halves(x), x, columns=list("abcd"))[0]
    assert {one.column for one in branch.differences} == {"a", "b", "c"}


def test_missing_values_are_left_out_and_infinite_ones_refused() -> None:
    rng = np.random.default_rng(0)
    x = _two_groups(rng, 120, 6, 2)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 7] = np.nan  # nothing was observed
    branch = branches(_halves(x), x, most=8)[0]
    assert {f"x{i}" for i in range(6)} <= {one.column for one in branch.differences}
    assert "x7" not in {one.column for one in branch.differences}
    x[0, 0] = np.inf
    with pytest.raises(ValueError, match="expects finite numbers, got infinity"):
        branches(_halves(x), x)


def test_the_same_rows_have_the_same_differences() -> None:
    x = _two_groups(np.random.default_rng(0), 60, 3, 3)
    assert branches(_halves(x), x) == branches(_halves(x), x)


def test_many_rows_and_columns_take_little_time() -> None:
    rng = np.random.default_rng(0)
    x = _two_groups(rng, 1_000, 50, 50)
    began = time.process_time()
    branches(_halves(x), x)
    assert time.process_time() - began < 4  # about one second on an idle core
    wide = _two_groups(rng, 300, 150, 300)  # columns are left out some at a time
    branch = branches(_halves(wide), wide, most=450)[0]
    assert sum(int(one.column[1:]) < 150 for one in branch.differences) == 150
    many = _two_groups(rng, 5_000, 3, 0)  # of which some are drawn
    branch = branches(_halves(many), many)[0]
    assert len(branch.differences) == 3
