"""Novelty: what is said of it is what was measured, whatever the depth of a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.cell_novelty import main
from horoball.cells import CellModel
from horoball.cells.novelty import Judged, batches_surprise, novelty, surprise

ROOT = Path(__file__).parents[2]
TEXTS = {
    "docs/cells.md": (ROOT / "docs" / "cells.md").read_text(encoding="utf-8"),
    "map_query": CellModel.map_query.__doc__ or "",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_novelty_promises_no_rate_that_was_not_measured(text: str) -> None:
    words = " ".join(text.split())
    assert "in twenty" not in words
    assert "1 to 7 %, 4 % on average," in words
    assert "several batches" in words


def scores(rng: np.random.Generator, level: float, spread: float, cells: int) -> np.ndarray:
    return np.exp(rng.gamma(4.0, 0.5, cells) * spread + level)


@pytest.mark.parametrize(("level", "spread"), [(0.0, 0.2), (0.4, 0.2), (-0.5, 0.1), (0.1, 0.3)])
def test_a_batch_that_surprises_more_as_a_whole_has_one_cell_in_twenty_above(level: float, spread: float) -> None:
    rng = np.random.default_rng(0)
    known = [scores(rng, -0.1, 0.2, 800), scores(rng, 0.0, 0.22, 300), scores(rng, 0.1, 0.18, 1500)]
    new = scores(rng, level, spread, 4000)
    found = novelty(new, np.zeros(4000, np.int64), known)
    for quantile in (0.5, 0.9, 0.95):
        assert (found > quantile).mean() == pytest.approx(1 - quantile, abs=0.02)
    new[:200] *= np.exp(spread * 8)  # a type that sticks out
    found = novelty(new, np.zeros(4000, np.int64), known)
    assert (found[:200] > 0.95).mean() > 0.95
    assert (found[200:] > 0.95).mean() == pytest.approx(0.05, abs=0.02)


def test_batches_of_the_reference_weigh_alike_and_new_ones_are_judged_each_by_itself() -> None:
    rng = np.random.default_rng(1)
    known = [scores(rng, 0.0, 0.2, 3000), scores(rng, 0.0, 0.2, 100)]
    both = np.concatenate([scores(rng, 0.0, 0.2, 500), scores(rng, 0.35, 0.2, 500)])
    batch = np.repeat([0, 1], 500)
    found = novelty(both, batch, known)
    assert np.array_equal(found[500:], novelty(both[500:], batch[500:], known))
    assert abs((found[500:] > 0.9).mean() - (found[:500] > 0.9).mean()) < 0.05
    together = novelty(both, np.zeros(1000, np.int64), known)
    assert np.median(together[500:]) > np.median(together[:500]) + 0.2


def test_a_batch_of_mostly_new_cells_is_warned_of() -> None:
    rng = np.random.default_rng(2)
    known = [scores(rng, 0.0, 0.2, 300), scores(rng, 0.0, 0.2, 300)]
    with pytest.warns(UserWarning, match=r"surprise 2\.\d times as much .* most of its cells are new"):
        novelty(scores(rng, 0.8, 0.2, 300), np.zeros(300, np.int64), known)


def test_a_reference_of_one_batch_promises_nothing() -> None:
    rng = np.random.default_rng(3)
    cells = Judged(rng.poisson(1.0, (120, 20)), rng.normal(size=(120, 20)), np.zeros(120, np.int64))
    with pytest.warns(UserWarning, match="fewer than two batches of 50 cells, .* no rate can be promised"):
        found = batches_surprise(cells, most=60)
    assert [len(one) for one in found] == [60]
    small = cells._replace(batch=np.arange(120) % 4)
    with pytest.warns(UserWarning, match="fewer than two batches"):
        assert [len(one) for one in batches_surprise(small, most=200)] == [120]  # none of them is large enough


def test_surprise_is_about_one_if_the_model_is_right_and_more_where_neighbors_share_an_error() -> None:
    rng = np.random.default_rng(4)
    counts = rng.poisson(1.0, (400, 30))
    counts[:40, :15] += rng.poisson(8.0, (40, 15))
    residuals = rng.normal(size=(400, 30))
    batch = np.arange(400) % 2
    plain = surprise(Judged(counts, residuals, batch))
    assert plain.mean() == pytest.approx(1.0, abs=0.2)
    residuals[:40, :15] += 1.5
    shared = surprise(Judged(counts, residuals, batch))
    assert shared[:40].mean() > 5
    assert shared[40:].mean() < 1.5
    residuals[batch == 1, 20] += 3.0  # what all cells of a batch share is the batch's
    np.testing.assert_allclose(surprise(Judged(counts, residuals, batch)), shared, rtol=1e-6)


def test_the_benchmark_of_queries_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--results", str(tmp_path / "novelty.jsonl")])
    assert len(capsys.readouterr().out.splitlines()) == 3
