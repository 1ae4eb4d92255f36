"""The terms of a map for tables that are streamed: through a sample of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from horoball.tables import ArrayTable, Order, geodesics
from horoball.tables.covariates import Covariates
from horoball.tables.parquet import ParquetTable
from horoball.tables.table import held_out
from horoball.vae import DistanceTerm, PlaceTerm, layout, map_term
from horoball.vae.map_term import SampledTable, with_sample
from horoball.vae.options import table_fit
from horoball.vae.train import train

X = torch.randn(90, 3, generator=torch.Generator().manual_seed(0))


def test_rows_of_the_sample_have_their_own_geodesics() -> None:
    table, _, term = with_sample(ArrayTable(X), None, lambda x: x)
    assert isinstance(term, DistanceTerm)
    assert term.landmarks is None
    batch = next(table.batches(Order(90, seed=None)))
    lengths = geodesics(X.numpy())
    assert batch.side is not None
    np.testing.assert_allclose(batch.side.numpy(), lengths / np.median(lengths[lengths > 0]), rtol=1e-4, atol=1e-5)


def test_a_row_belongs_where_its_nearest_row_of_the_sample_is() -> None:
    def places(x: torch.Tensor, *_: Any) -> torch.Tensor:
        return x[:, :2]

    _, held, term = with_sample(ArrayTable(X[:60]), ArrayTable(X[60:]), lambda x: x, places=places)
    assert isinstance(term, PlaceTerm)
    assert held is not None
    batch = next(held.batches(Order(30, seed=None)))
    assert batch.side is not None
    assert torch.equal(batch.side, X[:60][torch.cdist(batch.x, X[:60]).argmin(1), :2])


def test_distances_across_categories_are_not_known() -> None:
    group = np.array(["a"] * 40 + ["b"] * 49 + ["alone"])
    table = ArrayTable(X, covariates=Covariates.of({"batch": group}))
    rows, _, _ = with_sample(table, None, lambda x: x)
    side = next(rows.batches(Order(90, seed=None))).side
    assert side is not None
    for name, count in (("a", 40), ("b", 49)):
        inside = geodesics(X[group == name].numpy())
        own = side[group == name][:, (known := side[group == name].isfinite().all(0))]
        assert known.sum() == count
        np.testing.assert_allclose(own / own.max(), inside / inside.max(), rtol=1e-4, atol=1e-5)
        assert not side[group == name][:, ~known].isfinite().any()
    assert not side[-1].isfinite().any()


def test_distances_of_counts_are_those_of_cells_in_memory() -> None:
    counts = torch.poisson(torch.rand(300, 80, generator=torch.Generator().manual_seed(1)) * 4)
    rows, _, _ = with_sample(ArrayTable(counts), None, lambda x: x, library=True)
    side = next(rows.batches(Order(300, seed=None))).side
    assert side is not None
    in_memory = layout.surveyed(ArrayTable(counts), library=True).lengths
    np.testing.assert_allclose(side.numpy(), in_memory.numpy(), rtol=1e-3, atol=1e-4)


def test_a_streamed_table_is_fitted_to_a_layout(tmp_path: Path) -> None:
    columns = {f"x{k}": column.numpy() for k, column in enumerate(X.T)}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=30)
    table = ParquetTable([str(tmp_path / "rows.parquet")])
    model, config = table_fit(table, hidden=(8,), max_epochs=2)
    assert config.distance_weight == 50
    run = train(table, model, config)
    assert "place" in run.history[-1]


def test_places_of_rows_in_memory_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def numbered(*given: Any, **_: Any) -> torch.Tensor:
        return torch.arange(len(given[3])).unsqueeze(1).expand(-1, 2) / 100

    def refused(*_: Any) -> None:
        raise AssertionError("A batch looks for its places.")

    def noted(table: ArrayTable, side: torch.Tensor) -> ArrayTable:
        kept.append(side)
        return beside(table, side)

    kept: list[torch.Tensor] = []
    beside = ArrayTable.beside
    monkeypatch.setattr(ArrayTable, "beside", noted)
    monkeypatch.setattr(layout, "_MAX_MULTIPLICATIONS", 0)
    monkeypatch.setattr(map_term, "layout", numbered)
    monkeypatch.setattr(SampledTable, "batches", refused)
    table = ArrayTable(X)
    model, config = table_fit(table, hidden=(8,), max_epochs=2)
    assert "place" in train(table, model, config).history[-1]
    held = held_out(len(X), config.validation, config.seed)
    seen = np.setdiff1d(np.arange(len(X)), held)
    assert torch.equal(kept[0][seen], numbered(*[seen] * 4))
    nearest = torch.cdist(X[held], X[seen]).argmin(1)
    assert torch.equal(kept[0][held], numbered(*[seen] * 4)[nearest])
