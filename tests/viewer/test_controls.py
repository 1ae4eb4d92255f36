"""Every control around the disc, used in a real browser."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from horoball.viewer import View
from tests.viewer.conftest import Open, Opened, middle, spiral


def saved(opened: Opened, button: str) -> Path:
    with opened.page.expect_download() as download:
        opened.page.click(button)
    path = opened.folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_the_legend_switches_categories(small: View, open_map: Open) -> None:
    opened = open_map(small)
    entry = opened.page.locator("#legend button", has_text="leaf")
    assert entry.get_attribute("aria-pressed") == "true"
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    assert opened.get("horoball.visible()") == 120
    opened.page.mouse.move(*opened.pixel(190))
    opened.drawn()
    assert opened.get("horoball.view.hover") == -1
    opened.shot("legend")
    opened.page.click("#none")
    assert opened.get("horoball.visible()") == 0
    opened.page.click("#all")
    assert opened.get("horoball.visible()") == 200


def test_coloring_by_numbers_shows_a_bar(small: View, open_map: Open) -> None:
    opened = open_map(small)
    names = opened.page.locator("#color option").all_inner_texts()
    assert names == ["kind", "height", "remark", "distance from origin", "posterior scale"]
    opened.page.select_option("#color", label="height")
    assert opened.page.locator("#legend canvas").get_attribute("aria-label") == "height, from −1 to 1"
    opened.drawn()
    opened.shot("numbers")


def test_search_finds_names(small: View, open_map: Open) -> None:
    opened = open_map(small)
    opened.page.keyboard.press("/")
    opened.page.keyboard.type("point 12")
    opened.until("horoball.view.found === 11")  # 12, 120 … 129
    assert opened.page.locator("#results li").first.inner_text() == "point 12"
    opened.shot("search")
    opened.page.keyboard.press("ArrowDown")
    assert opened.page.get_attribute("#search", "aria-activedescendant") == "result-1"
    opened.page.keyboard.press("Enter")
    opened.rest()
    assert opened.get("horoball.view.pinned") == 120
    np.testing.assert_allclose(opened.coordinates(121)[120], 0, atol=1e-9)


def test_a_lasso_selects_points_and_saves_them(small: View, open_map: Open) -> None:
    opened = open_map(small)
    x, y = middle(opened)
    opened.page.click("#lasso")
    opened.drag((x - 5, y - 90), (x + 110, y - 90), (x + 110, y + 90), (x - 5, y + 90))
    pixels = np.array(opened.get("horoball.pixels([...Array(200).keys()])"))
    expected = [k for k, (px, py) in enumerate(pixels) if x - 5 < px < x + 110 and y - 90 < py < y + 90]
    assert opened.get("horoball.selected") == expected
    assert f"{len(expected)} selected" in opened.page.inner_text("#selection")
    opened.shot("lasso")
    rows = list(csv.DictReader(io.StringIO(saved(opened, "#csv").read_text(encoding="utf-8"))))
    assert [int(row["row"]) for row in rows] == expected
    assert rows[1]["name"] == f"point {expected[1]}"
    assert rows[0]["kind"] == "root"
    shown = np.array([[float(row["x"]), float(row["y"])] for row in rows])
    np.testing.assert_allclose(shown, spiral(200)[expected], atol=1e-7)
    np.testing.assert_allclose(float(rows[1]["posterior scale"]), np.linspace(0.1, 0.4, 200)[expected[1]], rtol=1e-4)
    opened.page.click("#clear")
    assert opened.get("horoball.selected") == []


def test_the_map_is_saved_as_png(small: View, open_map: Open) -> None:
    path = saved(open_map(small), "#png")
    data = path.read_bytes()
    assert path.name == "Two-hundred-points.png"
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == 2 * (900 - 232 + 200)
    assert len(data) > 50_000


def test_the_map_is_saved_as_svg(small: View, open_map: Open) -> None:
    root = ET.fromstring(saved(open_map(small), "#svg").read_text(encoding="utf-8"))  # noqa: S314
    space = "{http://www.w3.org/2000/svg}"
    paths = [path.get("d") or "" for path in root.iter(f"{space}path")]
    assert sum(path.count("h0") for path in paths) == 200
    assert any(path.count("A") + path.count("L") == 199 for path in paths)  # the edges
    texts = [text.text for text in root.iter(f"{space}text")]
    assert sorted(set(texts[:-5])) == ["leaf", "root", "stem"]  # the names on the map
    assert texts[-5:] == ["Two hundred points", "kind", "leaf", "root", "stem"]


def test_a_link_restores_the_view(small: View, open_map: Open) -> None:
    opened = open_map(small)
    opened.page.select_option("#color", label="kind")
    opened.page.locator("#legend button", has_text="root").click()
    x, y = opened.pixel(100)
    opened.drag((x, y), (x + 60, y + 70))
    opened.page.mouse.wheel(0, -300)
    opened.page.click("#theme")
    opened.page.mouse.click(*opened.pixel(110))
    opened.rest()
    opened.page.click("#link")
    again = open_map(opened.page.url)
    np.testing.assert_allclose(again.coordinates(20), opened.coordinates(20), atol=1e-9)
    for name in ("zoom", "color", "pinned", "theme"):
        assert again.get(f"horoball.view.{name}") == pytest.approx(opened.get(f"horoball.view.{name}"))
    assert again.get("horoball.visible()") == 140
    again.shot("link")


@pytest.mark.parametrize("hash_", ["view=NaN,1,2,3,4,5", "view=1e9,0,0,1e9,0,0&color=99&point=-5", "hidden=a,b&%%%"])
def test_a_broken_link_does_no_harm(hash_: str, small: View, open_map: Open, tmp_path: Path) -> None:
    opened = open_map(small.save(tmp_path / "m.html").as_uri() + "#" + hash_)
    assert np.isfinite(opened.coordinates(20)).all()


def test_dark_and_light_follow_the_system_and_the_button(small: View, open_map: Open) -> None:
    opened = open_map(small, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert opened.get("horoball.view.theme") == "dark"
    assert opened.get(ground) == "rgb(14, 17, 22)"
    opened.shot("dark")
    opened.page.click("#theme")
    assert opened.get(ground) == "rgb(245, 246, 248)"
    opened.shot("light")


def test_everything_has_a_name_for_screen_readers(small: View, open_map: Open) -> None:
    opened = open_map(small)
    nameless = """[...document.querySelectorAll('button, input, select, main, aside, dialog')].filter((e) =>
        !['aria-label', 'aria-labelledby'].some((name) => e.getAttribute(name)) && !e.textContent.trim() &&
        !e.labels?.length)
        .map((e) => e.outerHTML)"""
    assert opened.get(nameless) == []
    assert opened.get("document.getElementById('stage').getAttribute('aria-label')").startswith("Map of 200 points")


def test_a_notebook_shows_the_map_in_a_frame(small: View, browser: object, tmp_path: Path, open_map: Open) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><script>window.horoball = 1</script>{small._repr_html_()}")
    opened = open_map(path.as_uri())
    frame = opened.page.frames[1]
    opened.until("Boolean(window.horoball)", frame)
    assert frame.evaluate("horoball.n") == 200
    opened.shot("notebook")
