"""The same rows give the same model, whichever kind of file they come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

from horoball.tables import ArrayTable, Table, parquet, read
from horoball.training import TrainConfig
from horoball.vae.train import train

ROWS, FEATURES = 300, 4


def frame(dtype: str) -> pa.Table:
    x = np.random.default_rng(0).normal(size=(ROWS, FEATURES)).astype(dtype)
    columns: dict[str, object] = {f"x{i}": column for i, column in enumerate(x.T)}
    kinds = np.repeat(["u", "v", "w"], ROWS // 3)
    return pa.table(columns | {"key": [f"{i:04d}" for i in range(ROWS)], "kind": kinds})


def as_csv(rows: pa.Table, folder: Path) -> Path:
    pa.csv.write_csv(rows, folder / "rows.csv")
    return folder / "rows.csv"


def as_parquet(rows: pa.Table, folder: Path) -> Path:
    pq.write_table(rows, folder / "rows.parquet", row_group_size=70)
    return folder / "rows.parquet"


def as_folder(rows: pa.Table, folder: Path) -> Path:
    (folder / "parts").mkdir()
    for part in range(3):
        pq.write_table(rows.slice(100 * part, 100), folder / "parts" / f"{part}.parquet", row_group_size=30)
    return folder / "parts"


def load(path: Path, **options: object) -> Table:
    return read(path, "kind", ids="key", **options, kind="numbers")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("write", [as_parquet, as_folder])
def test_a_small_parquet_table_gives_the_weights_of_the_same_csv(
    write: object, dtype: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = frame(dtype)
    tables = [load(as_csv(rows, tmp_path)), load(write(rows, tmp_path))]  # type: ignore[operator]
    assert tables[0].fingerprint() == tables[1].fingerprint()
    assert tables[0].columns == tables[1].columns
    assert tables[0].read_labels().tolist() == tables[1].read_labels().tolist()
    assert list(tables[0].read_names()) == tables[1].read_names().to_pylist()
    config = TrainConfig(max_epochs=2, distance_weight=1.0)
    first, second = (train(table, {"hidden": (8,)}, config).model.state_dict() for table in tables)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert "streamed" not in caplog.text


def test_a_table_beyond_the_limit_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, decoded = as_parquet(frame("float32"), tmp_path), 4 * ROWS * FEATURES
    assert isinstance(load(path), ArrayTable)
    assert parquet.MAX_BYTES_IN_MEMORY == 256 << 20
    monkeypatch.setattr(parquet, "MAX_BYTES_IN_MEMORY", decoded)
    assert isinstance(load(path), parquet.ParquetTable)  # the label and the ids count, too
    assert isinstance(read(path, columns=[f"x{i}" for i in range(FEATURES)], kind="numbers"), ArrayTable)
    monkeypatch.setattr(parquet, "MAX_BYTES_IN_MEMORY", decoded - 1)
    assert isinstance(read(path, columns=[f"x{i}" for i in range(FEATURES)], kind="numbers"), parquet.ParquetTable)


@pytest.mark.parametrize("streamed", [True, False])
def test_streaming_may_be_asked_for(streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MAX_BYTES_IN_MEMORY", 0 if not streamed else 1 << 30)
    for write in (as_parquet, as_folder):
        table = load(write(frame("float32"), tmp_path), streamed=streamed)
        assert isinstance(table, parquet.ParquetTable) == streamed


def test_what_cannot_be_streamed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Only \.parquet files can be streamed.*rows\.csv"):
        load(as_csv(frame("float32"), tmp_path), streamed=True)
    with pytest.raises(ValueError, match="Only files are streamed, not ndarray"):
        read(np.eye(3), streamed=True, kind="numbers")
