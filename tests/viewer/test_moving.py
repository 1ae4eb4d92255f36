"""The disc is moved, in a real browser, and what is shown stays true."""

from __future__ import annotations

import numpy as np
import pytest

from horoball.viewer import View
from tests.viewer.conftest import Open, distances, middle, spiral


def test_points_are_shown_where_they_are(small: View, open_map: Open) -> None:
    opened = open_map(small, 1280, 800)
    np.testing.assert_allclose(opened.coordinates(200), spiral(200), atol=1e-7)
    opened.shot("start")


def test_dragging_keeps_hyperbolic_distances_and_holds_the_point_under_the_pointer(small: View, open_map: Open) -> None:
    opened = open_map(small)
    before = opened.coordinates(10)
    x, y = opened.pixel(30)
    opened.drag((x, y), (x + 90, y - 60), (x - 40, y + 130))
    after = opened.coordinates(10)
    assert np.abs(after - before).max() > 0.1
    np.testing.assert_allclose(distances(after), distances(before), atol=1e-4)
    np.testing.assert_allclose(opened.pixel(30), (x - 40, y + 130), atol=0.01)
    opened.shot("dragged")


def test_many_drags_leave_distances_as_they_were(small: View, open_map: Open) -> None:
    opened = open_map(small)
    before = opened.coordinates(10)
    x, y = middle(opened)
    for k in range(6):
        opened.drag((x, y), (x + 200 * np.cos(k), y + 200 * np.sin(2 * k)))
    np.testing.assert_allclose(distances(opened.coordinates(10)), distances(before), atol=1e-4)


def test_dragging_outside_the_rim_turns_the_disc(small: View, open_map: Open) -> None:
    opened = open_map(small)
    x, y = middle(opened)
    radius = (
        opened.get("Math.hypot(...horoball.pixels([199])[0].map((p, k) => p - horoball.pixels([0])[0][k]))") / 0.905
    )
    opened.drag((x + 1.07 * radius, y), (x + 0.76 * radius, y - 0.76 * radius))
    moved = opened.coordinates(10)
    np.testing.assert_allclose(np.hypot(*moved.T), np.hypot(*spiral(200)[:10].T), atol=1e-7)
    assert np.abs(moved - spiral(200)[:10]).max() > 0.05


def test_the_wheel_zooms_about_the_pointer(small: View, open_map: Open) -> None:
    opened = open_map(small)
    x, y = opened.pixel(50)
    opened.page.mouse.move(x, y)
    opened.page.mouse.wheel(0, -400)
    opened.rest()
    assert opened.get("horoball.view.zoom") > 1.3
    np.testing.assert_allclose(opened.pixel(50), (x, y), atol=0.5)
    opened.shot("zoomed")


def test_two_fingers_zoom(small: View, open_map: Open) -> None:
    opened = open_map(small)
    touch = opened.page.context.new_cdp_session(opened.page)
    for kind, gap in (("touchStart", 50), ("touchMove", 70), ("touchMove", 100), ("touchEnd", None)):
        fingers = [] if gap is None else [{"x": 300 + side * gap, "y": 300, "id": side + 1} for side in (-1, 1)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
    assert opened.get("horoball.view.zoom") == pytest.approx(2, rel=0.05)


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
    before = opened.coordinates(151)
    opened.page.mouse.dblclick(*opened.pixel(150))
    opened.until("Math.hypot(...horoball.positions([150])[0]) < 0.5")
    under_way = opened.coordinates(151)
    np.testing.assert_allclose(distances(under_way[:10]), distances(before[:10]), atol=1e-4)
    opened.until("horoball.positions([150])[0].every((x) => Math.abs(x) < 1e-9)")
    assert opened.get("horoball.view.pinned") == 150
    assert "point 150" in opened.page.inner_text("#pinned")
    opened.shot("recenterd")
    opened.page.click("#reset")
    opened.until("horoball.positions([0])[0].every((x) => Math.abs(x) < 1e-9)")
    np.testing.assert_allclose(opened.coordinates(10), spiral(200)[:10], atol=1e-6)


def test_the_keyboard_does_everything(small: View, open_map: Open) -> None:
    opened = open_map(small)
    press = opened.page.keyboard.press
    press("Tab")
    assert opened.get("document.activeElement.id") == "stage"
    press("ArrowRight")
    assert opened.coordinates(1)[0, 0] < -0.05
    press("ArrowLeft")
    press("ArrowUp")
    assert opened.coordinates(1)[0, 1] < -0.05
    press("+")
    assert opened.get("horoball.view.zoom") == pytest.approx(1.25)
    press("-")
    press("0")
    opened.rest()
    np.testing.assert_allclose(opened.coordinates(10), spiral(200)[:10], atol=1e-6)
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
    for _ in range(15):
        press("Tab")
        order.append(opened.get("document.activeElement.id || document.activeElement.className"))
    tools = ["reset", "in", "out", "lasso", "png", "svg", "link", "theme", "keys"]
    assert order == [*tools, "search", "contents-title", "color", "all", "none", "entry"]
    press("Space")
    assert opened.get("horoball.visible()") == 120
