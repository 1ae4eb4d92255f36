"""Every control of the page, used in a real browser."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from horoball.viewer import View, view
from tests.viewer.conftest import Open, Opened, spiral


def distances(w: np.ndarray) -> np.ndarray:
    """Hyperbolic distances between all pairs of ball coordinates, c = 1."""
    gap = np.square(w[:, None] - w[None]).sum(-1)
    rest = 1 - np.square(w).sum(-1)
    return 2 * np.arcsinh(np.sqrt(gap / np.outer(rest, rest)))


def saved(opened: Opened, button: str) -> Path:
    with opened.page.expect_download() as download:
        opened.page.click(button)
    path = opened.folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def middle(opened: Opened) -> tuple[float, float]:
    return opened.pixel(0)  # the origin, before anything was moved


def test_points_are_shown_where_they_are(small: View, open_map: Open) -> None:
    opened = open_map(small, 1280, 800)
    np.testing.assert_allclose(opened.places(200), spiral(200), atol=1e-7)
    opened.shot("start")


def test_dragging_keeps_hyperbolic_distances_and_holds_the_point_under_the_pointer(small: View, open_map: Open) -> None:
    opened = open_map(small)
    before = opened.places(10)
    x, y = opened.pixel(30)
    opened.drag((x, y), (x + 90, y - 60), (x - 40, y + 130))
    after = opened.places(10)
    assert np.abs(after - before).max() > 0.1
    np.testing.assert_allclose(distances(after), distances(before), atol=1e-4)
    np.testing.assert_allclose(opened.pixel(30), (x - 40, y + 130), atol=0.01)
    opened.shot("dragged")


def test_many_drags_leave_distances_as_they_were(small: View, open_map: Open) -> None:
    opened = open_map(small)
    before = opened.places(10)
    x, y = middle(opened)
    for k in range(6):
        opened.drag((x, y), (x + 200 * np.cos(k), y + 200 * np.sin(2 * k)))
    np.testing.assert_allclose(distances(opened.places(10)), distances(before), atol=1e-4)


def test_dragging_outside_the_rim_turns_the_disc(small: View, open_map: Open) -> None:
    opened = open_map(small)
    x, y = middle(opened)
    radius = (
        opened.get("Math.hypot(...horoball.pixels([199])[0].map((p, k) => p - horoball.pixels([0])[0][k]))") / 0.905
    )
    opened.drag((x + 1.07 * radius, y), (x + 0.76 * radius, y - 0.76 * radius))
    moved = opened.places(10)
    np.testing.assert_allclose(np.hypot(*moved.T), np.hypot(*spiral(200)[:10].T), atol=1e-7)
    assert np.abs(moved - spiral(200)[:10]).max() > 0.05


# What the graphics card draws against what the page computes in float64: the middle of the coloured pixels around each
# point. Grid, rim and edges are grey.
CENTROIDS = """(ids) => {
  horoball.frame();
  const from = document.getElementById('points'), to = document.createElement('canvas');
  [to.width, to.height] = [from.width, from.height];
  const context = to.getContext('2d');
  context.drawImage(from, 0, 0);
  return horoball.pixels(ids).map(([x, y]) => {
    const [left, top, side] = [Math.round(x) - 9, Math.round(y) - 9, 19];
    const { data } = context.getImageData(left, top, side, side);
    let [sum, sx, sy] = [0, 0, 0];
    for (let k = 0; k < side * side; k++) {
      const [r, g, b] = data.slice(4 * k, 4 * k + 3);
      const weight = Math.max(0, Math.max(r, g, b) - Math.min(r, g, b) - 40);
      sum += weight, sx += weight * (left + k % side + 0.5), sy += weight * (top + Math.floor(k / side) + 0.5);
    }
    return [sx / sum - x, sy / sum - y];
  });
}"""


def test_the_shader_draws_points_where_the_page_says(open_map: Open) -> None:
    z = 0.8 * np.array([[0, 0], [1, 0], [0, 1], [-0.5, 0.5], [-0.3, -0.9], [0.7, -0.6]])
    opened = open_map(view(z, columns={"k": ["a"] * 6}))
    np.testing.assert_allclose(opened.page.evaluate(CENTROIDS, [0, 1, 2, 3, 4, 5]), 0, atol=0.6)
    x, y = opened.pixel(0)
    opened.drag((x, y), (x + 120, y - 70))
    opened.rest()
    np.testing.assert_allclose(opened.page.evaluate(CENTROIDS, [0, 1, 2, 3, 4, 5]), 0, atol=0.6)


@pytest.mark.parametrize("radius", [6.0, 12.0, 16.0])
def test_points_near_the_rim_are_right_when_the_disc_is_moved_there(radius: float, open_map: Open) -> None:
    """Points at distance 0 and 1 from a centre far out: float32 ball coordinates would have them all on the rim."""
    a = np.tanh(radius / 2)
    u = np.array([0, *(np.tanh(0.5) * np.exp(2j * np.pi * np.arange(5) / 5))])
    z = np.exp(0.7j) * (u + a) / (1 + a * u)
    opened = open_map(view(np.stack((z.real, z.imag), 1), columns={"k": ["a"] * 6}, labels=[f"p{k}" for k in range(6)]))
    opened.page.fill("#search", "p0")
    opened.page.press("#search", "Enter")
    opened.rest()
    w = opened.places(6)
    np.testing.assert_allclose(w[0], 0, atol=1e-6)
    np.testing.assert_allclose(np.hypot(*w[1:].T), np.tanh(0.5), atol=5e-3 if radius > 15 else 2e-4)
    np.testing.assert_allclose(distances(w)[1, 2], distances(np.stack((u.real, u.imag), 1))[1, 2], rtol=1e-2)
    opened.page.press("#search", "Escape")
    opened.page.keyboard.press("Escape")
    opened.page.wait_for_timeout(100)
    np.testing.assert_allclose(opened.page.evaluate(CENTROIDS, [0, 1, 2, 3, 4, 5]), 0, atol=0.7)


def test_the_wheel_zooms_about_the_pointer(small: View, open_map: Open) -> None:
    opened = open_map(small)
    x, y = opened.pixel(50)
    opened.page.mouse.move(x, y)
    opened.page.mouse.wheel(0, -400)
    opened.rest()
    assert opened.get("horoball.view.zoom") > 1.3
    np.testing.assert_allclose(opened.pixel(50), (x, y), atol=0.5)
    opened.shot("zoomed")


def test_hovering_shows_the_row_and_the_posterior(small: View, open_map: Open) -> None:
    opened = open_map(small)
    opened.page.mouse.move(*opened.pixel(70))
    opened.page.wait_for_selector("#tip:not([hidden])")
    text = opened.page.inner_text("#tip")
    assert opened.get("horoball.view.hover") == 70
    assert "point 70" in text
    assert "stem" in text
    assert "remark 70" in text
    assert "posterior scale\n0.2055" in text
    opened.shot("hover")
    opened.page.mouse.move(5, 790)
    opened.page.wait_for_selector("#tip", state="hidden")


def test_the_nearest_point_is_found_after_a_move(small: View, open_map: Open) -> None:
    """The tree against a search through all points, at random places of a moved and zoomed disc."""
    opened = open_map(small)
    x, y = middle(opened)
    opened.drag((x, y), (x + 150, y + 40))
    opened.page.mouse.wheel(0, -200)
    opened.rest()
    spots = np.random.default_rng(0).uniform((60, 80), (600, 600), (200, 2))
    found = opened.page.evaluate("(spots) => spots.map((p) => horoball.nearest(p, 400))", spots.tolist())
    pixels = np.array(opened.get("horoball.pixels([...Array(200).keys()])"))
    gaps = np.hypot(*(pixels[None] - spots[:, None]).transpose(2, 0, 1))
    reached = [(i, row) for i, row in enumerate(found) if row >= 0]
    assert len(reached) > 150
    for i, row in reached:
        assert gaps[i, row] <= gaps[i].min() + 1e-6


def test_a_double_click_brings_a_point_to_the_middle(small: View, open_map: Open) -> None:
    opened = open_map(small, reduced_motion="no-preference")
    before = opened.places(151)
    opened.page.mouse.dblclick(*opened.pixel(150))
    opened.until("Math.hypot(...horoball.positions([150])[0]) < 0.5")
    under_way = opened.places(151)
    np.testing.assert_allclose(distances(under_way[:10]), distances(before[:10]), atol=1e-4)
    opened.until("horoball.positions([150])[0].every((x) => Math.abs(x) < 1e-9)")
    assert opened.get("horoball.view.pinned") == 150
    assert "point 150" in opened.page.inner_text("#pinned")
    opened.shot("recentred")
    opened.page.click("#reset")
    opened.until("horoball.positions([0])[0].every((x) => Math.abs(x) < 1e-9)")
    np.testing.assert_allclose(opened.places(10), spiral(200)[:10], atol=1e-6)


def test_the_legend_switches_categories(small: View, open_map: Open) -> None:
    opened = open_map(small)
    entry = opened.page.locator("#legend button", has_text="leaf")
    assert entry.get_attribute("aria-pressed") == "true"
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    assert opened.get("horoball.visible()") == 120
    opened.page.mouse.move(*opened.pixel(190))
    opened.page.wait_for_timeout(100)
    assert opened.get("horoball.view.hover") == -1
    opened.shot("legend")
    opened.page.click("#none")
    assert opened.get("horoball.visible()") == 0
    opened.page.click("#all")
    assert opened.get("horoball.visible()") == 200


def test_colouring_by_numbers_shows_a_bar(small: View, open_map: Open) -> None:
    opened = open_map(small)
    names = opened.page.locator("#colour option").all_inner_texts()
    assert names == ["kind", "height", "remark", "distance from origin", "posterior scale"]
    opened.page.select_option("#colour", label="height")
    assert opened.page.locator("#legend canvas").get_attribute("aria-label") == "height, from −1 to 1"
    opened.page.wait_for_timeout(200)
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
    np.testing.assert_allclose(opened.places(121)[120], 0, atol=1e-9)


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
    assert texts == ["Two hundred points", "kind", "leaf", "root", "stem"]


def test_a_link_restores_the_view(small: View, open_map: Open) -> None:
    opened = open_map(small)
    opened.page.select_option("#colour", label="kind")
    opened.page.locator("#legend button", has_text="root").click()
    x, y = opened.pixel(100)
    opened.drag((x, y), (x + 60, y + 70))
    opened.page.mouse.wheel(0, -300)
    opened.page.click("#theme")
    opened.page.mouse.click(*opened.pixel(110))
    opened.rest()
    opened.page.click("#link")
    again = open_map(opened.page.url)
    np.testing.assert_allclose(again.places(20), opened.places(20), atol=1e-9)
    for name in ("zoom", "colour", "pinned", "theme"):
        assert again.get(f"horoball.view.{name}") == pytest.approx(opened.get(f"horoball.view.{name}"))
    assert again.get("horoball.visible()") == 140
    again.shot("link")


@pytest.mark.parametrize("hash_", ["view=NaN,1,2,3,4,5", "view=1e9,0,0,1e9,0,0&colour=99&point=-5", "hidden=a,b&%%%"])
def test_a_broken_link_does_no_harm(hash_: str, small: View, open_map: Open, tmp_path: Path) -> None:
    opened = open_map(small.save(tmp_path / "m.html").as_uri() + "#" + hash_)
    assert np.isfinite(opened.places(20)).all()


def test_dark_and_light_follow_the_system_and_the_button(small: View, open_map: Open) -> None:
    opened = open_map(small, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert opened.get("horoball.view.theme") == "dark"
    assert opened.get(ground) == "rgb(14, 17, 22)"
    opened.shot("dark")
    opened.page.click("#theme")
    assert opened.get(ground) == "rgb(245, 246, 248)"
    opened.shot("light")


def test_the_keyboard_does_everything(small: View, open_map: Open) -> None:
    opened = open_map(small)
    press = opened.page.keyboard.press
    press("Tab")
    assert opened.get("document.activeElement.id") == "stage"
    press("ArrowRight")
    assert opened.places(1)[0, 0] < -0.05
    press("ArrowLeft")
    press("ArrowUp")
    assert opened.places(1)[0, 1] < -0.05
    press("+")
    assert opened.get("horoball.view.zoom") == pytest.approx(1.25)
    press("-")
    press("0")
    opened.rest()
    np.testing.assert_allclose(opened.places(10), spiral(200)[:10], atol=1e-6)
    press("Enter")
    assert opened.get("horoball.view.pinned") == 0
    assert opened.page.inner_text("#status").startswith("point 0: kind root")
    press("/")
    assert opened.get("document.activeElement.id") == "search"
    press("Escape")
    assert opened.get("document.activeElement.id") == "stage"
    press("?")
    assert opened.page.is_visible("#help")
    opened.shot("help")
    press("Escape")
    press("Escape")
    assert opened.get("horoball.view.pinned") == -1
    order = []
    for _ in range(14):
        press("Tab")
        order.append(opened.get("document.activeElement.id || document.activeElement.className"))
    tools = ["reset", "in", "out", "lasso", "png", "svg", "link", "theme", "keys"]
    assert order == [*tools, "search", "colour", "all", "none", "entry"]
    press("Space")
    assert opened.get("horoball.visible()") == 120


def test_everything_has_a_name_for_screen_readers(small: View, open_map: Open) -> None:
    opened = open_map(small)
    nameless = """[...document.querySelectorAll('button, input, select, main, aside, dialog')].filter((e) =>
        !['aria-label', 'aria-labelledby'].some((name) => e.getAttribute(name)) && !e.textContent.trim() &&
        !e.labels?.length)
        .map((e) => e.outerHTML)"""
    assert opened.get(nameless) == []
    assert opened.get("document.getElementById('stage').getAttribute('aria-label')").startswith("Map of 200 points")


def test_pictures_are_shown(open_map: Open) -> None:
    n = 60
    images = np.zeros((n, 28, 28, 3), np.uint8)
    images[..., 0] = np.arange(n)[:, None, None] * 4
    opened = open_map(view(spiral(n, 2.0), images=images, columns={"k": np.arange(n) % 3}), 800, 600)
    opened.page.wait_for_timeout(200)
    opened.page.mouse.move(*opened.pixel(40))
    opened.page.wait_for_selector("#tip canvas")
    corner = "document.querySelector('#tip canvas').getContext('2d').getImageData(5, 5, 1, 1).data"
    assert opened.get(f"[...{corner}]") == [160, 0, 0, 255]
    opened.shot("pictures")


def test_a_notebook_shows_the_map_in_a_frame(small: View, browser: object, tmp_path: Path, open_map: Open) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><script>window.horoball = 1</script>{small._repr_html_()}")
    opened = open_map(path.as_uri())
    frame = opened.page.frames[1]
    opened.page.wait_for_timeout(500)
    assert frame.evaluate("horoball.n") == 200
    opened.shot("notebook")


# How much the nine pixels around a place differ: 0 where nothing is drawn.
INK = """([id, spots]) => {
  horoball.frame();
  const from = document.getElementById(id), to = document.createElement('canvas');
  [to.width, to.height] = [from.width, from.height];
  const context = to.getContext('2d');
  context.drawImage(from, 0, 0);
  return spots.map(([x, y]) => {
    const { data } = context.getImageData(Math.floor(x) - 1, Math.floor(y) - 1, 3, 3);
    const levels = [...Array(9).keys()].map((k) => data[4 * k] + data[4 * k + 3]);
    return Math.max(...levels) - Math.min(...levels);
  });
}"""


def on_window(opened: Opened, w: np.ndarray) -> list[list[float]]:
    """Pixels of points of the disc, before it was moved: the first point is the origin, the second at (0.8, 0)."""
    (x, y), (right, _) = opened.pixel(0), opened.pixel(1)
    return [[x + (right - x) / 0.8 * p[0], y - (right - x) / 0.8 * p[1]] for p in w]


def test_edges_are_geodesics(open_map: Open) -> None:
    """The geodesic from (0.8, 0) to (0, 0.8) is an arc of the circle around (m, m), at right angles to the rim."""
    opened = open_map(view(np.array([[0, 0], [0.8, 0], [0, 0.8]]), edges=[[1, 2]]))
    m = (1 + 0.8**2) / (2 * 0.8)
    turns = np.linspace(np.arctan2(-m, 0.8 - m), np.arctan2(0.8 - m, -m), 11)[2:-2]  # as seen from (m, m)
    arc = m + np.sqrt(2 * m * m - 1) * np.stack((np.cos(turns), np.sin(turns)), 1)
    assert min(opened.page.evaluate(INK, ["points", on_window(opened, arc)])) > 20
    chord = np.array([[0.8 - s, s] for s in (0.3, 0.38, 0.5)])
    assert max(opened.page.evaluate(INK, ["points", on_window(opened, chord)])) < 20


def test_the_posterior_is_a_hyperbolic_circle(open_map: Open) -> None:
    opened = open_map(view(np.array([[0, 0], [0.8, 0]]), scale=[0.5, 0.5]), 1280, 800)
    opened.page.mouse.move(*opened.pixel(1))
    opened.page.wait_for_timeout(150)
    r = 2 * np.arctanh(0.8)
    # Its points on the diameter are at distances r ± 0.5, and one at a right angle to it.
    rays = np.array([[np.tanh((r - 0.5) / 2), 0], [np.tanh((r + 0.5) / 2), 0]])
    u = 1j * np.tanh(0.25)
    side = (u + 0.8) / (1 + 0.8 * u)
    spots = on_window(opened, np.array([*rays, [side.real, side.imag]]))
    assert min(opened.page.evaluate(INK, ["over", spots])) > 40


def test_two_fingers_zoom(small: View, open_map: Open) -> None:
    opened = open_map(small)
    touch = opened.page.context.new_cdp_session(opened.page)
    for kind, gap in (("touchStart", 50), ("touchMove", 70), ("touchMove", 100), ("touchEnd", None)):
        fingers = [] if gap is None else [{"x": 300 + side * gap, "y": 300, "id": side + 1} for side in (-1, 1)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
    assert opened.get("horoball.view.zoom") == pytest.approx(2, rel=0.05)


def test_a_lost_graphics_context_comes_back(small: View, open_map: Open) -> None:
    opened = open_map(small)
    (before,) = opened.page.evaluate(CENTROIDS, [30])
    context = "document.getElementById('points').getContext('webgl2')"
    opened.get(f"(window.lost = {context}.getExtension('WEBGL_lose_context')).loseContext()")
    opened.page.wait_for_timeout(100)
    opened.get("window.lost.restoreContext()")
    opened.until(f"!{context}.isContextLost()")
    opened.page.wait_for_timeout(100)
    np.testing.assert_allclose(opened.page.evaluate(CENTROIDS, [30]), [before], atol=0.1)
