"""What the page says of a branch or a selection, in a real browser and against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from horoball.trees import Tree
from horoball.viewer import View, view, view_tree
from tests.viewer.conftest import Open, Opened, spiral
from tests.viewer.test_tree import KIND, MERGES, PLACES, SUPPORT, eight, pixel

N = 600


def made(**more: Any) -> tuple[View, dict[str, np.ndarray], np.ndarray]:
    """Points whose first third has other values than the rest."""
    rng = np.random.default_rng(0)
    first = np.arange(N) < 200
    given = {
        "length": np.where(first, 1.5, 4.9) + 0.3 * rng.normal(size=N),
        "noise": rng.normal(size=N),
        "kind": np.where(first, "iris", np.where(rng.uniform(size=N) < 0.5, "rose", "iris")),
    }
    x = np.column_stack([1e6 + 50 * first + rng.normal(size=N), rng.normal(size=N)])
    labels = [f"{'red tulip' if one else 'blue stone'} number {k}" for k, one in enumerate(first)]
    page = view(spiral(N), columns=given, labels=labels, rows=x, **more)
    return page, given | {"x0": x[:, 0], "x1": x[:, 1]}, first


def lasso(opened: Opened, radius: float) -> None:
    x, y = opened.pixel(0)
    turns = np.linspace(0, 2 * np.pi, 24)
    opened.page.keyboard.down("Shift")
    opened.drag(*((x + radius * np.cos(t), y + radius * np.sin(t)) for t in turns))
    opened.page.keyboard.up("Shift")


def test_a_selection_is_told_apart_by_means_shares_and_words(open_map: Open) -> None:
    page, values, first = made()
    opened = open_map(page)
    found = opened.get("horoball.apart([...Array(200).keys()])")
    assert {one["name"] for one in found["numbers"]} == {"length", "x0"}
    for one in found["numbers"]:
        x = values[one["name"]]
        here, rest = x[first].mean(), x[~first].mean()
        tolerance = 0.02 * x.std()  # x0 is rounded to one byte
        assert one["here"] == pytest.approx(here, abs=tolerance)
        assert one["rest"] == pytest.approx(rest, abs=tolerance)
        assert one["by"] == pytest.approx((here - rest) / x.std(), abs=0.03)
    (kind,) = found["categories"]  # of two categories one says all
    assert kind["name"] in ("kind: iris", "kind: rose")
    assert abs(kind["by"]) == pytest.approx((values["kind"][~first] == "rose").mean())
    assert {one["name"] for one in found["words"]} == {
        f"“{word}” in name" for word in ("red", "tulip", "blue", "stone")
    }
    assert {abs(one["by"]) for one in found["words"]} == {1}


def test_typical_rows_are_nearest_to_the_mean(open_map: Open) -> None:
    opened = open_map(view(spiral(60), columns={"a": np.arange(60.0) + 0.25, "b": np.zeros(60) + 0.5}))
    assert opened.get("horoball.apart([0, 10, 20, 30, 40])")["typical"] == [20, 10, 30]


def test_a_lasso_says_what_sets_its_rows_apart(open_map: Open) -> None:
    page, values, _ = made()
    opened = open_map(page, 1280, 800)
    lasso(opened, 150)
    rows = opened.get("horoball.selected")
    assert 20 < len(rows) < 200
    card = opened.page.locator("#apart")
    text = card.inner_text()
    for part in ("What sets these rows apart", "length", "spreads", "kind: ", "points", "no test", "Typical rows"):
        assert part in text
    assert f"{values['length'][rows].mean():.4g}" in text
    assert f"{round(values['x0'][rows].mean(), -1):,.0f}"[:-1] in text  # in so many digits that both means differ
    card.locator(".examples button").first.click()
    assert opened.get("horoball.view.pinned") in rows
    opened.shot("lasso")
    opened.page.click("#clear")
    assert card.is_hidden()


def test_columns_that_were_left_out_are_counted(open_map: Open) -> None:
    opened = open_map(view(spiral(200), rows=np.random.default_rng(0).normal(size=(200, 70)), details=5))
    lasso(opened, 100)
    assert "5 of 70 further columns" in opened.page.inner_text("#apart")
    assert opened.page.locator("#color option").count() == 6  # colors by any of them
    opened.page.mouse.click(*opened.pixel(50))
    assert opened.page.inner_text("#row").count("≈") == 5  # rounded, and said so


def test_rows_without_columns_or_without_a_rest_are_said_to_be_so(open_map: Open) -> None:
    opened = open_map(view(spiral(30)))
    lasso(opened, 120)
    assert "holds no columns to compare rows by" in opened.page.inner_text("#apart")
    lasso(opened, 300)
    assert "no rest to compare them with" in opened.page.inner_text("#apart")


def test_a_branch_says_what_it_is(open_map: Open) -> None:
    chance = np.array([np.nan] * 8 + [0.35] * 6 + [0.0])
    levels = [["swimmers"] * 4 + ["others"] * 4]
    columns = {"kind": KIND, "weight": np.arange(8.0)}
    tree = eight(chance=chance)
    opened = open_map(view(PLACES, columns=columns, tree=tree, levels=levels, color="kind"), 1280, 800)
    opened.page.mouse.click(*pixel(opened, 12))
    text = opened.page.inner_text("#row")
    for part in (
        "swimmers",
        "rows",
        "0.95",
        "flat data of the same covariance bring as good a branch back with a support of up to 0.35",
        "weight",
        "1.5",
        "5.5",
        "no test",
        "Typical rows",
        "leaf 1",
    ):
        assert part in text
    assert "level 1" not in text  # a group differs from others in its own name
    assert opened.page.locator("#apart").is_hidden()  # said once
    opened.page.mouse.move(*pixel(opened, 13))
    opened.until("!document.getElementById('branch-tip').hidden")
    assert "set apart by" in opened.page.inner_text("#branch-tip")
    opened.shot("card")


def test_the_verdict_is_in_the_card(open_map: Open) -> None:
    from horoball.trees.verdict import Verdict

    verdict = Verdict(branches=5, flat=0.2, p=0.01, groups=3, levels=1, nesting=float("nan"), along=False)
    tree = Tree.from_merges(MERGES, [1, 1, 1, 1, 2, 2, 3], support=SUPPORT, verdict=verdict)
    opened = open_map(view_tree(tree, {"kind": KIND}), 1280, 800)
    opened.page.mouse.click(*pixel(opened, 12))
    assert verdict.sentence in opened.page.inner_text("#row")


def test_a_hundred_thousand_rows_are_compared_within_a_second(open_map: Open) -> None:
    n = 100_000
    rng = np.random.default_rng(0)
    r, t = np.abs(rng.normal(2.5, 1.2, n)), rng.uniform(0, 2 * np.pi, n)
    z = np.tanh(r / 2)[:, None] * np.stack((np.cos(t), np.sin(t)), 1)
    x = rng.normal(size=(n, 60)).astype(np.float32) + r[:, None].astype(np.float32)
    opened = open_map(view(z, columns={"type": np.arange(n) % 7}, rows=x, details=60))
    times = [
        opened.get(f"horoball.apart([...Array({n}).keys()].filter((i) => i % 3 === {k}))")["time"] for k in range(3)
    ]
    print(f"first {times[0]:.0f} ms, then {times[1]:.0f} and {times[2]:.0f} ms")
    assert max(times) < 1000


def test_words_are_explained(open_map: Open) -> None:
    opened = open_map(view(PLACES, columns={"kind": KIND}, tree=eight(), scale=np.full(8, 0.1)), 1280, 800)
    opened.page.mouse.click(*pixel(opened, 12))
    word = opened.page.locator("#row .term", has_text="support")
    assert "comes back" in (word.get_attribute("title") or "")
    word.focus()
    assert "comes back" in opened.page.inner_text("#meaning")
    opened.page.keyboard.press("?")
    terms = opened.page.locator("#terms dt").all_inner_texts()
    assert {"support", "group", "rim", "spread", "medoid", "branch", "posterior scale"} <= set(terms)
    assert not {"level", "chance", "verdict"} & set(terms)  # this page has none
    opened.shot("words")
