"""The map in the report: the viewer in a frame of a page with its own policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from horoball.report.analysis import make_report
from horoball.report.page import write_report
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from tests.viewer.conftest import Opened


def test_the_report_shows_a_map_to_move_about_in(new_page: Callable[..., Any], tmp_path: Path) -> None:
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    table = ArrayTable(x, labels=np.array(["even", "odd"] * 30))
    report = make_report(table, TrainConfig(max_epochs=1), model={"hidden": (8,)}, seeds=2)
    write_report(report, tmp_path / "report.html")
    page = new_page(0, reduced_motion="reduce")
    opened = Opened(page, tmp_path)
    page.goto((tmp_path / "report.html").as_uri())
    frame = next(each for each in page.frames if each is not page.main_frame)
    for _ in range(500):
        if frame.evaluate("Boolean(window.horoball)"):
            break
        page.wait_for_timeout(20)
    assert len(frame.evaluate("horoball.positions([...Array(60).keys()])")) == 60
    assert frame.evaluate("document.body.innerText.includes('even')")
    assert page.evaluate("typeof window.horoball") == "undefined"
    opened.leave()
    assert not opened.errors
    assert all(url.startswith(("file:", "about:", "data:", "blob:")) for url in opened.requests)
