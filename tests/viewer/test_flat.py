"""A map of curvature 0: a plane that is moved and zoomed, in a real browser."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.trees import Tree
from horoball.vae.train import train
from horoball.viewer import View, view, view_run
from tests.viewer.conftest import Open
from tests.viewer.test_view import unpack

N = 300
Z = np.random.default_rng(0).normal(size=(N, 2)) * (3.0, 1.0) + (100.0, -40.0)


@pytest.fixture(scope="module")
def plane() -> View:
    columns = {"side": np.where(Z[:, 0] > 100, "right", "left"), "x": Z[:, 0]}
    edges = np.stack((np.arange(1, N), np.arange(1, N) // 2), 1)
    return view(Z, c=0, columns=columns, edges=edges, scale=np.full(N, 0.3), title="A plane")


def test_places_keep_their_proportions_and_a_drag_moves_them_all_alike(plane: View, open_map: Open) -> None:
    opened = open_map(plane, 1280, 800)
    assert "flat (curvature 0)" in opened.page.inner_text("#about")
    assert "rim" not in opened.page.inner_text("#welcome")
    before = np.array(opened.get(f"horoball.pixels([...Array({N}).keys()])"))
    wide, high = np.ptp(before, axis=0)
    assert wide / high == pytest.approx(np.ptp(Z[:, 0]) / np.ptp(Z[:, 1]), rel=1e-5)
    assert before.min() > 0
    assert before[:, 0].max() < 992
    opened.drag((300, 600), (340, 630))
    after = np.array(opened.get(f"horoball.pixels([...Array({N}).keys()])"))
    np.testing.assert_allclose(after - before, np.broadcast_to((40, 30), (N, 2)), atol=1e-6)
    opened.page.mouse.move(500, 400)
    opened.page.mouse.wheel(0, -400)
    opened.until("horoball.view.zoom > 1.3")
    opened.drawn()
    opened.shot("plane")
    opened.rest()
    again = open_map(opened.page.url, 1280, 800)
    np.testing.assert_allclose(again.pixel(5), opened.pixel(5), atol=1e-6)
    opened.page.click("#reset")
    np.testing.assert_allclose(opened.get(f"horoball.pixels([...Array({N}).keys()])"), before, atol=1e-6)


def test_points_are_found_centered_selected_and_saved(plane: View, open_map: Open) -> None:
    opened = open_map(plane, 1280, 800)
    at = np.array(opened.get(f"horoball.pixels([...Array({N}).keys()])"))
    for row in np.argsort(-np.abs(at - at.mean(0)).sum(1))[:5].tolist():  # far out, where none is over another
        assert opened.page.evaluate("(p) => horoball.nearest(p)", list(at[row])) == row
    row = int(at[:, 0].argmax())
    opened.page.mouse.dblclick(*at[row])
    np.testing.assert_allclose(opened.coordinates(N)[row], opened.coordinates(N)[row])
    assert opened.get("horoball.view.pinned") == row
    np.testing.assert_allclose(opened.pixel(row), (496, 400), atol=30)
    opened.page.click("#reset")
    opened.page.keyboard.down("Shift")
    opened.drag((500, 100), (980, 100), (980, 780), (500, 780))
    opened.page.keyboard.up("Shift")
    rows = opened.get("horoball.selected")
    assert rows == np.flatnonzero(at[:, 0] > 500).tolist()
    assert "side: right" in opened.page.inner_text("#apart")
    with opened.page.expect_download() as download:
        opened.page.click("#csv")
    saved = list(csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8"))))
    np.testing.assert_allclose([[float(one["x"]), float(one["y"])] for one in saved], Z[rows], rtol=1e-6)
    with opened.page.expect_download() as download:
        opened.page.click("#svg")
    assert "clip-path=" not in download.value.path().read_text(encoding="utf-8")


def test_keys_move_the_plane(plane: View, open_map: Open) -> None:
    opened = open_map(plane)
    before = opened.pixel(0)
    opened.page.focus("#stage")
    opened.page.keyboard.press("ArrowRight")
    assert opened.pixel(0)[0] < before[0]
    assert opened.pixel(0)[1] == before[1]
    opened.page.keyboard.press("ArrowUp")
    assert opened.pixel(0)[1] > before[1]


def test_what_is_drawn_lies_where_the_points_are_said_to_be(open_map: Open) -> None:
    opened = open_map(view(np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]]), c=0), 900, 640)
    opened.drawn()
    ink = """(spots) => {
      const canvas = document.getElementById('points');
      const gl = canvas.getContext('webgl2');
      horoball.frame();
      return spots.map(([x, y]) => {
        const pixel = new Uint8Array(4);
        gl.readPixels(Math.round(x), canvas.height - Math.round(y), 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
        return Math.min(...pixel.slice(0, 3));
      });
    }"""
    spots = opened.get("horoball.pixels([0, 1, 2])")
    assert max(opened.page.evaluate(ink, spots)) < 200  # a point's color on white


def test_a_tree_lies_in_the_plane_at_the_means_of_its_rows(open_map: Open) -> None:
    z = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 8.0]])
    tree = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0])
    opened = open_map(view(z, c=0, tree=tree), 1280, 800)
    radius, angle = opened.get("horoball.tree.place(3)")
    middle = 2 * (np.array([1.0, 0.0]) - (1.0, 4.0))  # distances are twice those of coordinates, about the middle
    np.testing.assert_allclose((radius * np.cos(angle), radius * np.sin(angle)), middle, atol=1e-5)
    assert len(opened.get("horoball.tree.drawn()")) == 4


def test_contours_enclose_the_points(open_map: Open) -> None:
    z = np.random.default_rng(0).normal(size=(800, 2))
    opened = open_map(view(z, c=0), 1280, 800)
    lines = [len(level) for level in opened.get("horoball.contours()")]
    assert len(lines) >= 3
    assert min(lines) > 5


def test_a_euclidean_run_is_shown_as_a_plane() -> None:
    x = np.random.default_rng(0).normal(size=(60, 4))
    run = train(ArrayTable(x), {"d": 3, "c": 0.0, "hidden": (8,)}, TrainConfig(max_epochs=1))
    meta, _ = unpack(view_run(run, ArrayTable(x)))
    assert meta["c"] == 0
    assert "projected: PCA. The two axes keep" in meta["note"]
