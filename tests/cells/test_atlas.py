"""Maps of more cells than there are landmarks: no row is special."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import atlas_figure, atlas_size, cell_halves
from benchmarks.atlas import main, run
from benchmarks.atlas_models import MODELS, available
from benchmarks.lineage_counts import LINEAGE, genome, lineage_counts


def test_a_simulated_batch_is_known_by_its_name() -> None:
    made = genome(80)
    cells = lineage_counts(made, 400, ["a", "b"], seed=1, aliens=20)
    assert (cells.obs["type"] == "alien").sum() == 20
    assert set(cells.obs["type"]) <= {*LINEAGE, "alien"}
    again = lineage_counts(made, 400, ["b"], seed=2)
    both = [part[part.obs["batch"] == "b"] for part in (cells, again)]
    share = [part.X.sum(0) / part.X.sum() for part in both]
    assert abs(share[0] - share[1]).sum() < 0.35
    assert cells.obs["time"].between(0, 3).all()


def test_the_benchmark_of_atlases_runs(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--results", f"{tmp_path}/atlas.jsonl"])
    assert len(capsys.readouterr().out.splitlines()) == 2 + sum(map(available, MODELS))


def test_landmarks_of_three_thousand_cells_lie_among_the_others() -> None:
    found = run(lineage_counts(genome(400), 3000, seed=0), 2, 60, 0, "horoball")
    assert found["landmarks"] < found["chance"] + 0.05  # 0.38 before, of 1,000 genes and 70 epochs
    assert found["same_type"] > 0.6
    assert found["pseudotime"] > 0.75


def test_an_atlas_that_stays_in_its_file_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--cells", "900", "--genes", "60", "--epochs", "1", "--results", str(tmp_path / "atlas.jsonl")]
    assert atlas_size.main(few) == 0
    assert "900 × 60" in capsys.readouterr().out


def test_half_of_the_counts_is_held_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = np.random.default_rng(0).poisson(2.0, (50, 30))
    one, other = cell_halves.halves(counts, 0)
    assert np.array_equal(np.sort((one + other).sum(0)), np.sort(counts.sum(0)))
    together = np.tile((one.sum(0) + 0.5) / (one.sum() + 15.0), (50, 1))
    assert cell_halves.gain(together, one, other) == pytest.approx(0.0, abs=1e-12)
    cell_halves.main(["--quick", "--results", str(tmp_path / "halves.jsonl")])
    assert "| ten main axes" in capsys.readouterr().out


def test_the_figure_of_an_atlas_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    atlas_figure.main([str(tmp_path / "atlas.png")], cells=300, genes=60)
    assert (tmp_path / "atlas.png").stat().st_size > 20_000
    assert "above 0.95" in capsys.readouterr().out
