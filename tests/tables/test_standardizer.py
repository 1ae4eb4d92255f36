from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from horoball.tables.covariates import Covariates
from horoball.tables.scaling import Standardized, Standardizer, Summary, common_spread, summarize
from horoball.tables.table import ArrayTable, Order
from horoball.training import TrainConfig
from horoball.vae.run import Run
from horoball.vae.train import train


def rows_of(rows: int = 57) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(rows, 4)) * [1.0, 1e-3, 50.0, 1.0] + [0.0, 1e3, -1.0, 1e-4]).astype(np.float32)


@pytest.mark.parametrize("block", [1, 2, 10, 56, 57])
def test_a_summary_of_blocks_is_that_of_all_rows(block: int) -> None:
    x = rows_of()
    summary = Summary(4)
    for part in torch.from_numpy(x).split(block):
        summary.add(part)
    truth = x.astype(np.float64)
    assert summary.rows == len(x)
    np.testing.assert_allclose(summary.mean.numpy(), truth.mean(0), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(summary.std.numpy(), truth.std(0), rtol=1e-6)  # column 1: no cancellation at 1e3
    np.testing.assert_array_equal(summary.low.numpy(), x.min(0))
    np.testing.assert_array_equal(summary.high.numpy(), x.max(0))


def test_a_table_is_summarized_over_its_blocks() -> None:
    x = np.random.default_rng(0).normal(size=(70_000, 2)).astype(np.float32)  # more than one block of 65,536
    summary = summarize(ArrayTable(x))
    assert summary.rows == 70_000
    np.testing.assert_allclose(summary.mean.numpy(), x.astype(np.float64).mean(0), rtol=1e-5)
    np.testing.assert_allclose(summary.std.numpy(), x.astype(np.float64).std(0), rtol=1e-6)


def test_a_block_without_rows_adds_nothing() -> None:
    """Parquet files may hold row groups without rows."""
    summary = Summary(2)
    for block in (torch.empty(0, 2), torch.tensor([[1.0, 2.0], [3.0, 2.0]]), torch.empty(0, 2)):
        summary.add(block)
    assert summary.rows == 2
    assert summary.mean.tolist() == [2.0, 2.0]
    assert summary.std.tolist() == [1.0, 0.0]
    assert summary.high.tolist() == [3.0, 2.0]


@pytest.mark.parametrize(("values", "whole"), [([0.0, 3.0, -2.0], True), ([0.0, 3.0, 0.5], False)])
def test_whole_numbers_are_told_from_others(values: list[float], whole: bool) -> None:
    assert summarize(ArrayTable(np.array(values)[:, None])).whole is whole


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(value: float) -> None:
    x = rows_of()
    x[30, 2] = value
    with pytest.raises(ValueError, match=r"missing or infinite value in row 30, column 'x2'\. Fill or drop"):
        summarize(ArrayTable(x))


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6, 1e-20, 3e30])
def test_a_constant_feature_becomes_zero_and_comes_back(value: float) -> None:
    x = np.full((1001, 1), value, np.float32)
    summary = summarize(ArrayTable(x))
    scaler = Standardizer.of(summary.spread)
    scaled = scaler(torch.from_numpy(x))
    assert scaler.std.tolist() == [1.0]
    assert torch.equal(scaled, torch.zeros_like(scaled))
    assert torch.equal(scaler.inverse(scaled), torch.from_numpy(x))


def test_a_feature_that_varies_by_its_rounding_alone_stays_small() -> None:
    x = torch.from_numpy((1.7e9 + np.random.default_rng(0).uniform(0, 300, (200, 1))).astype(np.float32))
    summary = summarize(ArrayTable(x))
    assert summary.std > 0
    scaled = Standardizer.of(summary.spread)(x)
    assert scaled.abs().max() <= 2


