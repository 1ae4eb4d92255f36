"""The examples run."""

from __future__ import annotations

from pathlib import Path

from examples import branching


def test_the_picture_of_the_readme(tmp_path: Path) -> None:
    branching.main(str(tmp_path / "branching.png"), max_epochs=2)
    assert (tmp_path / "branching.png").stat().st_size > 10_000
