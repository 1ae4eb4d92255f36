"""What the browser draws against what was to be drawn, pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest

from horoball.viewer import View, view
from tests.viewer.conftest import Open, Opened, distances, spiral

# What the graphics card draws against what the page computes in float64: the middle of the colored pixels around each
# point. Grid, rim and edges are gray.
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
    """Points at distance 0 and 1 from a center far out: float32 ball coordinates would have them all on the rim."""
    a = np.tanh(radius / 2)
    u = np.array([0, *(np.tanh(0.5) * np.exp(2j * np.pi * np.arange(5) / 5))])
    z = np.exp(0.7j) * (u + a) / (1 + a * u)
    opened = open_map(view(np.stack((z.real, z.imag), 1), columns={"k": ["a"] * 6}, labels=[f"p{k}" for k in range(6)]))
    opened.page.fill("#search", "p0")
    opened.page.press("#search", "Enter")
    opened.rest()
    w = opened.coordinates(6)
    np.testing.assert_allclose(w[0], 0, atol=1e-6)
    np.testing.assert_allclose(np.hypot(*w[1:].T), np.tanh(0.5), atol=5e-3 if radius > 15 else 2e-4)
    np.testing.assert_allclose(distances(w)[1, 2], distances(np.stack((u.real, u.imag), 1))[1, 2], rtol=1e-2)
    opened.page.press("#search", "Escape")
    opened.page.keyboard.press("Escape")
    opened.drawn()
    np.testing.assert_allclose(opened.page.evaluate(CENTROIDS, [0, 1, 2, 3, 4, 5]), 0, atol=0.7)


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
    opened.until("horoball.view.hover === 1")
    opened.drawn()
    r = 2 * np.arctanh(0.8)
    # Its points on the diameter are at distances r ± 0.5, and one at a right angle to it.
    rays = np.array([[np.tanh((r - 0.5) / 2), 0], [np.tanh((r + 0.5) / 2), 0]])
    u = 1j * np.tanh(0.25)
    side = (u + 0.8) / (1 + 0.8 * u)
    spots = on_window(opened, np.array([*rays, [side.real, side.imag]]))
    assert min(opened.page.evaluate(INK, ["over", spots])) > 40


def test_pictures_are_shown(open_map: Open) -> None:
    n = 60
    images = np.zeros((n, 28, 28, 3), np.uint8)
    images[..., 0] = np.arange(n)[:, None, None] * 4
    opened = open_map(view(spiral(n, 2.0), images=images, columns={"k": np.arange(n) % 3}), 800, 600)
    opened.page.mouse.move(*opened.pixel(40))
    opened.page.wait_for_selector("#tip canvas")
    corner = "document.querySelector('#tip canvas').getContext('2d').getImageData(5, 5, 1, 1).data"
    assert opened.get(f"[...{corner}]") == [160, 0, 0, 255]
    opened.shot("pictures")


def test_a_lost_graphics_context_comes_back(small: View, open_map: Open) -> None:
    opened = open_map(small)
    (before,) = opened.page.evaluate(CENTROIDS, [30])
    context = "document.getElementById('points').getContext('webgl2')"
    opened.get(f"(window.lost = {context}.getExtension('WEBGL_lose_context')).loseContext()")
    opened.page.wait_for_timeout(100)
    opened.get("window.lost.restoreContext()")
    opened.until(f"!{context}.isContextLost()")
    opened.drawn()
    np.testing.assert_allclose(opened.page.evaluate(CENTROIDS, [30]), [before], atol=0.1)
