"""The examples run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tests.late import late

branching, cells, digits = late("examples.branching"), late("examples.cells"), late("examples.digits")
graph, tree = late("examples.graph"), late("examples.tree")


def test_the_picture_of_the_readme(tmp_path: Path) -> None:
    branching.main(str(tmp_path / "branching.png"), max_epochs=2)
    assert (tmp_path / "branching.png").stat().st_size > 10_000


def test_the_picture_of_the_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree.main(str(tmp_path / "tree.png"), max_epochs=2, draws=2)
    assert (tmp_path / "tree.png").stat().st_size > 10_000
    assert "Tree of 31 leaves and 155 rows" in capsys.readouterr().out


def test_the_page_of_digits(tmp_path: Path) -> None:
    digits.main(str(tmp_path / "digits.html"), max_epochs=1)
    assert "handwritten" in (tmp_path / "digits.html").read_text(encoding="utf-8")


@pytest.mark.skipif(
    not (Path(os.environ.get("HOROBALL_DATA", "")) / "graphs").is_dir(), reason="HOROBALL_DATA has no folder of graphs"
)
def test_the_picture_of_the_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph.main(str(tmp_path / "csphd.png"), max_epochs=2)
    assert (tmp_path / "csphd.png").stat().st_size > 10_000
    assert "mean rank" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")  # scanpy's, of its own data
def test_the_walk_through_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "DATASETS", {"krumsiek11": cells.krumsiek, "pbmc68k_reduced": cells.blood})
    threads = torch.get_num_threads()
    cells.main(str(tmp_path), max_epochs=1)
    torch.set_num_threads(threads)  # numba, in scanpy, sets them for the whole process
    told = capsys.readouterr().out
    for name in ("krumsiek11", "pbmc68k_reduced"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        assert name in told
