"""The terms of a map for tables that are streamed: through a sample of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from horoball.tables import ArrayTable, Order, geodesics
from horoball.tables.parquet import ParquetTable
from horoball.tables.table import Batch
from horoball.vae import DistanceTerm, PlaceTerm, layout
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


def test_a_streamed_table_is_fitted_to_a_layout(tmp_path: Path) -> None:
    columns = {f"x{k}": column.numpy() for k, column in enumerate(X.T)}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=30)
    table = ParquetTable([str(tmp_path / "rows.parquet")])
    model, config = table_fit(table, hidden=(8,), max_epochs=2)
    assert config.distance_weight == 50
    run = train(table, model, config)
    assert "place" in run.history[-1]


def test_places_of_rows_in_memory_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(self: SampledTable, order: Order) -> Iterator[Batch]:
        seen.append(order.epoch)
        return iter(())

    monkeypatch.setattr(layout, "_MAX_MULTIPLICATIONS", 0)
    monkeypatch.setattr(SampledTable, "batches", counted)
    table = ArrayTable(X)
    model, config = table_fit(table, hidden=(8,), max_epochs=2)
    run = train(table, model, config)
    assert "place" in run.history[-1]
    assert not seen
