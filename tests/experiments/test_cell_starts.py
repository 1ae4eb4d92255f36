"""Starts of the decoder on tables of cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from experiments import cell_starts, runs


@pytest.fixture(autouse=True)
def _cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of 40 cells; its last gene is the same in all of them."""
    x = np.random.default_rng(0).normal(size=(40, 5)) * [1, 2, 3, 4, 0]
    (tmp_path / "cells").mkdir()
    lines = ["a,b,c,d,e,type", *(",".join(map(str, row)) + ",stem" for row in x)]
    (tmp_path / "cells" / "Olsson.csv").write_text("\n".join(lines))
    monkeypatch.setenv("HOROBALL_DATA", str(tmp_path))


def test_a_seed_draws_a_split_of_standardized_cells() -> None:
    train, test = cell_starts.split("Olsson", 0)
    assert (train.shape, test.shape) == ((28, 5), (12, 5))
    torch.testing.assert_close(train.std(0, correction=0), torch.tensor([1.0, 1, 1, 1, 0]))
    assert not torch.equal(train, cell_starts.split("Olsson", 1)[0])


def test_a_start_changes_the_result_and_a_repetition_does_not() -> None:
    linear, spread, again = (
        cell_starts.run("Olsson", 1.0, start, 0, samples=10)["nll"] for start in ("linear", "spread", "spread")
    )
    assert linear != spread == again


def test_the_table_compares_starts_by_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    values = {("linear", 0): 5.0, ("linear", 1): 6.0, ("spread", 1): 5.5}
    runs._add(
        cell_starts.STUDY,
        [
            {"setting": {"table": "Olsson", "c": 1.0, "start": start, "seed": seed}, "result": {"nll": nll}}
            for (start, seed), nll in values.items()
        ],
    )
    assert "| Olsson | 5.50 ± 6.35 (2) | −0.50 (1) | not run | not run |" in cell_starts.table()
