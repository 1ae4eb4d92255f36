"""Denoised expression, differential expression, simulated counts and the bound: against a simulation that is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
from sklearn.metrics import roc_auc_score

from horoball.cells import CellModel, fit
from horoball.cells.expression import expected_false_discoveries
from tests.cells.conftest import FAST
from tests.cells.splatter import Truth, splatter


@pytest.fixture(scope="session")
def known() -> tuple[Truth, CellModel]:
    """Cells of an independent simulator with a model of five dimensions."""
    truth = splatter(cells=320, genes=80, batches=2, seed=1)
    options: dict[str, Any] = {
        "hidden": (64,),
        "max_epochs": 40,
        "batch_size": 64,
        "learning_rate": 5e-3,
        "n_neighbors": None,
    }
    return truth, fit(truth.cells, batch_key="batch", n_components=5, verbose=False, **options)


def test_denoised_expression_is_nearer_to_the_truth_than_the_counts(known: tuple[Truth, CellModel]) -> None:
    truth, model = known
    found = model.normalized_expression(truth.cells, library_size=1.0, batch="all")
    assert found.shape == truth.cells.shape
    assert list(found.columns) == model.genes
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-4)
    counts = truth.cells.layers["counts"].toarray()
    raw = counts / counts.sum(1, keepdims=True)

    def mean_correlation(values: np.ndarray) -> float:
        return float(
            np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(values.T, truth.shares.T, strict=True) if a.std()])
        )

    assert mean_correlation(found.to_numpy()) > mean_correlation(raw) + 0.1


def test_expression_is_scaled_and_decoded_as_asked(known: tuple[Truth, CellModel]) -> None:
    truth, model = known
    some = truth.cells[:20].copy()
    observed = model.normalized_expression(some, library_size="observed", draws=0)
    np.testing.assert_allclose(observed.sum(axis=1), some.layers["counts"].sum(1).A1, rtol=1e-4)
    in_a = model.normalized_expression(some, batch="batch0", genes=["gene3"], draws=0)
    in_b = model.normalized_expression(some, batch="batch1", genes=["gene3"], draws=0)
    both = model.normalized_expression(some, batch=["batch0", "batch1"], genes=["gene3"], draws=0)
    np.testing.assert_allclose((in_a + in_b) / 2, both, rtol=1e-5)
    assert not np.allclose(in_a, in_b, rtol=0.01)
    again = [model.normalized_expression(some, random_state=seed) for seed in (0, 0, 1)]
    assert again[0].equals(again[1])
    assert not again[0].equals(again[2])


def test_what_cannot_be_decoded_is_refused(known: tuple[Truth, CellModel], cells: Any) -> None:
    truth, model = known
    with pytest.raises(ValueError, match=r"does not know the batch 'batch9'\. It knows: batch0, batch1"):
        model.normalized_expression(truth.cells, batch="batch9")
    with pytest.raises(ValueError, match="does not know the genes actb"):
        model.normalized_expression(truth.cells, genes=["actb"])
    with pytest.raises(ValueError, match="a number or \"observed\", got 'latent'"):
        model.normalized_expression(truth.cells, library_size="latent")
    cells.layers["logs"] = cells.X.log1p()
    logs = fit(cells, layer="logs", likelihood="normal", n_neighbors=None, **FAST)
    with pytest.raises(ValueError, match="needs a model of counts, and this one has the likelihood normal"):
        logs.normalized_expression(cells)
    with pytest.raises(ValueError, match="fitted without a batch key"):
        logs.normalized_expression(cells, batch="a")


def test_differential_expression_finds_the_genes_that_were_changed(known: tuple[Truth, CellModel]) -> None:
    truth, model = known
    table = model.differential_expression(truth.cells, "type", "A1", "B2", draws=1000)
    kind = np.asarray(truth.cells.obs["type"])
    mean = [np.log2(truth.shares[kind == name].mean(0)) for name in ("A1", "B2")]
    true = dict(zip(model.genes, mean[0] - mean[1], strict=True))
    lfc = np.array([true[name] for name in table.index])
    assert scipy.stats.spearmanr(table["lfc_mean"], lfc).statistic > 0.6
    assert roc_auc_score(np.abs(lfc) > 0.5, table["proba_de"]) > 0.75
    assert table["proba_de"].is_monotonic_decreasing
    called = table["is_de_fdr_0.05"].to_numpy()
    rate = (1 - table["proba_de"][called]).mean() if called.any() else 0.0
    assert rate <= 0.05
    assert set(called[: called.sum()]) <= {True}  # the most probable
    swapped = model.differential_expression(truth.cells, "type", "B2", "A1", draws=1000).loc[table.index]
    assert np.abs(swapped["lfc_mean"] + table["lfc_mean"]).max() < 0.2
    every = model.differential_expression(truth.cells, "type", draws=20)
    assert set(every["comparison"]) == {f"{name} vs rest" for name in set(kind)}


def test_groups_that_cannot_be_compared_are_refused(known: tuple[Truth, CellModel]) -> None:
    truth, model = known
    with pytest.raises(ValueError, match="no column 'kind' to group cells by"):
        model.differential_expression(truth.cells, "kind")
    with pytest.raises(ValueError, match=r"no group 'C' in obs\['type'\]"):
        model.differential_expression(truth.cells, "type", "C")
    with pytest.raises(ValueError, match="draws >= 2"):
        model.differential_expression(truth.cells, "type", "A1", draws=1)


def test_expected_false_discoveries_are_those_of_a_simulation() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 0.5, 20_000)
    changed = rng.random(len(p)) < p
    called = expected_false_discoveries(p) <= 0.1
    assert (~changed[called]).mean() == pytest.approx(0.1, abs=0.01)


def test_sampled_cells_look_like_those_they_are_drawn_for(known: tuple[Truth, CellModel]) -> None:
    truth, model = known
    made = model.sample(truth.cells)
    assert made.shape == truth.cells.shape
    assert list(made.obs["type"]) == list(truth.cells.obs["type"])
    x, y = (adata.layers["counts"].toarray() for adata in (truth.cells, made))
    assert np.array_equal(y, y.round())
    assert np.corrcoef(x.mean(0), y.mean(0))[0, 1] > 0.95
    assert abs((y == 0).mean() - (x == 0).mean()) < 0.03
    assert np.corrcoef(x.sum(1), y.sum(1))[0, 1] > 0.8
    assert (model.sample(truth.cells, prior=True).X != made.X).nnz > 0


def test_the_bound_is_lower_for_shuffled_cells(known: tuple[Truth, CellModel]) -> None:
    truth, model = known
    shuffled = truth.cells.copy()
    rng = np.random.default_rng(0)
    counts = shuffled.layers["counts"].toarray()
    shuffled.layers["counts"] = np.stack([rng.permutation(column) for column in counts.T], 1)
    kept = shuffled.layers["counts"].sum(1) > 0
    assert model.elbo(truth.cells) > model.elbo(shuffled[kept].copy()) + 1
    assert model.elbo(truth.cells, draws=4) == pytest.approx(model.elbo(truth.cells), abs=1.0)


@pytest.mark.parametrize("likelihood", ["zero_inflated_negative_binomial", "zero_inflated_gamma"])
def test_zeros_of_the_measurement_and_fractions_have_their_likelihoods(likelihood: str) -> None:
    cells = splatter(cells=120, genes=40, batches=2, dropout=0.3).cells
    if likelihood == "zero_inflated_gamma":
        cells.layers["counts"].data *= 0.93  # as if ambient counts were taken away
        with pytest.raises(ValueError, match="take the likelihood zero_inflated_gamma"):
            fit(cells, **FAST)
    model = fit(cells, batch_key="batch", likelihood=likelihood, n_neighbors=None, **FAST)
    assert np.isfinite(cells.obsm["X_poincare"]).all()
    assert np.isfinite(model.elbo(cells))
    np.testing.assert_allclose(model.normalized_expression(cells, library_size=1.0).sum(axis=1), 1.0, rtol=1e-4)


def test_only_cells_that_are_drawn_are_read_densely(
    fitted: tuple[Any, CellModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    from horoball.tables.table import ArrayTable

    cells, model = fitted
    wanted = model.differential_expression(cells, "branch", "00", "01", draws=60)
    taken: list[int] = []
    take = ArrayTable.take

    def counted(self: ArrayTable, index: Any) -> Any:
        found = take(self, index)
        taken.append(len(found))
        return found

    monkeypatch.setattr(ArrayTable, "take", counted)
    monkeypatch.setattr("horoball.cells.expression._BLOCK", 50)
    monkeypatch.setattr("horoball.cells.expression._AT_ONCE", 60)
    table = model.differential_expression(cells, "branch", "00", "01", draws=60)
    assert table.equals(wanted)
    assert max(taken) == 60
    counts = cells.layers["counts"][np.asarray(cells.obs["branch"] == "00")]
    share = np.asarray((counts > 0).mean(0)).ravel()
    np.testing.assert_allclose(table.loc[list(cells.var_names), "nonzero1"], share)
