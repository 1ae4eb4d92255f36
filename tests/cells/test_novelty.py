"""Novelty: what is said of it is what was measured, whatever the depth of a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.cell_novelty import main
from horoball.cells import CellModel
from horoball.cells.novelty import Judged, Scores, judge, judge_reference, novelty

ROOT = Path(__file__).parents[2]
TEXTS = {
    "docs/cells.md": (ROOT / "docs" / "cells.md").read_text(encoding="utf-8"),
    "map_query": CellModel.map_query.__doc__ or "",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_novelty_promises_no_rate_that_was_not_measured(text: str) -> None:
    words = " ".join(text.split())
    assert "in twenty" not in words
    assert "0 to 15 %, 5 % on average," in words
    assert "several batches" in words


def scores(rng: np.random.Generator, level: float, spread: float, cells: int) -> Scores:
    one = np.exp(rng.gamma(4.0, 0.5, cells) * spread + level)
    return Scores(one, one)


@pytest.mark.parametrize(("level", "spread"), [(0.0, 0.2), (0.4, 0.2), (-0.5, 0.1), (0.1, 0.3)])
def test_a_batch_that_surprises_more_as_a_whole_has_one_cell_in_twenty_above(level: float, spread: float) -> None:
    rng = np.random.default_rng(0)
    known = [scores(rng, -0.1, 0.2, 800), scores(rng, 0.0, 0.22, 300), scores(rng, 0.1, 0.18, 1500)]
    new = scores(rng, level, spread, 4000)
    found = novelty(new, known)
    for quantile in (0.5, 0.9, 0.95):
        assert (found > quantile).mean() == pytest.approx(1 - quantile, abs=0.02)
    new.departure[:200] *= np.exp(spread * 8)  # a type that sticks out
    found = novelty(new, known)
    assert (found[:200] > 0.95).mean() > 0.95
    assert (found[200:] > 0.95).mean() == pytest.approx(0.05, abs=0.02)


def test_batches_of_the_reference_weigh_alike() -> None:
    rng = np.random.default_rng(1)
    large, small = (Scores(one, one) for one in (rng.uniform(1, 2, 3000), rng.uniform(1, 2, 100)))
    small.departure[:40] = 1e6  # in a batch of its own these are 0.4 of the cells, of all of them 0.2
    new = rng.uniform(1, 2, 500)
    new[:10] = 100.0
    assert novelty(Scores(new, new), [large, small])[:10] == pytest.approx(0.8, abs=0.01)


def test_a_batch_of_mostly_new_cells_is_warned_of() -> None:
    rng = np.random.default_rng(2)
    known = [scores(rng, 0.0, 0.2, 300), scores(rng, 0.0, 0.2, 300)]
    with pytest.warns(UserWarning, match=r"surprise 2\.\d times as much .* most of its cells are new"):
        novelty(scores(rng, 0.8, 0.2, 300), known)


def test_a_reference_of_one_batch_promises_nothing() -> None:
    rng = np.random.default_rng(3)
    cells = Judged(rng.poisson(1.0, (120, 20)), rng.normal(size=(120, 20)), np.zeros(120, np.int64))
    with pytest.warns(UserWarning, match="fewer than two batches of 50 cells, .* no rate can be promised"):
        found = judge_reference(cells, most=55)
    assert [len(one.departure) for one in found] == [55, 55]  # halves of it
    small = cells._replace(batch=np.arange(120) % 4)
    with pytest.warns(UserWarning, match="fewer than two batches"):
        assert [len(one.departure) for one in judge_reference(small, most=200)] == [60, 60]  # none is large enough


def test_surprise_is_about_one_if_the_model_is_right_and_more_where_neighbors_share_an_error() -> None:
    rng = np.random.default_rng(4)
    counts = rng.poisson(1.0, (400, 30))
    counts[:40, :15] += rng.poisson(8.0, (40, 15))
    residuals = rng.normal(size=(400, 30))
    batch = np.arange(400) % 2
    usual = rng.normal(size=(300, 30))
    plain = judge(Judged(counts, residuals, batch), usual).surprise
    assert plain.mean() == pytest.approx(1.0, abs=0.2)
    residuals[:40, :15] += 1.5
    shared = judge(Judged(counts, residuals, batch), usual).surprise
    assert shared[:40].mean() > 5
    assert shared[40:].mean() < 1.5
    residuals[batch == 1, 20] += 3.0  # what all cells of a batch share is the batch's
    again = judge(Judged(counts, residuals, batch), usual).surprise
    np.testing.assert_allclose(again, shared, rtol=1e-6)


def test_a_type_departs_by_what_the_reference_lacks_and_not_by_what_known_cells_share() -> None:
    rng = np.random.default_rng(5)
    cycle, program = np.eye(40)[0] * 6, rng.normal(size=40)
    usual = rng.normal(size=(600, 40)) + np.outer(rng.random(600) < 0.3, cycle)
    cycling = rng.random(400) < 0.3
    residuals = rng.normal(size=(400, 40)) + np.outer(cycling, cycle)
    residuals[:40] += program
    counts = rng.poisson(np.where(np.arange(400)[:, None] < 40, 3.0 * np.exp(program), 5.0))
    found = judge(Judged(counts, residuals - residuals.mean(0), np.zeros(400, np.int64)), usual - usual.mean(0))
    new = np.arange(400) < 40
    assert roc_auc_score(new, found.departure) > 0.99
    assert roc_auc_score(cycling[40:], (residuals[40:] ** 2).sum(1)) > 0.9
    assert roc_auc_score(cycling[40:], found.departure[40:]) < 0.7


def test_batches_are_judged_each_by_itself() -> None:
    rng = np.random.default_rng(6)
    cells = Judged(rng.poisson(2.0, (300, 30)), rng.normal(size=(300, 30)), np.repeat([0, 1], 150))
    cells.residuals[:150] *= 2.0
    usual, mine = rng.normal(size=(400, 30)), np.arange(150, 300)
    alone = judge(cells.some(mine), usual).departure
    np.testing.assert_allclose(judge(cells, usual).departure[mine], alone, rtol=1e-5)
    together = judge(cells._replace(batch=np.zeros(300, np.int64)), usual).departure[mine]
    assert together.mean() > 2 * alone.mean()  # by weights of cells that vary more


def test_the_benchmark_of_queries_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--results", str(tmp_path / "novelty.jsonl")])
    assert len(capsys.readouterr().out.splitlines()) == 3
