"""scanpy goes on from the map: its clusters, its graphs, its data sets, which come with it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horoball as hb
from horoball.cells import CellModel, fit
from tests.cells.conftest import FAST
from tests.late import late

anndata = late("anndata")

sc: Any = None
matplotlib: Any = None


@pytest.fixture(autouse=True, scope="module")
def _scanpy() -> None:
    """Imported when a test needs it, and not whenever tests are collected: it takes seconds."""
    global sc, matplotlib
    sc = pytest.importorskip("scanpy")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no network in tests")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_leiden_and_paga_take_the_graph(fitted: tuple[Any, CellModel], tmp_path: Path) -> None:
    cells = fitted[0].copy()
    sc.tl.leiden(cells, neighbors_key="poincare", flavor="igraph", n_iterations=2, directed=False)
    assert 2 <= cells.obs["leiden"].nunique() <= 30
    # Clusters are of branches: no cluster holds both of the root's subtrees in equal parts.
    subtree = np.asarray([name[:2] for name in cells.obs["branch"]])
    deep = cells.obs["depth"] > 1.3
    purity = [
        max(np.mean(subtree[mask] == name) for name in ("00", "01"))
        for cluster in cells.obs["leiden"].cat.categories
        if (mask := np.asarray((cells.obs["leiden"] == cluster) & deep)).sum() > 5
    ]
    assert np.mean(purity) > 0.8
    sc.tl.paga(cells, groups="leiden", neighbors_key="poincare")
    clusters = cells.obs["leiden"].nunique()
    assert cells.uns["paga"]["connectivities"].shape == (clusters, clusters)
    sc.tl.paga(cells, groups="branch", neighbors_key="poincare")
    cells.uns["iroot"] = 0
    sc.tl.diffmap(cells, n_comps=10, neighbors_key="poincare")
    sc.tl.dpt(cells, neighbors_key="poincare")
    cells.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert again.uns["poincare"]["params"]["c"] == 1.0
    hb.cells.pseudotime(again, 0)


def test_the_bundled_simulation_is_no_table_of_counts(offline: None) -> None:
    with pytest.warns(UserWarning, match="Observation names are not unique"):
        cells = sc.datasets.krumsiek11()
    with pytest.raises(ValueError, match=r"has no layer 'counts'. It has none. If X holds the counts, take layer=None"):
        fit(cells, layer="counts", **FAST)
    with pytest.raises(ValueError, match=r"Counts are whole numbers .* adata.raw .* Or take the likelihood normal"):
        fit(cells, **FAST)
    fit(cells, layer=None, likelihood="normal", **FAST)
    assert cells.obsm["X_poincare"].shape == (640, 2)
    with pytest.raises(ValueError, match=r"\d+ cells are named '0'. Give a name"):
        hb.cells.pseudotime(cells, "0")
    hb.cells.pseudotime(cells, "progenitor", groupby="cell_type")
    ax = hb.cells.plot(cells, "cell_type")
    assert {text.get_text() for text in ax.get_legend().get_texts()} == set(cells.obs["cell_type"])


def test_the_bundled_blood_cells_are_scaled_and_say_so(offline: None) -> None:
    cells = sc.datasets.pbmc68k_reduced()
    with pytest.raises(ValueError, match="Counts are whole numbers from 0 on, but the table holds"):
        fit(cells, layer=None, **FAST)
    # Its raw matrix holds log(1 + 10⁴·x/Σx); whole numbers in proportion to x stand in for the counts here.
    raw = cells.raw.to_adata()
    raw.layers["counts"] = raw.X.copy()
    raw.layers["counts"].data = np.rint(np.expm1(raw.X.data))
    raw.obs["phase"] = raw.obs["phase"].astype(str)
    model = fit(raw, batch_key="phase", n_components=3, distance_weight=0, **FAST)
    assert raw.obsm["X_poincare"].shape == (700, 3)
    assert model.batches == {"phase": ["G1", "G2M", "S"]}


def test_pictures_are_colored_by_columns_and_genes(fitted: tuple[Any, CellModel]) -> None:
    cells = fitted[0].copy()
    assert hb.cells.plot(cells, "batch").get_title() == "batch"
    cells.obs["counts"] = np.asarray(cells.X.sum(1)).ravel().astype(int)
    for numbers in ("depth", "gene3", "counts"):
        ax = hb.cells.plot(cells, numbers, size=3, title="map")
        assert (ax.get_legend(), ax.get_title()) == (None, "map")
        assert len(ax.figure.axes) == 2  # with a scale
    dense = cells.copy()
    dense.X = dense.X.toarray()
    hb.cells.plot(dense, "gene3")
    assert hb.cells.plot(cells).get_legend() is None
    with pytest.raises(
        ValueError, match=r"'kind' is neither a column of obs nor a gene. The columns of obs are: branch"
    ):
        hb.cells.plot(cells, "kind")
    matplotlib.pyplot.close("all")


def test_scanpy_draws_the_tree_of_cell_types(fitted: tuple[Any, CellModel], tmp_path: Path) -> None:
    cells, model = fitted[0].copy(), fitted[1]
    found = model.tree(cells, "branch", root="0", draws=10)
    assert set(found.names) == set(cells.obs["branch"].unique())
    sc.pl.dendrogram(cells, "branch", show=False)
    sc.pl.matrixplot(cells, list(cells.var_names[:3]), "branch", dendrogram=True, show=False)
    cells.write_h5ad(tmp_path / "cells.h5ad")
    kept = anndata.read_h5ad(tmp_path / "cells.h5ad").uns["poincare_tree"]
    assert hb.trees.tree_from_json(str(kept["json"])).names == found.names
    assert str(kept["newick"]) == found.to_newick()
    with pytest.raises(ValueError, match="no column 'kind'"):
        model.tree(cells, "kind")
    with pytest.raises(ValueError, match="not the groups"):
        hb.cells.write_tree(cells, found, "batch")
