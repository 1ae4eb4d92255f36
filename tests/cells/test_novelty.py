"""What is said of novelty is what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from horoball.cells import CellModel
from horoball.cells.query import rank_among

ROOT = Path(__file__).parents[2]
TEXTS = {
    "docs/cells.md": (ROOT / "docs" / "cells.md").read_text(encoding="utf-8"),
    "map_query": CellModel.map_query.__doc__ or "",
    "rank_among": rank_among.__doc__ or "",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_novelty_promises_no_rate_that_was_not_measured(text: str) -> None:
    words = " ".join(text.split())
    assert "in twenty" not in words
    assert "6 to 13 %" in words
