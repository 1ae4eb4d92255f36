"""In a notebook, progress is one line that is renewed in place, with and without widgets."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import horoball as hb
from horoball.training import progress
from horoball.training.progress import Cell


class Notebook:
    """What IPython does with what is displayed: a handle renews its own output."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, str]] = []
        self.updates = 0

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        self.outputs.append(bundle)
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.outputs[-1] = bundle
        self.updates += 1


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    shown, module, package = Notebook(), ModuleType("IPython.display"), ModuleType("IPython")
    module.display = shown.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    return shown


def test_a_notebook_without_widgets_has_one_line_and_no_warning(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Training ended")
        model = hb.PoincareVAE(max_epochs=4, hidden=(8,), random_state=0, verbose=1)
        model.fit(np.random.default_rng(0).normal(size=(80, 4)))
    assert len(notebook.outputs) == 1
    said = notebook.outputs[0]["text/plain"]
    assert said.startswith("epoch 4 of 4  loss ")
    assert f"{model.history_[-1]['loss']:.4g}" in said
    assert said.endswith("spent")
    assert len(capsys.readouterr().out) < 200


def test_a_thousand_steps_renew_the_line_a_few_times(notebook: Notebook) -> None:
    cell = Cell()
    cell.start(10, 0)
    for epoch in range(10):
        for step in range(100):
            cell.step(step + 1, 100, [5.0, 4.0, 1.0], 10, 10)
        cell.epoch({"epoch": epoch + 1.0, "loss": 0.5, "kl": 0.1})
    cell.stop()
    assert len(notebook.outputs) == 1
    assert notebook.updates < 5
    assert notebook.outputs[0]["text/html"].startswith('<progress value="10.000" max="10">')


def test_every_step_says_how_long_is_left(notebook: Notebook) -> None:
    cell = Cell(every=0.0)
    cell.start(2, 0)
    cell.step(1, 2, [5.0, 4.0, 1.0], 10, 10)
    assert "loss 0.5  kl 0.1" in notebook.outputs[0]["text/plain"]
    assert "left" in notebook.outputs[0]["text/plain"]


def test_a_terminal_has_its_bar() -> None:
    assert isinstance(progress.shown(Console(force_terminal=True, force_jupyter=False)), progress.Bar)
    assert isinstance(progress.shown(Console(force_jupyter=True)), Cell)
