"""The commands take .h5ad files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from horoball.cells import CellModel, fit, simulate
from horoball.vae.run import Run
from tests.commands import done, refused
from tests.late import late

anndata = late("anndata")

FAST = ["--quiet", "--hidden", "8", "--max-epochs", "2", "--batch-size", "32"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cells") / "cells.h5ad"
    simulate(depth=1, cells=90, genes=20).write_h5ad(path)
    return path


@pytest.fixture(scope="module")
def folder(path: Path) -> Path:
    folder = path.parent / "run"
    told = done("fit", path, "-o", folder, "--batch", "batch", "--label", "branch", *FAST).stderr
    assert "Counts: the layer 'counts'." in told
    return folder


def test_fit_takes_counts_as_shares_of_a_library_and_batches_as_given(folder: Path) -> None:
    record = Run.load(folder).record
    assert (record.model.likelihood, record.model.library) == ("negative_binomial", True)
    assert record.covariates == {"batch": ["a", "b"]}
    assert record.reading == {"layer": "counts", "batch": ["batch"]}
    assert "negative_binomial" in done("info", folder).stdout


def test_the_command_fits_the_model_that_python_does(path: Path, tmp_path: Path) -> None:
    done("fit", path, "-o", tmp_path / "run", "--quiet", "--max-epochs", 1)
    model = fit(anndata.read_h5ad(path), max_epochs=1, n_neighbors=None)
    record = Run.load(tmp_path / "run").record
    assert record.model == model.run.record.model
    assert record.training == model.run.record.training


def test_embed_writes_the_cells_names_and_what_python_gives(folder: Path, path: Path) -> None:
    done("embed", folder, path, "-o", path.parent / "map.parquet")
    frame = pq.read_table(path.parent / "map.parquet")
    assert frame.column_names == ["cell", "z0", "z1", "radius", "scale"]
    cells = anndata.read_h5ad(path)
    assert frame["cell"].to_pylist() == list(cells.obs_names)
    x = CellModel.load(folder).embed(cells)
    assert np.array_equal(np.stack([frame[name].to_numpy() for name in ("z0", "z1")], 1), x)


def test_a_run_is_gone_on_with_evaluated_and_viewed(folder: Path, path: Path, tmp_path: Path) -> None:
    done("evaluate", folder, path, "--samples", 3)
    done("view", folder, path, "-o", tmp_path / "map.html")
    assert "cell17" in (tmp_path / "map.html").read_text(encoding="utf-8")
    options: list[Any] = ["fit", path, "-o", folder, "--resume", "--label", "branch", *FAST]
    done(*options, "--batch", "batch")
    assert "has covariates = [2], not []" in refused(*options)


def test_new_cells_are_drawn_with_the_batches_and_totals_of_old_ones(folder: Path, tmp_path: Path) -> None:
    done("sample", folder, "-o", tmp_path / "new.csv", "-n", 7)
    assert len((tmp_path / "new.csv").read_text(encoding="utf-8").splitlines()) == 8


def test_what_cannot_be_done_says_why(folder: Path, path: Path, tmp_path: Path) -> None:
    assert "has no layer 'raw'" in refused("fit", path, "-o", tmp_path / "a", "--layer", "raw", *FAST)
    assert "no column 'donor' in obs" in refused("fit", path, "-o", tmp_path / "a", "--batch", "donor", *FAST)
    rows = tmp_path / "rows.npy"
    np.save(rows, np.random.default_rng(0).normal(size=(60, 4)))
    for option in (("--batch", "x"), ("--layer", "x")):
        assert "are for .h5ad files" in refused("fit", rows, "-o", tmp_path / "b", *option, *FAST)
    assert "fitted to 20 columns, the table has 4" in refused("embed", folder, rows, "-o", tmp_path / "x.parquet")
    logs = anndata.read_h5ad(path)
    logs.layers["counts"] = logs.X.log1p()
    logs.write_h5ad(tmp_path / "logs.h5ad")
    message = refused("fit", tmp_path / "logs.h5ad", "-o", tmp_path / "c", *FAST)
    assert "Counts are whole numbers" in message
    done("fit", tmp_path / "logs.h5ad", "-o", tmp_path / "d", "--likelihood", "normal", *FAST)
    done("fit", path, "-o", tmp_path / "e", "--layer", "X", *FAST)
