"""New cells on a map that stays as it is: a new batch, missing genes, unknown types, labels that are passed on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from horoball.cells import CellModel, fit, simulate, transfer_labels
from horoball.cells import query as query_module
from horoball.cells.labels import deepest_branch, temperature
from horoball.cells.query import ObservedGenes
from horoball.tables import anndata as data_cells
from horoball.trees import Tree
from tests.cells.splatter import splatter
from tests.late import late

anndata = late("anndata")


@pytest.fixture(scope="session")
def atlas() -> tuple[Any, Any, CellModel]:
    """A reference of two batches without the type B1y, a query of a third batch with it, and the reference's model."""
    cells = splatter(cells=480, genes=100, batches=3, uneven=0.2, change=0.6, batch_scale=0.2, seed=2).cells
    new = np.asarray(cells.obs["batch"]) == "batch2"
    known = np.asarray(cells.obs["type"]) != "B1y"
    reference, query = cells[~new & known].copy(), cells[new].copy()
    options: dict[str, Any] = {"hidden": (64,), "max_epochs": 30, "batch_size": 64, "learning_rate": 5e-3}
    return reference, query, fit(reference, batch_key="batch", n_components=5, n_neighbors=None, **options)


@pytest.fixture(scope="session")
def mapped(atlas: tuple[Any, Any, CellModel]) -> tuple[Any, CellModel]:
    reference, query, model = atlas
    cells = query.copy()
    return cells, model.map_query(cells, reference, max_epochs=30, n_neighbors=None)


def test_a_new_batch_leaves_the_reference_where_it_is(
    atlas: tuple[Any, Any, CellModel], mapped: tuple[Any, CellModel], tmp_path: Any
) -> None:
    reference, _, model = atlas
    cells, grown = mapped
    assert grown.batches == {"batch": ["batch0", "batch1", "batch2"]}
    assert model.batches == {"batch": ["batch0", "batch1"]}
    again = reference.copy()
    assert np.allclose(grown.embed(again, n_neighbors=None), reference.obsm["X_poincare"], atol=1e-6)
    for name, weight in model.run.model.state_dict().items():
        other = grown.run.model.state_dict()[name]
        assert torch.equal(other[..., : weight.shape[-1]] if weight.dim() else other, weight), name
    grown.save(tmp_path)
    assert np.allclose(
        CellModel.load(tmp_path).embed(cells.copy(), n_neighbors=None), cells.obsm["X_poincare"], atol=1e-6
    )
    assert cells.obsm["X_poincare_std"].shape == (cells.n_obs, 1)


def test_training_the_new_batch_raises_the_bound_of_its_cells(
    atlas: tuple[Any, Any, CellModel], mapped: tuple[Any, CellModel]
) -> None:
    _, query, model = atlas
    first = model.map_query(query.copy(), max_epochs=1, learning_rate=1e-9, n_neighbors=None, verbose=False)
    assert mapped[1].elbo(query) > first.elbo(query) + 0.5
    known = query.copy()
    known.obs["batch"] = "batch0"
    assert model.map_query(known, n_neighbors=5).run is model.run  # nothing to learn
    assert known.obsp["poincare_distances"].nnz == 4 * known.n_obs


def test_cells_unlike_the_reference_are_flagged(mapped: tuple[Any, CellModel]) -> None:
    cells, _ = mapped
    unknown = np.asarray(cells.obs["type"]) == "B1y"
    assert roc_auc_score(unknown, cells.obs["poincare_surprise"]) > 0.75
    assert cells.obs["poincare_novelty"].between(0, 1).all()


def test_missing_genes_are_filled_in(atlas: tuple[Any, Any, CellModel]) -> None:
    reference, _, model = atlas
    whole = reference[:120].copy()
    model.embed(whole, n_neighbors=None)
    few = whole[:, 25:].copy()
    model.map_query(few, reference, n_neighbors=None)
    padded = whole.copy()
    counts = padded.layers["counts"].tolil()
    counts[:, :25] = 0
    padded.layers["counts"] = counts.tocsr()
    model.embed(padded, n_neighbors=None)

    def moved(cells: Any) -> float:
        z, other = (model.ball.from_ball(torch.from_numpy(one.obsm["X_poincare"])) for one in (cells, whole))
        return float(model.ball.dist(z, other).median())

    assert moved(few) < 0.7 * moved(padded)
    assert (few.obs["poincare_novelty"] > 0.95).mean() < 0.2
    with pytest.raises(ValueError, match=r"have 40 of the model's 100 genes\. At least half are needed"):
        model.map_query(whole[:, :40].copy())


