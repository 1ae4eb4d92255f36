"""Groups have names whatever their columns are: categories, dates, hours, and what is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import horoball as hb
from horoball.report.check import groups
from horoball.tables import read
from horoball.trees import Tree
from horoball.vae.files import write_tree

KIND = np.repeat([0, 1, 2], 40)


def grown() -> Tree:
    """A tree whose three branches are the three kinds of rows."""
    merges, heads = [], []
    for kind in range(3):
        last = 40 * kind
        for row in range(40 * kind + 1, 40 * kind + 40):
            merges.append([row, last])
            last = 120 + len(merges) - 1
        heads.append(last)
    merges += [[heads[0], heads[1]], [heads[2], 120 + len(merges)]]
    return Tree.from_merges(merges, np.repeat([1.0, 5.0, 6.0], [117, 1, 1]))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    year, day = rng.integers(0, 4, 120), rng.integers(0, 28, 120)
    return pd.DataFrame(
        {
            "income": np.where(KIND == 2, np.nan, rng.normal(50, 3, 120)),
            "color": np.array(["red", "blue", "green"])[rng.integers(0, 3, 120)],
            "signup": [f"{2018 + y}-{1 + 3 * k:02d}-{1 + d:02d}" for y, d, k in zip(year, day, KIND, strict=True)],
            "hour": (8 * KIND + rng.integers(0, 2, 120)) % 24,
            "size": rng.normal(0, 1, 120),
        }
    )


def test_groups_are_named_by_months_hours_and_gaps(frame: pd.DataFrame) -> None:
    table = read(frame, kind="mixed", columns={"hour": "circular"})
    words = [" ".join(group.words) for group in groups(table, levels=[3], tree=grown()).groups[0]]
    for said, month, hours in zip(words, ("January", "April", "July"), ((0, 1), (8, 9), (16, 17)), strict=True):
        assert f"signup (month) = {month}" in said
        assert any(f"hour = {hour}" in said for hour in hours)
    assert "income missing" in words[2]
    assert "income missing" not in words[0] + words[1]


def test_a_column_that_is_known_in_one_group_alone_says_so(frame: pd.DataFrame) -> None:
    frame = frame.assign(income=np.where(KIND == 2, 50.0 + frame["size"], np.nan))
    found = groups(read(frame, kind="mixed"), levels=[3], tree=grown()).groups[0]
    assert "income known" in found[2].words


def test_a_model_names_groups_by_the_same_words(frame: pd.DataFrame) -> None:
    model = hb.PoincareVAE(max_epochs=1, hidden=(8,), random_state=0, columns={"hour": "circular"}).fit(frame)
    found = model.taxonomy(frame, [3], tree=grown()).groups[0]
    assert "income missing" in found[2].words
    assert "signup (month) = January" in found[0].words


def test_a_table_of_circles_alone_has_names(frame: pd.DataFrame) -> None:
    table = read(
        frame[["hour"]].assign(day=frame["hour"] % 7), kind="mixed", columns=dict.fromkeys(("hour", "day"), "circular")
    )
    assert all(group.words for group in groups(table, levels=[3], tree=grown()).groups[0])


def test_a_file_of_groups_always_has_their_names(tmp_path: Path) -> None:
    write_tree(grown(), tmp_path / "groups.csv", groups=hb.trees.taxonomy(grown(), [3]))
    made = pd.read_csv(tmp_path / "groups.csv")
    assert made["names_3"].unique().tolist() == ["group 0", "group 1", "group 2"]


def test_exemplars_do_not_depend_on_marks() -> None:
    x = np.random.default_rng(0).normal(size=(120, 3))
    marks = (np.eye(120)[:, :2], ["a = missing", "b = 1"])
    plain = hb.trees.taxonomy(grown(), [3], x=x, columns=list("abc"))
    marked = hb.trees.taxonomy(grown(), [3], x=x, columns=list("abc"), marks=marks)
    assert [one.exemplars for one in plain.groups[0]] == [one.exemplars for one in marked.groups[0]]


def test_a_group_with_other_dates_is_earlier_or_later() -> None:
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(np.r_[np.arange(30), 1000 + np.arange(30)], unit="D")
    frame = pd.DataFrame({"signup": days, "visits": np.repeat([1.5, 9.5], 30) + np.arange(60) / 100})
    merges = Tree.from_merges(*_two_halves(60))
    named = [" ".join(group.words) for group in groups(frame, levels=[2], tree=merges).groups[0]]
    assert "signup earlier" in named[0]
    assert "signup later" in named[1]


def _two_halves(n: int) -> tuple[list[list[int]], list[float]]:
    """Merges of a tree whose two branches are the first and the second half of the leaves."""
    merges: list[list[int]] = []
    heads = []
    for first in (0, n // 2):
        head = first
        for leaf in range(first + 1, first + n // 2):
            merges.append([head, leaf])
            head = n + len(merges) - 1
        heads.append(head)
    return [*merges, heads], [1.0] * len(merges) + [9.0]
