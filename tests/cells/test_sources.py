"""Cells as biologists have them: backed files and views, chosen genes, other layers, joined parts, other containers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from horoball.cells import CellModel, fit, neighbors, plot, pseudotime
from horoball.cells.anndata import ball_of
from tests.cells.conftest import FAST
from tests.late import late

anndata = late("anndata")


@pytest.fixture
def some(cells: Any) -> Any:
    cells.var["highly_variable"] = np.arange(cells.n_vars) % 2 == 0
    return cells


def test_genes_are_chosen_by_a_column_of_var_or_by_name(some: Any, tmp_path: Path) -> None:
    model = fit(some, genes="highly_variable", n_neighbors=None, **FAST)
    chosen = some[:, some.var["highly_variable"]].copy()
    assert model.genes == list(chosen.var_names)
    again = fit(chosen, n_neighbors=None, **FAST)
    assert np.array_equal(some.obsm["X_poincare"], chosen.obsm["X_poincare"])
    assert np.array_equal(again.embed(some, n_neighbors=None), chosen.obsm["X_poincare"])
    some.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    assert fit(backed, genes=model.genes[:7], n_neighbors=None, **FAST).genes == model.genes[:7]


@pytest.mark.parametrize(
    ("genes", "message"),
    [
        ("variable", r"var has no column 'variable' to choose genes by\. Columns: highly_variable, rank\."),
        ("rank", r"The column 'rank' of var holds int64\. Genes are chosen by True and False"),
        (["gene1", "Sox2"], r"has no genes Sox2\."),
        (["gene1", "gene1"], r"named twice"),
        (["gene1"], r"at least two genes, and 1 were chosen"),
    ],
)
def test_genes_that_cannot_be_chosen_are_refused(some: Any, genes: Any, message: str) -> None:
    some.var["rank"] = np.arange(some.n_vars)
    with pytest.raises(ValueError, match=message):
        fit(some, genes=genes, **FAST)


def test_a_view_of_a_backed_file_is_refused_before_training(some: Any, tmp_path: Path) -> None:
    some.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    with pytest.raises(ValueError, match=r"a view of one that is backed .* genes= .*to_memory\(\)"):
        fit(backed[:, :10], **FAST)
    model = fit(backed, n_neighbors=None, **FAST)
    part = backed[:20].to_memory()
    np.testing.assert_allclose(model.embed(part, n_neighbors=None), backed.obsm["X_poincare"][:20], atol=1e-6)


def test_new_cells_may_have_their_counts_in_another_layer(some: Any) -> None:
    model = fit(some, batch_key="batch", n_neighbors=None, **FAST)
    other = some.copy()
    other.layers["raw"] = other.layers.pop("counts")
    other.X = other.X * 0.5
    with pytest.raises(ValueError, match=r"no layer 'counts'.* fitted to that layer; name another one with layer="):
        model.embed(other, n_neighbors=None)
    assert np.array_equal(model.embed(other, layer="raw", n_neighbors=None), some.obsm["X_poincare"])
    model.map_query(other, layer="raw", n_neighbors=None, verbose=False)
    np.testing.assert_allclose(other.obsm["X_poincare"], some.obsm["X_poincare"], atol=1e-6)


def test_a_map_stays_with_cells_that_are_joined(some: Any) -> None:
    model = fit(some, c=0.7, **FAST)
    new = some[:30].copy()
    new.obs_names = [f"new{i}" for i in range(30)]
    model.embed(new)
    joined = anndata.concat([some, new])
    assert "poincare" not in joined.uns
    assert ball_of(joined).c_value == pytest.approx(0.7)
    neighbors(joined, 5)
    pseudotime(joined, "0", groupby="branch")
    assert joined.uns["poincare"]["params"]["c"] == pytest.approx(0.7)
    assert len(plot(joined, "batch").get_legend().get_texts()) == 2
    fit(new, n_neighbors=None, **FAST)
    with pytest.raises(ValueError, match=r"maps of different curvature: minus it is 0\.7, 1\. Map them all with one"):
        ball_of(anndata.concat([some, new]))


def test_categories_keep_their_order_and_colors(some: Any) -> None:
    from matplotlib.colors import to_hex

    CellModel(fit(some, n_neighbors=None, **FAST).run)
    some.obs["branch"] = pd.Categorical(some.obs["branch"], categories=["01", "0", "00", "none"])
    some.uns["branch_colors"] = ["#ff0000", "#00ff00", "#0000ff", "#111111"]
    axes = plot(some, "branch")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["01", "0", "00"]
    assert [to_hex(part.get_facecolor()[0]) for part in axes.collections[-3:]] == ["#ff0000", "#00ff00", "#0000ff"]
    some.uns["branch_colors"] = ["#ff0000"]  # of other categories
    assert to_hex(plot(some, "branch").collections[-3].get_facecolor()[0]) != "#ff0000"


class _Several:
    """As MuData looks from outside."""

    obs = var = obsm = {}  # noqa: RUF012
    layers = None
    mod = {"rna": 1, "adt": 2}  # noqa: RUF012


class _Collection:
    """As AnnCollection looks from outside."""

    def to_adata(self) -> None: ...


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (_Several(), r"the modalities 'rna', 'adt'\. Give the one with the counts, such as mdata\['rna'\]"),
        (_Collection(), r"no counts of its own\. Join its parts with anndata\.concat"),
        (None, r"Cells come as AnnData, got NoneType"),
    ],
)
def test_other_containers_are_told_what_to_give(given: Any, message: str, some: Any) -> None:
    with pytest.raises(TypeError, match=message):
        fit(given)
    with pytest.raises(TypeError, match=message):
        fit(some, n_neighbors=None, **FAST).embed(given)


class _Dask:
    """As a Dask array looks from outside: it is computed in parts."""

    dask = True

    def __init__(self, x: np.ndarray, chunks: tuple[float, ...]) -> None:
        self.x, self.chunks, self.shape = x, (chunks, (x.shape[1],)), x.shape

    def __getitem__(self, rows: slice) -> _Dask:
        return _Dask(self.x[rows], (float(len(self.x[rows])),))

    def compute(self) -> np.ndarray:
        return self.x


def test_counts_in_a_dask_array_are_those_that_it_computes() -> None:
    from horoball.tables.anndata import _computed

    x = np.random.default_rng(0).poisson(0.5, (7, 4)).astype(np.float32)
    assert np.array_equal(_computed(_Dask(x, (3, 4))).toarray(), x)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        _computed(_Dask(x, (np.nan, np.nan)))
