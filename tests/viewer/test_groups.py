"""Groups as contents of the page, in the search and as names on the map, in a real browser."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from horoball.viewer import View, view, view_tree
from tests.viewer.conftest import Open, Opened, spiral
from tests.viewer.test_safety import ATTACKS
from tests.viewer.test_tree import KIND, PLACES, eight, pixel

COARSE = ["swimmers"] * 4 + ["others"] * 4
FINE = ["first", "first", "second", "second", "third", "third", None, None]


def entries(opened: Opened) -> list[list[str]]:
    """The lines of the contents: name, rows, support."""
    return [text.split("\n") for text in opened.page.locator("#groups button").all_inner_texts()]


@pytest.fixture(scope="module")
def leveled() -> View:
    columns = {"kind": KIND, "weight": np.arange(8.0)}
    return view(PLACES, columns=columns, tree=eight(), levels=[COARSE, FINE], color="kind")


def test_levels_are_listed_with_rows_and_support(leveled: View, open_map: Open) -> None:
    opened = open_map(leveled, 1280, 800)
    assert entries(opened) == [
        ["others", "4", "0.40"],
        ["third", "2", "0.80"],
        ["swimmers", "4", "0.95"],
        ["first", "2", "0.90"],
        ["second", "2", "0.30"],
    ]
    opened.page.locator("#groups button", has_text="others").click()
    assert opened.get("horoball.selected") == [4, 5, 6, 7]
    assert opened.get("horoball.tree.view.kept") == 13
    assert "others" in opened.page.inner_text("#row")
    near = np.linalg.norm(opened.coordinates(8), axis=1)
    assert near[4:].min() < 1e-6  # one of its rows is in the middle
    opened.shot("contents")


def test_a_click_right_after_leaving_the_tree_draws_the_chosen_branch_fully(leveled: View, open_map: Open) -> None:
    opened = open_map(leveled, 1280, 800)
    opened.page.mouse.move(*pixel(opened, 13))
    opened.until("horoball.tree.view.lit !== null")
    opened.get("[...document.querySelectorAll('#groups button')].find((e) => e.title === 'swimmers').click()")
    assert [v for v in range(8) if opened.get(f"horoball.tree.strong({v})")] == [0, 1, 2, 3]


def test_a_tree_with_groups_and_no_columns_is_colored_by_its_finest_groups(open_map: Open) -> None:
    opened = open_map(view_tree(eight(), levels=[COARSE, FINE]), 1280, 800)
    assert opened.get("document.getElementById('color').selectedOptions[0].text") == "level 2"
    opened.page.fill("#search", "leaf 5")
    opened.page.press("#search", "Enter")
    assert opened.page.locator("#row dd button").all_inner_texts() == ["others, support 0.40", "third, support 0.80"]


def test_branches_are_called_by_what_sets_them_apart(open_map: Open) -> None:
    columns = {"kind": ["fish"] * 4 + ["bird"] * 4, "weight": np.arange(8.0)}
    opened = open_map(view_tree(eight(), columns), 1280, 800)
    names = [line[0] for line in entries(opened)]
    assert names == ["fish, low weight", "fish, low weight", "bird, high weight", "bird, high weight"]
    assert [line[1:] for line in entries(opened)] == [["4", "0.95"], ["2", "0.90"], ["2", "0.80"], ["2", "0.60"]]


def test_categories_are_groups_without_a_tree(small: View, open_map: Open) -> None:
    opened = open_map(small)
    opened.page.click("#contents summary")
    opened.until("document.querySelectorAll('#groups button').length > 0")
    assert entries(opened) == [["leaf", "80"], ["root", "60"], ["stem", "60"]]
    opened.page.locator("#groups button", has_text="stem").click()
    assert opened.get("horoball.selected") == list(range(60, 120))
    card = opened.page.inner_text("#row")
    assert "30.0 % (60)" in card
    assert "What sets these rows apart" in card
    assert "kind: stem" not in card  # of course
    opened.rest()
    again = open_map(opened.page.url)
    assert "30.0 % (60)" in again.page.inner_text("#row")
    opened.page.click("#clear")
    assert opened.page.locator("#pinned").is_hidden()


def test_the_search_finds_groups(leveled: View, open_map: Open) -> None:
    opened = open_map(leveled, 1280, 800)
    opened.page.fill("#search", "third")
    assert opened.page.locator("#results li").all_inner_texts() == ["thirdgroup of 2"]
    opened.page.press("#search", "Enter")
    assert opened.get("horoball.selected") == [4, 5]


def test_a_name_on_the_map_has_a_card(open_map: Open) -> None:
    n = 3000
    side = np.where(spiral(n)[:, 0] > 0, "right", "left")
    opened = open_map(view(spiral(n), columns={"side": side, "height": spiral(n)[:, 0]}), 1280, 800)
    opened.drawn()
    text, x, y = opened.get("horoball.names()")[0]
    opened.page.mouse.move(x, y - 4)
    opened.until("!document.getElementById('tip').hidden")
    tip = opened.page.inner_text("#tip")
    assert text in tip
    assert "set apart by" in tip
    assert "height" in tip
    opened.page.mouse.click(x, y - 4)
    assert opened.get("horoball.selected") == np.flatnonzero(side == text).tolist()
    opened.shot("label")
    opened.page.mouse.move(20, 780)
    assert opened.page.locator("#tip").is_hidden()


def test_a_lasso_takes_the_place_of_a_branch(leveled: View, open_map: Open) -> None:
    opened = open_map(leveled, 1280, 800)
    opened.page.mouse.click(*pixel(opened, 12))
    x, y = opened.pixel(0)
    opened.page.keyboard.down("Shift")
    opened.drag((x - 15, y - 15), (x + 15, y - 15), (x + 15, y + 15), (x - 15, y + 15))
    opened.page.keyboard.up("Shift")
    assert opened.page.locator("#pinned").is_hidden()
    assert "What sets these rows apart" in opened.page.inner_text("#apart")


def test_names_of_groups_that_are_markup_do_nothing(open_map: Open) -> None:
    n = len(ATTACKS)
    long = ["x" * 5000, *ATTACKS[1:]]
    opened = open_map(view(spiral(n), columns={"c": long}, levels=[long, long[::-1]]), 1280, 800)
    for k in range(opened.page.locator("#groups button").count()):
        opened.page.locator("#groups button").nth(k).click()
    opened.page.fill("#search", "alert")
    opened.page.press("#search", "Enter")
    assert opened.dialogs == []
    assert opened.get("document.querySelectorAll('img, iframe, object, embed, link, [onerror], [onload]').length") == 0
    assert opened.get("document.documentElement.scrollWidth") == 1280


def test_a_row_leads_to_the_card_of_its_group_which_compares_dates(open_map: Open) -> None:
    days = np.datetime64("2023-01-01") + np.arange(8) * np.timedelta64(10, "D")
    rows = pd.DataFrame({"weight": np.arange(8.0), "signup": days})
    opened = open_map(view_tree(eight(), {"kind": KIND}, rows=rows, levels=[COARSE]), 1280, 800)
    opened.page.fill("#search", "leaf 1")
    opened.page.press("#search", "Enter")
    opened.page.locator("#row dd button").click()
    assert opened.get("horoball.selected") == [0, 1, 2, 3]
    card = opened.page.inner_text("#row")
    assert "swimmers" in card
    assert "2023-01-16" in card  # the mean of the four
    assert "2023-02-25" in card  # of the others
    opened.page.keyboard.press("?")
    assert "lasso" not in opened.page.inner_text("#help")  # there is no map