def test_cells_in_a_file_are_mapped_and_judged_as_those_in_memory(
    atlas: tuple[Any, Any, CellModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {}
    for name, cells in {"reference": atlas[0], "query": atlas[0][::2, 10:]}.items():
        x = anndata.AnnData(cells.layers["counts"].tocsr(), obs=cells.obs, var=cells.var)
        x.write_h5ad(tmp_path / f"{name}.h5ad")
        files[name] = anndata.read_h5ad(tmp_path / f"{name}.h5ad", backed="r")
    held = files["query"].to_memory()
    model = fit(files["reference"], batch_key="batch", hidden=(16,), max_epochs=2, n_neighbors=None)
    model.map_query(held, files["reference"], n_neighbors=None)
    monkeypatch.setattr(data_cells, "_HELD", 0)
    model.map_query(files["query"], files["reference"], n_neighbors=None)
    for column in ("poincare_surprise", "poincare_novelty"):
        np.testing.assert_allclose(files["query"].obs[column], held.obs[column], rtol=1e-4)
    np.testing.assert_allclose(files["query"].obsm["X_poincare"], held.obsm["X_poincare"], atol=1e-5)


def test_many_new_cells_are_judged_in_parts(
    atlas: tuple[Any, Any, CellModel], mapped: tuple[Any, CellModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    (reference, query, _), (cells, grown) = atlas, mapped
    monkeypatch.setattr(query_module, "_MOST_JUDGED", 200)
    parts = query.copy()
    grown.map_query(parts, reference, n_neighbors=None)
    assert np.array_equal(parts.obsm["X_poincare"], cells.obsm["X_poincare"])
    unknown = np.asarray(parts.obs["type"]) == "B1y"
    assert roc_auc_score(unknown, parts.obs["poincare_surprise"]) > 0.7  # of some two hundred cells each
    assert all(roc_auc_score(unknown, some.obs["poincare_novelty"]) > 0.8 for some in (parts, cells))
    assert parts.obs["poincare_novelty"].corr(cells.obs["poincare_novelty"], method="spearman") > 0.5


def test_filled_counts_are_expectations_that_keep_what_was_observed(atlas: tuple[Any, Any, CellModel]) -> None:
    _, _, model = atlas
    observed = torch.arange(100) >= 25
    x = torch.cat((torch.poisson(torch.full((6, 100), 3.0)), torch.zeros(6, 1)), 1)
    filled = ObservedGenes(model.run.model, observed).filled(x)
    assert torch.equal(filled[:, 25:], x[:, 25:])
    assert bool((filled[:, :25] > 0).all())


def test_labels_are_passed_on_with_probabilities_that_hold(
    atlas: tuple[Any, Any, CellModel], mapped: tuple[Any, CellModel]
) -> None:
    reference, _, _ = atlas
    cells = mapped[0].copy()
    found = transfer_labels(cells, reference, "type", tree=None, novelty=1.0, confidence=0.5)
    truth = np.asarray(cells.obs["type"])
    known = truth != "B1y"
    best = found.columns.to_numpy()[found.to_numpy().argmax(1)]
    right = (best == truth)[known]
    assert right.mean() > 0.5
    assert abs(found.to_numpy().max(1)[known].mean() - right.mean()) < 0.15
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    called = cells.obs["type_predicted"].astype(str)
    assert set(called) <= {*found.columns, "unknown"}
    assert ((called == "unknown") == (cells.obs["type_probability"] < 0.5)).all()
    again = mapped[0].copy()
    transfer_labels(again, reference, "type", novelty=0.5)
    novel = again.obs["poincare_novelty"] > 0.5
    assert (again.obs["type_predicted"][novel] == "unknown").all()


def test_a_tree_stops_at_the_deepest_branch_that_is_sure(atlas: tuple[Any, Any, CellModel]) -> None:
    reference, query, model = atlas
    cells = query.copy()
    model.map_query(cells, max_epochs=1, n_neighbors=None)
    labeled = reference.copy()
    tree = model.tree(labeled, "type", root="stem", draws=5)
    transfer_labels(cells, labeled, "type", confidence=0.9, support=0.0)
    called = cells.obs["type_predicted"].astype(str)
    groups = [set(name.split(" | ")) for name in called]
    assert any(len(names) > 1 for names in groups)
    assert (cells.obs["type_probability"] >= 0.9).all()
    assert sorted(tree.names) == sorted(set(labeled.obs["type"]))
    assert labeled.obs["poincare_branch"].notna().all()
    assert labeled.uns["poincare_tree"]["groupby"] == "type"


def test_the_deepest_branch_is_found_below_support_and_confidence() -> None:
    support = np.array([np.nan] * 4 + [0.3, 0.9, 1.0])
    tree = Tree.from_merges([[0, 1], [2, 4], [3, 5]], [1.0, 2.0, 3.0], names=["a", "b", "c", "d"], support=support)
    p = np.array([[0.95, 0.05, 0.0, 0.0], [0.5, 0.45, 0.05, 0.0], [0.4, 0.1, 0.1, 0.4]])
    assert deepest_branch(tree, p, confidence=0.9, support=0.5).tolist() == [0, 5, -1]
    assert deepest_branch(tree, p, confidence=0.9, support=0.2).tolist() == [0, 4, -1]


def test_a_temperature_makes_overconfident_votes_honest() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 3000)
    code = np.array([rng.choice(4, p=one) for one in p])
    sharp = p**3 / (p**3).sum(1, keepdims=True)
    assert temperature(sharp, code) == pytest.approx(3.0, rel=0.1)


def test_queries_that_cannot_be_labeled_are_refused(atlas: tuple[Any, Any, CellModel]) -> None:
    reference, query, model = atlas
    with pytest.raises(ValueError, match="no column 'kind' to group cells by"):
        transfer_labels(reference, reference, "kind")
    with pytest.raises(ValueError, match="There is no embedding"):
        transfer_labels(query.copy(), reference, "type")
    with pytest.raises(ValueError, match=r"a probability from 0\.5 to 1"):
        transfer_labels(reference, reference, "type", confidence=0.2)
    with pytest.raises(TypeError, match="Cells come as AnnData"):
        model.map_query("query.h5ad")


def test_missing_real_numbers_are_filled_in_by_their_means() -> None:
    cells = simulate(depth=2, cells=210, genes=40)
    x = cells.X.toarray()
    cells.X = np.log1p(1e4 * x / x.sum(1, keepdims=True))
    model = fit(cells, layer=None, likelihood="normal", hidden=(32,), max_epochs=40, batch_size=64, learning_rate=5e-3)
    few = cells[:, 5:].copy()
    model.map_query(few, n_neighbors=None)
    z, other = (model.ball.from_ball(torch.from_numpy(one.obsm["X_poincare"])) for one in (cells, few))
    spread = model.ball.dist(z, z.roll(1, 0)).mean()
    assert model.ball.dist(z, other).mean() < 0.2 * spread  # their sums were scaled to the others': once the spread


def test_too_few_cells_of_a_batch_are_not_judged(atlas: tuple[Any, Any, CellModel]) -> None:
    reference, query, model = atlas
    few = query[:20].copy()
    with pytest.warns(UserWarning, match="20 cells are of batches with fewer than 50 cells, too few"):
        model.map_query(few, reference, max_epochs=1, n_neighbors=None)
    assert few.obs[["poincare_surprise", "poincare_novelty"]].isna().to_numpy().all()


def test_the_reference_departs_from_itself_by_nothing() -> None:
    cells = simulate(depth=1, cells=120, genes=30)
    model = fit(cells, hidden=(8,), max_epochs=2)
    again = cells.copy()
    with pytest.warns(UserWarning, match="no rate can be promised"):
        model.map_query(again, cells, n_neighbors=None)
    assert again.obs["poincare_novelty"].between(0, 1).all()


def test_what_was_said_of_other_places_goes_with_them(atlas: tuple[Any, Any, CellModel]) -> None:
    reference, query, model = atlas
    cells = query.copy()
    model.map_query(cells, reference, max_epochs=1)
    assert "poincare_novelty" in cells.obs
    model.map_query(cells, max_epochs=1, n_neighbors=None)
    assert not {"poincare_novelty", "poincare_surprise"} & set(cells.obs)
    assert not set(cells.obsp)


def test_a_grown_model_still_draws_cells(atlas: tuple[Any, Any, CellModel], tmp_path: Path) -> None:
    _, query, model = atlas
    model.map_query(query.copy(), max_epochs=1, n_neighbors=None).save(tmp_path)
    assert CellModel.load(tmp_path).run.sample(3).shape == (3, 100)


def test_a_reference_is_anndata(atlas: tuple[Any, Any, CellModel]) -> None:
    _, query, model = atlas
    with pytest.raises(TypeError, match="Cells come as AnnData, got str"):
        model.map_query(query.copy(), "reference.h5ad")
