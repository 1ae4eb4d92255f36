"""The examples run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples import branching, graph


def test_the_picture_of_the_readme(tmp_path: Path) -> None:
    branching.main(str(tmp_path / "branching.png"), max_epochs=2)
    assert (tmp_path / "branching.png").stat().st_size > 10_000


@pytest.mark.skipif(
    not (Path(os.environ.get("HOROBALL_DATA", "")) / "graphs").is_dir(), reason="HOROBALL_DATA has no folder of graphs"
)
def test_the_picture_of_the_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph.main(str(tmp_path / "csphd.png"), max_epochs=2)
    assert (tmp_path / "csphd.png").stat().st_size > 10_000
    assert "mean rank" in capsys.readouterr().out