@pytest.mark.parametrize("unit", [1e-23, 1.0, 1e20])
def test_columns_of_one_unit_are_scaled_whatever_it_is_and_constants_do_not_count(unit: float) -> None:
    x = torch.zeros(500, 100)
    x[:, :3] = unit * torch.randn(500, 3, generator=torch.Generator().manual_seed(0))
    spread = common_spread(summarize(ArrayTable(x)).std)
    assert spread is not None
    assert float(spread) == pytest.approx(unit, rel=0.1)


def test_scaled_rows_have_mean_zero_and_standard_deviation_one_and_come_back() -> None:
    x = torch.from_numpy(rows_of())
    summary = summarize(ArrayTable(x))
    scaler = Standardizer.of(summary.spread)
    scaled = scaler(x)
    kept = [0, 2, 3]  # column 1 is 1000 ± 0.001: float32 has some thirty steps there
    assert torch.allclose(scaled.mean(0)[kept], torch.zeros(3), atol=1e-6)
    assert torch.allclose(scaled.std(0, correction=0)[kept], torch.ones(3), atol=1e-6)
    assert torch.allclose(scaler.inverse(scaled), x, rtol=1e-6, atol=1e-5)


def test_a_table_seen_through_a_standardizer_is_the_scaled_table() -> None:
    x = torch.from_numpy(rows_of())
    scaler = Standardizer(torch.arange(4.0), torch.full((4,), 2.0))
    table = ArrayTable(x, list("abcd"), np.arange(len(x)))
    scaled, expected = Standardized(table, scaler), ArrayTable(scaler(x))
    assert (scaled.rows, scaled.features, scaled.columns) == (57, 4, list("abcd"))
    assert scaled.labels is table.labels
    assert torch.equal(torch.cat(list(scaled.blocks(10))), scaler(x))
    order = Order(8, 3, 1, 1, 2)
    assert scaled.steps(order) == expected.steps(order)
    for a, b in zip(scaled.batches(order), expected.batches(order), strict=True):
        assert torch.equal(a.x, b.x)
        assert (a.total, a.noise) == (b.total, b.noise)
    for a, b in zip(scaled.split(0.2), expected.split(0.2), strict=True):
        assert torch.equal(next(a.blocks()), next(b.blocks()))
    assert scaled.split(0.0)[1] is None


def test_rows_of_zeros_and_a_number_that_is_not_whole_are_noticed() -> None:
    summary = summarize(ArrayTable(np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])))
    assert (summary.empty, summary.whole, summary.odd) == (2, True, None)
    summary = summarize(ArrayTable(np.array([[0.0, 3.0], [2.5, 1.0], [1.25, 0.0]])))
    assert (summary.empty, summary.whole, summary.odd) == (0, False, 2.5)


def test_codes_of_covariates_are_neither_summarized_nor_scaled() -> None:
    x = np.random.default_rng(0).normal(3.0, 2.0, (40, 3)).astype(np.float32)
    table = ArrayTable(x, covariates=Covariates.of({"batch": np.arange(40) % 4}))
    summary = summarize(table)
    assert summary.mean.shape == (3,)
    seen = Standardized(table, Standardizer.of(summary.spread))
    assert (seen.features, seen.width) == (3, 4)
    for rows in (torch.cat(list(seen.blocks())), next(seen.batches(Order(40, None))).x):
        assert torch.equal(rows[:, 3], torch.arange(40) % 4)
        assert torch.allclose(rows[:, :3].mean(0), torch.zeros(3), atol=1e-6)


@pytest.mark.parametrize("wide", [1.0, 1e4], ids=["one spread", "each by itself"])
def test_a_large_constant_comes_back_from_a_model_and_from_its_file(wide: float, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 4))
    x[:, 1], x[:, 3] = 20240101.0, wide * x[:, 3]
    run = train(ArrayTable(x), {"hidden": (8,), "likelihood": "normal"}, TrainConfig(max_epochs=2))
    run.save(tmp_path)
    for model in (run, Run.load(tmp_path)):
        rows = model.unscaled(model.model.mean(torch.zeros(3, 2)))
        assert (rows[:, 1] - 20240101.0).abs().max() <= 100
    assert torch.equal(run.scaler.std, Run.load(tmp_path).scaler.std)
