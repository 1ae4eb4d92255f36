"""The widget: what is selected in the page is an attribute in Python, and the other way round."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import horoball as hb
from horoball.viewer import View, view
from tests.viewer.conftest import Opened, spiral

# What a notebook gives to a widget: a model with values that both sides set, and a place on the page.
HOST = """async ([module, values]) => {
  const heard = {};
  window.model = {
    values,
    saved: 0,
    get: (name) => values[name],
    set(name, value) { values[name] = value; (heard[`change:${name}`] || []).forEach((one) => one()); },
    save_changes() { window.model.saved++; },
    on: (event, one) => (heard[event] ||= []).push(one),
    off: (event, one) => (heard[event] = heard[event].filter((other) => other !== one)),
    heard,
  };
  const { default: widget } = await import(`data:text/javascript;base64,${module}`);
  window.close = widget.render({ model: window.model, el: document.body });
}"""


@pytest.fixture(scope="module")
def disc() -> View:
    return view(spiral(60), columns={"kind": ["a", "b", "c"] * 20}, labels=[f"point {k}" for k in range(60)])


def hosted(made: View, new_page: Callable[..., Any], folder: Path, rows: list[int]) -> tuple[Opened, Any]:
    """A page with the widget's front end in it, and the frame it made."""
    page = new_page(0, reduced_motion="reduce")
    page.set_viewport_size({"width": 900, "height": 700})
    opened = Opened(page, folder)
    host = folder / "host.html"
    host.write_text("<!doctype html><title>A notebook</title><body style='margin: 0'></body>", encoding="utf-8")
    page.goto(host.as_uri())
    module = base64.b64encode(files("horoball.viewer").joinpath("widget.js").read_bytes()).decode()
    page.evaluate(HOST, [module, {"page": made.html, "height": 640, "rows": rows}])
    frame = next(each for each in page.frames if each is not page.main_frame)
    opened.until("Boolean(window.horoball)", frame)
    return opened, frame


def test_a_lasso_in_the_page_sets_the_rows_of_the_model(
    disc: View, new_page: Callable[..., Any], tmp_path: Path
) -> None:
    opened, frame = hosted(disc, new_page, tmp_path, [])
    (x, y), (right, _) = frame.evaluate("horoball.pixels([0, 59])")
    assert right > 0
    opened.page.keyboard.down("Shift")
    opened.drag((x - 60, y - 60), (x + 60, y - 60), (x + 60, y + 60), (x - 60, y + 60))
    opened.page.keyboard.up("Shift")
    opened.until("model.saved > 0")
    rows = opened.get("model.values.rows")
    assert 0 < len(rows) < 60
    assert rows == frame.evaluate("horoball.selected")
    opened.leave()
    assert not opened.errors
    assert all(url.startswith(("file:", "about:", "data:", "blob:")) for url in opened.requests)


def test_rows_of_the_model_are_selected_in_the_page_and_not_told_back(
    disc: View, new_page: Callable[..., Any], tmp_path: Path
) -> None:
    opened, frame = hosted(disc, new_page, tmp_path, [3, 5])
    opened.until("horoball.selected.length === 2", frame)
    opened.get("model.set('rows', [7, 8, 9, 1e9, -1, 'x'])")
    opened.until("horoball.selected.join() === '7,8,9'", frame)
    assert frame.inner_text("#chosen") == "3 selected"
    opened.get("model.set('rows', [])")
    opened.until("horoball.selected.length === 0", frame)
    assert opened.get("model.saved") == 0
    frame.click("#contents-title")  # what is chosen in the page is told again
    frame.click("#groups button.entry")
    opened.until("model.values.rows.length === 20")
    opened.get("window.close()")
    assert opened.get("model.heard['change:rows'].length") == 0
    opened.leave()
    assert not opened.errors


def test_a_page_by_itself_hears_and_tells_nothing(disc: View, open_map: Callable[..., Opened]) -> None:
    opened = open_map(disc)
    opened.get("window.postMessage({ horoball: 'select', rows: [1, 2] }, '*')")
    opened.rest()
    assert opened.get("horoball.selected") == []


def test_the_selection_has_the_labels_of_the_rows() -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    frame = pd.DataFrame(np.zeros((4, 2)), index=pd.Index([10, 20, 20, 30]))
    widget = view(spiral(4), rows=frame, labels=["a", "b", "c", "d"]).widget(height=300)
    told: list[Any] = []
    widget.observe(lambda change: told.append(change["new"]), "selection")
    widget.rows = [3, 0]
    assert (widget.rows, widget.selection, widget.height) == ([0, 3], [10, 30], 300)
    widget.rows = [1]  # of two rows of one label
    assert (widget.rows, widget.selection) == ([1], [20])
    widget.selection = [20]
    assert (widget.rows, widget.selection) == ([1, 2], [20, 20])
    widget.selection = []
    assert widget.rows == []
    assert told == [[10, 30], [20], [20, 20], []]
    assert frame.loc[[10, 30]].index.tolist() == [10, 30]


@pytest.mark.parametrize("rows", [[4], [-1], [0, 9]])
def test_rows_that_are_not_there_are_refused(rows: list[int]) -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    widget = view(spiral(4), labels=list("abcd")).widget()
    with pytest.raises(ValueError, match=r"numbers of rows from 0 to 3, got (4|-1|9)\."):
        widget.rows = rows
    with pytest.raises(ValueError, match="No row has the label 'x'"):
        widget.selection = ["a", "x"]
    assert (widget.rows, widget.selection) == ([], [])


def test_rows_are_called_as_in_their_frame_or_by_their_names_or_numbers() -> None:
    z, frame = spiral(30), pd.DataFrame(spiral(30), index=[f"row {k}" for k in range(30)])
    tree = hb.tree(frame, draws=0)
    assert list(view(z).index) == list(range(30))
    assert list(view(z, labels=np.arange(30) * 2).index) == [2 * k for k in range(30)]
    assert list(view(tree).index) == list(frame.index)
    assert list(view(hb.tree(frame.reset_index(drop=True), draws=0), frame.reset_index(drop=True)).index) == list(
        range(30)
    )
    model = hb.PoincareVAE(max_epochs=1, hidden=(4,), random_state=0).fit(frame)
    assert list(model.view(frame, names=[f"n{k}" for k in range(30)]).index) == list(frame.index)


def test_without_the_package_the_message_says_what_to_install() -> None:
    # In a process of its own, where the package is hidden; the viewer itself does not need it.
    code = (
        "import sys; sys.modules['anywidget'] = None\n"
        "from horoball.viewer import view\n"
        "try:\n    view([[0.0, 0.0]]).widget()\n"
        "except ImportError as error:\n    print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == 'A widget needs anywidget. Install it with: pip install "horoball[notebook]".\n'
