"""What is no number is refused with advice, wherever it comes from: masks, dates, durations, complex numbers."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import torch

from horoball import PoincareVAE
from horoball.graphs import read_graph
from horoball.tables import ArrayTable, read
from tests.late import late

pl = late("polars")

ROWS = 30
DAYS = np.datetime64("2026-01-01") + np.arange(ROWS)
COLUMNS: dict[str, tuple[np.ndarray, str]] = {
    "dates": (DAYS, "days since"),
    "dates to the nanosecond": (DAYS.astype("datetime64[ns]"), "days since"),
    "durations": ((DAYS - DAYS[0]).astype("timedelta64[s]"), "seconds"),
    "complex numbers": (np.arange(ROWS) * 1j, "imaginary part as two columns"),
    "objects that are dates": (DAYS.astype(object), "days since"),
    "objects that are times": (np.array([datetime.datetime(2026, 1, 1)] * ROWS, dtype=object), "days since"),
    "objects that are durations": ((DAYS - DAYS[0]).astype(object), "seconds"),
    "masked values": (np.ma.masked_equal(np.arange(ROWS, dtype=float), 7.0), "1 masked value.*filled"),
}
TAKEN: dict[str, Callable[[Any], object]] = {
    "read": read,
    "a table": ArrayTable,
    "an estimator": lambda x: PoincareVAE(max_epochs=1, hidden=(4,)).fit(x),
    "features of nodes": lambda x: read_graph([(i, i + 1) for i in range(ROWS - 1)], x),
}


@pytest.mark.parametrize("taker", TAKEN)
@pytest.mark.parametrize("case", COLUMNS)
def test_an_array_that_holds_no_numbers_is_refused_with_advice(case: str, taker: str) -> None:
    column, advice = COLUMNS[case]
    with pytest.raises(ValueError, match=advice):
        TAKEN[taker](column[:, None])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("case", ["dates", "durations", "objects that are dates", "objects that are durations"])
def test_a_frame_with_such_a_column_is_no_table_of_numbers_but_can_be_fitted(case: str, make: Any) -> None:
    column, advice = COLUMNS[case]
    kept = (
        column.astype("datetime64[ms]" if "dates" in case else "timedelta64[ms]") if "objects" not in case else column
    )
    frame = make({"a": np.arange(float(ROWS)), "when": kept.tolist() if "objects" in case else kept})
    with pytest.raises(ValueError, match=rf"Column 'when' of the data frame holds .*{advice}"):
        read(frame, kind="numbers")
    model = PoincareVAE(max_epochs=1, hidden=(4,), columns={"a": "real"}).fit(frame)
    assert model.columns_["when"][0] == ("date" if "dates" in case else "count")  # of seconds


@pytest.mark.parametrize("taker", ["read", "a table"])
def test_complex_tensors_and_sparse_matrices_are_refused(taker: str) -> None:
    for x in (torch.ones(3, 2, dtype=torch.complex64), scipy.sparse.csr_matrix(np.ones((3, 2)) * 1j)):
        with pytest.raises(ValueError, match=r"complex.*not numbers.*two columns"):
            TAKEN[taker](x)


@pytest.mark.parametrize(
    "column",
    [pa.array([datetime.date(2026, 1, 1)]), pa.array([datetime.timedelta(1)]), pa.array([datetime.time(3)])],
    ids=str,
)
def test_dates_in_parquet_are_refused_with_advice(column: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0], "when": column}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"Column 'when' of .*x\.parquet holds .*into numbers first"):
        read(tmp_path / "x.parquet", kind="numbers")


@pytest.mark.parametrize("cell", ["2026-01-31", "2026-01-31 12:30:00", "12:30:00"])
def test_dates_in_text_are_refused_with_advice(cell: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"a,when\n1,{cell}\n")
    with pytest.raises(ValueError, match=r"Column 'when' of .*x\.csv holds dates or times.*into numbers first"):
        read(tmp_path / "x.csv", kind="numbers")


def test_dates_in_npy_are_refused_with_advice(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", DAYS[:, None])
    with pytest.raises(ValueError, match=r"x\.npy holds datetime64.*days since"):
        read(tmp_path / "x.npy", kind="numbers")


def test_datasets_of_complex_or_masked_rows_are_refused() -> None:
    for row in (torch.ones(2, dtype=torch.complex64), np.ma.masked_equal([1.0, 2.0], 2.0)):
        with pytest.raises(ValueError, match=r"The dataset (holds complex|has 1 masked)"):
            read([(row, "u"), (row, "v")], kind="numbers")


def test_a_mask_that_hides_nothing_is_no_hindrance() -> None:
    x = np.ma.masked_array(np.eye(3), mask=False)
    np.testing.assert_array_equal(next(read(x, kind="numbers").blocks()), np.eye(3))
    np.testing.assert_array_equal(next(read(np.eye(3) > 0, kind="numbers").blocks()), np.eye(3))


def test_edges_between_masked_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"masked value|lacks a node id"):
        read_graph(np.ma.masked_equal([[0, 1], [1, 2]], 2))
