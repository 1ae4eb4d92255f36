"""A fitted model in AnnData's own places: the same from any kind of matrix, kept without pickle, used on new cells."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from horoball.cells import CellModel, fit, simulate
from horoball.storage.checkpoint import load_checkpoint
from horoball.tables import anndata as data_cells
from tests.cells.conftest import FAST
from tests.late import late

anndata = late("anndata")


def test_what_is_written_is_where_scanpy_looks(fitted: tuple[Any, CellModel]) -> None:
    cells, model = fitted
    x, scale = cells.obsm["X_poincare"], cells.obsm["X_poincare_std"]
    assert (x.dtype, x.shape) == (np.float64, (280, 2))
    assert (scale.dtype, scale.shape) == (np.float64, (280, 1))
    assert (np.linalg.norm(x, axis=1) < 1).all()
    assert (scale > 0).all()
    about = cells.uns["poincare"]
    assert about["connectivities_key"] == "poincare_connectivities"
    assert about["distances_key"] == "poincare_distances"
    expected = {"n_neighbors": 15, "method": "umap", "metric": "poincare", "use_rep": "X_poincare", "c": 1.0}
    assert about["params"] == expected
    assert all(scipy.sparse.issparse(cells.obsp[f"poincare_{name}"]) for name in ("distances", "connectivities"))
    assert (model.genes, len(model.history)) == (list(cells.var_names), 60)


def test_dense_sparse_and_backed_cells_give_the_same_map(cells: Any, tmp_path: Path) -> None:
    def fitted_to(adata: Any, layer: str | None) -> np.ndarray:
        fit(adata, layer=layer, batch_key="batch", **FAST)
        return np.asarray(adata.obsm["X_poincare"])

    path = tmp_path / "cells.h5ad"
    wanted = fitted_to(cells.copy(), "counts")
    dense = cells.copy()
    dense.layers["counts"] = dense.layers["counts"].toarray().astype(np.int64)
    columns = cells.copy()
    columns.layers["counts"] = columns.layers["counts"].tocsc()
    for adata in (dense, columns):
        assert np.array_equal(fitted_to(adata, "counts"), wanted)
    assert np.array_equal(fitted_to(cells.copy(), None), wanted)  # X holds the same
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.csc_matrix, np.asarray):
        adata = cells.copy()
        adata.X = kind(adata.X.toarray())
        adata.write_h5ad(path)
        backed = anndata.read_h5ad(path, backed="r")
        assert np.array_equal(fitted_to(backed, None), wanted)
        assert backed.isbacked
        backed.file.close()


def test_a_large_file_is_streamed_and_its_cells_are_embedded_as_those_in_memory(
    cells: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells.write_h5ad(tmp_path / "cells.h5ad")
    model = fit(cells, layer=None, batch_key="batch", **FAST)
    wanted = np.array(cells.obsm["X_poincare"])
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    monkeypatch.setattr(data_cells, "_HELD", 0)
    np.testing.assert_allclose(model.embed(backed), wanted, atol=1e-6)
    streamed = fit(backed, layer=None, batch_key="batch", **FAST)
    assert streamed.run.record.training.distance_weight > 0
    assert "distance" in streamed.history[-1]  # by a sample of the cells
    assert np.isfinite(backed.obsm["X_poincare"]).all()
    backed.file.close()


def test_a_model_is_kept_without_pickle(fitted: tuple[Any, CellModel], tmp_path: Path) -> None:
    cells, model = fitted
    model.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    assert load_checkpoint(tmp_path / "model.safetensors")[1]["record"]["covariates"] == {"batch": ["a", "b"]}
    again = CellModel.load(tmp_path)
    assert again.key == "poincare"
    other = cells.copy()
    assert np.array_equal(again.embed(other), cells.obsm["X_poincare"])


def test_a_second_map_has_places_of_its_own(cells: Any, tmp_path: Path) -> None:
    fit(cells, **FAST)
    first = np.array(cells.obsm["X_poincare"])
    model = fit(cells, key_added="wide", n_components=5, c="learn", n_neighbors=None, folder=tmp_path, **FAST)
    assert np.array_equal(cells.obsm["X_poincare"], first)
    assert cells.obsm["X_wide"].shape == (90, 5)
    assert "wide_distances" not in cells.obsp
    assert cells.uns["wide"]["params"]["c"] == model.c != 1.0
    assert (tmp_path / "metrics.jsonl").exists()
    assert CellModel.load(tmp_path).key == "wide"


def test_cells_that_were_not_seen_are_matched_by_the_names_of_their_genes(fitted: tuple[Any, CellModel]) -> None:
    cells, model = fitted
    new = cells[[5, 200, 7]].copy()
    counts = scipy.sparse.hstack([np.ones((3, 2), np.float32), new.layers["counts"]], format="csr")
    wide = anndata.AnnData(counts, obs=new.obs, layers={"counts": counts})
    wide.var_names = ["other1", "other2", *new.var_names]
    shuffled = wide[:, np.random.default_rng(0).permutation(wide.n_vars)].copy()
    shuffled.obs["batch"] = shuffled.obs["batch"].astype(str)
    x = model.embed(shuffled, n_neighbors=2)
    np.testing.assert_allclose(x, cells.obsm["X_poincare"][[5, 200, 7]], atol=1e-6)
    assert shuffled.obsp["poincare_distances"].nnz == 3
    single = cells[[5]].copy()
    assert model.embed(single).shape == (1, 2)
    assert single.uns["poincare"]["params"]["n_neighbors"] == 1


def test_cells_that_do_not_fit_the_model_are_refused(fitted: tuple[Any, CellModel]) -> None:
    cells, model = fitted
    with pytest.raises(ValueError, match="lacks 2 of the 100 genes that are asked for: gene0, gene1"):
        model.embed(cells[:, 2:].copy())
    new = cells[:5].copy()
    new.obs["batch"] = "z"
    with pytest.raises(ValueError, match=r"The model has not seen the batch 'z'. It knows: 'a', 'b'"):
        model.embed(new)
    del new.obs["batch"]
    with pytest.raises(ValueError, match="has no column 'batch' in obs"):
        model.embed(new)
    del new.layers["counts"]
    new.obs["batch"] = "a"
    with pytest.raises(ValueError, match=r"has no layer 'counts'. It has none"):
        model.embed(new)
    with pytest.raises(TypeError, match="Cells come as AnnData, got ndarray"):
        model.embed(np.zeros((3, 100)))


def test_wrong_input_is_refused_with_what_to_do(cells: Any) -> None:
    logs = cells.copy()
    logs.layers["logs"] = logs.X.log1p()
    with pytest.raises(
        ValueError, match=r"Counts are whole numbers from 0 on, but the table holds [\d.]+\. Choose the layer"
    ):
        fit(logs, layer="logs", **FAST)
    fit(logs, layer="logs", likelihood="normal", batch_key="batch", **FAST)
    assert np.isfinite(logs.obsm["X_poincare"]).all()
    negative = cells.copy()
    negative.X = -negative.X
    with pytest.raises(ValueError, match=r"the table holds -\d+. Choose the layer with the raw counts"):
        fit(negative, layer=None, **FAST)
    empty = cells.copy()
    empty.layers["counts"][3] = 0
    with pytest.raises(ValueError, match=r"1 of 90 rows hold no count at all in the 40 columns .*filter_cells"):
        fit(empty, **FAST)
    holes = cells.copy()
    holes.layers["counts"].data[0] = np.nan
    with pytest.raises(ValueError, match="missing or infinite"):
        fit(holes, **FAST)
    with pytest.raises(ValueError, match=r"has no layer 'spliced'. Its layers are: counts. If X holds the counts"):
        fit(cells, layer="spliced", **FAST)
    with pytest.raises(ValueError, match=r"has no column 'donor' in obs. Its columns are: branch, depth, batch"):
        fit(cells, batch_key=["batch", "donor"], **FAST)
    cells.obs["batch"] = cells.obs["batch"].where(np.arange(90) > 2)
    with pytest.raises(ValueError, match="The covariate 'batch' is missing in 3 rows, first in row 0"):
        fit(cells, batch_key="batch", **FAST)
    cells.var_names = ["gene0", *cells.var_names[:-1]]
    with pytest.raises(ValueError, match=r"several genes of one name: gene0\. .*var_names_make_unique"):
        fit(cells, **FAST)
    for wrong in (np.zeros((3, 3)), "cells.h5ad"):
        with pytest.raises(TypeError, match=f"Cells come as AnnData, got {type(wrong).__name__}"):
            fit(wrong)
    with pytest.raises(ValueError, match="distance_weight is a number"):
        fit(simulate(depth=1, cells=30, genes=5), distance_weight="much")


def test_a_fit_is_gone_on_with_and_not_written_over(cells: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="n_neighbors >= 2, got 1"):
        fit(cells, n_neighbors=1, folder=tmp_path)  # at once, not after the training
    assert not list(tmp_path.iterdir())
    fit(cells, folder=tmp_path, **FAST)
    with pytest.raises(ValueError, match=r"already holds a run\. .* in Python resume=True"):
        fit(cells, folder=tmp_path, **FAST)
    longer = FAST | {"max_epochs": FAST["max_epochs"] + 1}
    assert len(fit(cells, folder=tmp_path, resume=True, **longer).history) == longer["max_epochs"]


def test_several_batches_are_given_together(cells: Any) -> None:
    cells.obs["donor"] = np.arange(90) % 3
    model = fit(cells, batch_key=["batch", "donor"], **FAST)
    assert model.batches == {"batch": ["a", "b"], "donor": ["0", "1", "2"]}
    assert model.run.model.covariates == (2, 3)


def test_numbers_are_corrected_for_beside_batches(cells: Any, tmp_path: Path) -> None:
    cells.obs["mito"] = np.random.default_rng(0).gamma(2.0, 0.05, 90)
    model = fit(cells, batch_key="batch", continuous_key="mito", n_neighbors=None, **FAST)
    assert model.batches == {"batch": ["a", "b"]}
    assert model.run.model.covariates == (2, 1)
    mean, std = model.run.record.reading["numbers"]["mito"]
    assert (mean, std) == (cells.obs["mito"].mean(), cells.obs["mito"].to_numpy().std())
    model.save(tmp_path)
    some = cells[:10].copy()  # scaled as all cells were
    again = CellModel.load(tmp_path)
    np.testing.assert_allclose(again.embed(some, n_neighbors=None), cells.obsm["X_poincare"][:10], atol=1e-6)
    plain = fit(cells, continuous_key=["mito"], n_neighbors=None, **FAST)
    assert plain.batches == {}
    assert plain.normalized_expression(cells, batch="all").shape == cells.shape
    new = cells.copy()
    new.obs["batch"] = "c"
    assert model.map_query(new, max_epochs=1, n_neighbors=None).batches == {"batch": ["a", "b", "c"]}
    for wrong, message in (("branch", "holds text"), ("same", "in all rows"), ("holes", "missing or infinite")):
        cells.obs["same"], cells.obs["holes"] = 1.0, np.where(np.arange(90) > 3, 1.0, np.nan)
        with pytest.raises(ValueError, match=message):
            fit(cells, continuous_key=wrong, **FAST)


def test_the_extra_is_named_where_anndata_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anndata", None)
    for call in (simulate, lambda: fit(None)):
        with pytest.raises(ImportError, match=r'Cells need anndata. .*pip install "horoball\[cells\]"'):
            call()


def test_the_same_seed_gives_the_same_map(cells: Any) -> None:
    other = cells.copy()
    fit(cells, random_state=3, **FAST)
    torch.manual_seed(99)
    fit(other, random_state=3, **FAST)
    assert np.array_equal(cells.obsm["X_poincare"], other.obsm["X_poincare"])


def test_a_fit_says_how_it_goes_unless_told_not_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("horoball"), "handlers", [])  # those of commands that ran before
    for options, words in (({}, ["Training: 1 epochs", "1 of 1 epochs done: loss"]), ({"verbose": False}, [])):
        fit(simulate(depth=2, cells=60, genes=30), max_epochs=1, hidden=(8,), n_neighbors=None, **options)
        said = capsys.readouterr().err
        assert all(word in said for word in words)
        assert bool(said) == bool(words), said


def test_the_divergence_is_warmed_up_where_no_distances_keep_posteriors_from_the_prior() -> None:
    cells = simulate(depth=2, cells=60, genes=30)
    shares = [
        fit(cells, n_components=d, distance_weight=weight, max_epochs=1, hidden=(8,)).run.record.training.kl_warmup
        for d, weight in ((2, "auto"), (10, "auto"), (2, 0.0), (10, 50.0))
    ]
    assert shares == [0.0, 0.1, 0.1, 0.0]
