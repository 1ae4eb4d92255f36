"""Contours of the density: where they run, that they move with the points, and that they hide none."""

from __future__ import annotations

import numpy as np
import pytest

from horoball.viewer import View, view
from tests.viewer.conftest import Open, Opened, spiral

# The colors of the map at the given pixels.
COLORS = """(spots) => {
  horoball.frame();
  const from = document.getElementById('points'), to = document.createElement('canvas');
  [to.width, to.height] = [from.width, from.height];
  const context = to.getContext('2d');
  context.drawImage(from, 0, 0);
  return spots.map(([x, y]) => [...context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data.slice(0, 3)]);
}"""

CENTERS = np.array([0, 0.6])


@pytest.fixture(scope="module")
def hills() -> View:
    """Two hills of 301 points, round in the geometry: rings around two centers, which are rows 0 and 301."""
    rings = [np.tanh(r / 2) * np.exp(2j * np.pi * np.arange(30) / 30) for r in np.linspace(0.04, 0.4, 10)]
    u = np.concatenate(([0], *rings))
    z = np.concatenate([(u + a) / (1 + a * u) for a in CENTERS])
    return view(np.stack((z.real, z.imag), 1), columns={"hill": np.repeat(["left", "right"], 301)})


def lines(opened: Opened) -> list[np.ndarray]:
    """Contours on the window, the outermost first: arrays of shape (segments, 2, 2)."""
    return [np.array(level).reshape(-1, 2, 2) for level in opened.get("horoball.contours()")]


def spread(opened: Opened, middle: np.ndarray, unit: float) -> list[np.ndarray]:
    """Of the two hills: hyperbolic distances of the outermost contour's ends from the center."""
    ends = (lines(opened)[0].reshape(-1, 2) - middle) / unit
    centers = (np.array([opened.pixel(0), opened.pixel(301)]) - middle) / unit
    gap = np.square(ends[:, None] - centers).sum(-1)
    rest = np.outer(1 - np.square(ends).sum(-1), 1 - np.square(centers).sum(-1))
    d = 2 * np.arcsinh(np.sqrt(gap / rest))
    return [d[d.argmin(1) == hill, hill] for hill in (0, 1)]


def test_contours_are_round_where_the_density_is_and_move_with_it(hills: View, open_map: Open) -> None:
    opened = open_map(hills, 1280, 800)
    x, y = opened.pixel(0)
    middle, unit = np.array([x, y]), (opened.pixel(301)[0] - x) / 0.6
    before = spread(opened, middle, unit)
    radius = float(np.median(before[0]))
    assert 0.3 < radius < 0.6
    for d in before:
        np.testing.assert_allclose(d, radius, rtol=0.05)
    opened.drag((x, y), (x - 0.5 * unit, y - 0.2 * unit))
    moving = lines(opened)  # those from before, moved
    opened.rest()
    for d in spread(opened, middle, unit):
        np.testing.assert_allclose(d, radius, rtol=0.05)
    assert len(moving) == len(lines(opened)) > 2


def test_contours_lie_beneath_the_points(hills: View, open_map: Open) -> None:
    opened = open_map(hills, 1280, 800)
    points = opened.get("horoball.pixels([...Array(horoball.n).keys()])")
    spots = lines(opened)[0].mean(1)
    far = np.linalg.norm(spots[:, None] - np.array(points), axis=-1).min(1) > 5  # points are seven pixels wide
    ground = [*points, *spots[far].tolist()]
    assert far.sum() > 20
    drawn = np.array(opened.page.evaluate(COLORS, ground))
    opened.page.click("#density")
    plain = np.array(opened.page.evaluate(COLORS, ground))
    assert lines(opened) == []
    changed = np.abs(drawn - plain).max(1)
    assert changed[: len(points)].max() <= 12  # points are a little transparent
    assert np.median(changed[len(points) :]) > 20


def test_hidden_points_have_no_density(hills: View, open_map: Open) -> None:
    opened = open_map(hills, 1280, 800)
    half = (opened.pixel(0)[0] + opened.pixel(301)[0]) / 2
    opened.page.click("#legend button >> nth=1")
    assert opened.get("horoball.visible()") == 301
    assert max(float(level[..., 0].max()) for level in lines(opened)) < half


@pytest.mark.parametrize(("n", "shown", "drawn"), [(10, False, False), (200, True, False), (600, True, True)])
def test_few_points_have_no_contours_at_first(n: int, shown: bool, drawn: bool, open_map: Open) -> None:
    opened = open_map(view(spiral(n)))
    assert opened.page.is_visible("#density") == shown
    assert bool(lines(opened)) == drawn
    if shown and not drawn:
        opened.page.click("#density")
        assert len(lines(opened)) > 0


def test_contours_are_in_saved_drawings(hills: View, open_map: Open) -> None:
    opened = open_map(hills, 1280, 800)
    sizes = []
    for _ in range(2):
        with opened.page.expect_download() as download:
            opened.page.click("#svg")
        sizes.append(download.value.path().read_text(encoding="utf-8").count("<path"))
        opened.page.click("#density")
    assert sizes[0] - sizes[1] == len(lines(opened)) > 0
