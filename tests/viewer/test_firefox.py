"""The page in Debian's Firefox: its tree, groups, cards, search and lasso, and its words where WebGL 2 is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from horoball.viewer import view, view_tree
from tests.viewer.conftest import spiral
from tests.viewer.firefox import Firefox, Screen, program
from tests.viewer.test_apart import N, made
from tests.viewer.test_tree import KIND, eight

ENTER = "\ue007"


@pytest.fixture(scope="module")
def found() -> str:
    where = program()
    if where is None:
        pytest.skip("No Firefox was found. Install firefox-esr, or name one in HOROBALL_FIREFOX.")
    return where


@pytest.fixture(scope="module")
def plain(found: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """Without a screen, and so without WebGL."""
    with Firefox(found, tmp_path_factory.mktemp("profile"), **{"webgl.disabled": True}) as browser:
        yield browser


@pytest.fixture(scope="module")
def drawing(found: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """With WebGL in software."""
    if shutil.which("Xvfb") is None:
        pytest.skip("No Xvfb was found: without a screen Firefox has no WebGL. Install xvfb.")
    screen = Screen()
    try:
        with Firefox(found, tmp_path_factory.mktemp("profile"), screen.name) as browser:
            browser.send("WebDriver:SetWindowRect", x=0, y=0, width=1280, height=900)
            yield browser
    finally:
        screen.close()


def test_firefox_shows_a_tree_with_groups_cards_and_search(plain: Firefox, tmp_path: Path) -> None:
    columns = {"kind": KIND, "weight": np.arange(8.0)}
    plain.open(view_tree(eight(), columns).save(tmp_path / "tree.html"))
    assert plain.get("document.getElementById('failure').checkVisibility()") is False
    listed = plain.get("[...document.querySelectorAll('#groups button')].map((b) => b.innerText.split('\\n'))")
    assert [line[1:] for line in listed] == [["4", "0.95"], ["2", "0.90"], ["2", "0.80"], ["2", "0.60"]]
    x, y = plain.get("horoball.tree.pixel(13)")
    plain.drag((x - 4, y))
    assert plain.get("horoball.selected") == [4, 5, 6, 7]
    card = plain.text("#row")
    for part in ("support", "0.40", "bird", "50.0 % (2)", "What sets these rows apart", "weight"):
        assert part in card
    plain.get("document.getElementById('clear').click()")
    plain.write("#search", "leaf 2")
    plain.write("#search", ENTER)
    assert "leaf 2" in plain.text("#row")
    plain.shot(tmp_path / "tree.png")
    assert plain.errors() == []


def test_firefox_tells_what_sets_a_lasso_apart(drawing: Firefox, tmp_path: Path) -> None:
    page, values, _ = made()
    drawing.open(page.save(tmp_path / "map.html"))
    assert drawing.get("document.getElementById('failure').checkVisibility()") is False
    assert drawing.get("horoball.frame() && horoball.drawn") == N
    x, y = drawing.get("horoball.pixels([0])")[0]
    turns = np.linspace(0, 2 * np.pi, 24)
    drawing.drag(*((x + 150 * np.cos(t), y + 150 * np.sin(t)) for t in turns), shift=True)
    rows = drawing.get("horoball.selected")
    assert 20 < len(rows) < 200
    card = drawing.text("#apart")
    for part in ("What sets these rows apart", "length", "kind: ", "Typical rows"):
        assert part in card
    assert f"{values['length'][rows].mean():.4g}" in card
    drawing.shot(tmp_path / "map.png")
    assert drawing.errors() == []


def test_firefox_shows_a_map_and_a_tree_of_the_same_rows(drawing: Firefox, tmp_path: Path) -> None:
    page = view(0.8 * spiral(8), columns={"kind": KIND, "weight": np.arange(8.0)}, tree=eight())
    drawing.open(page.save(tmp_path / "both.html"))
    drawing.drag(tuple(drawing.get("horoball.pixels([5])")[0]))
    assert "leaf 5" in drawing.text("#row")
    drawing.shot(tmp_path / "both.png")
    assert drawing.errors() == []


def test_without_webgl_the_page_says_so_and_keeps_its_tree(plain: Firefox, tmp_path: Path) -> None:
    page = view(0.8 * spiral(8), columns={"kind": KIND, "weight": np.arange(8.0)}, tree=eight())
    plain.open(page.save(tmp_path / "both.html"))
    assert "needs WebGL 2" in plain.text("#failure")
    assert plain.get("document.getElementById('failure').checkVisibility()")
    plain.get("document.querySelector('#groups button').click()")
    assert "What sets these rows apart" in plain.text("#row")
    plain.shot(tmp_path / "missing.png")
    assert plain.errors() == []


def test_without_webgl_a_map_has_search_groups_and_their_cards(plain: Firefox, tmp_path: Path) -> None:
    plain.open(made(color="kind")[0].save(tmp_path / "map.html"))
    assert "needs WebGL 2" in plain.text("#failure")
    plain.get("document.querySelector('#contents').open = true")
    plain.until("document.querySelectorAll('#groups button').length > 1")
    plain.get("document.querySelector('#groups button').click()")
    assert "What sets these rows apart" in plain.text("#row")
    plain.write("#search", "red tulip number 3")
    plain.write("#search", ENTER)
    assert "red tulip number 3" in plain.text("#row")
    plain.shot(tmp_path / "missing.png")
    assert plain.errors() == []
