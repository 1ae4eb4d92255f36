"""The terms of a map for tables that are streamed: through a sample of the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from horoball.data import ArrayTable, Order, geodesics
from horoball.data.readers.parquet import ParquetTable
from horoball.training.request import table_fit
from horoball.training.table.run import train
from horoball.training.table.sampled import with_sample

X = torch.randn(90, 3, generator=torch.Generator().manual_seed(0))


def test_rows_of_the_sample_have_their_own_geodesics() -> None:
    table, _, term = with_sample(ArrayTable(X), None, lambda x: x, partners=True)
    assert torch.equal(term.landmarks, X)
    batch = next(table.batches(Order(90, seed=None)))
    lengths = geodesics(X.numpy())
    assert batch.side is not None
    np.testing.assert_allclose(batch.side.numpy(), lengths / np.median(lengths[lengths > 0]), rtol=1e-4, atol=1e-5)


def test_partners_are_near_and_the_same_when_a_run_is_resumed() -> None:
    table, held, _ = with_sample(ArrayTable(X[:60]), ArrayTable(X[60:]), lambda x: x, partners=True)
    assert held is not None
    batch = next(held.batches(Order(30, seed=None)))
    assert batch.partners is not None
    ranks = torch.cdist(batch.x, X[:60]).argsort(1).argsort(1)
    number = (batch.partners[:, None] == X[:60]).all(-1).int().argmax(1)
    assert int(ranks.gather(1, number[:, None]).max()) < 15
    whole = [each.partners for each in table.batches(Order(20, epoch=3))]
    later = [each.partners for each in table.batches(Order(20, epoch=3, start=1))]
    assert all(torch.equal(a, b) for a, b in zip(whole[1:], later, strict=True))  # type: ignore[arg-type]


def test_a_streamed_table_is_fitted_with_both_terms(tmp_path: Path) -> None:
    columns = {f"x{k}": column.numpy() for k, column in enumerate(X.T)}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=30)
    table = ParquetTable([str(tmp_path / "rows.parquet")])
    model, config = table_fit(table, hidden=(8,), max_epochs=2)
    assert config.distance_weight == 50
    run = train(table, model, config)
    assert {"distance", "neighbor"} <= run.history[-1].keys()
