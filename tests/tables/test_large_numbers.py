"""Numbers of types that are seldom met: decimals, and whole numbers beyond 64 bits."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from horoball.graphs import read_graph
from horoball.tables import read

VALUES = [Decimal(i * i) / 4 for i in range(30)]


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize("kind", [pa.decimal128(12, 2), pa.decimal256(60, 4)])
def test_decimals_are_numbers(tmp_path: Path, ending: str, kind: pa.DataType) -> None:
    table = pa.table({"a": pa.array(VALUES, kind), "b": np.arange(30.0)})
    path = str(tmp_path / f"rows.{ending}")
    if ending == "parquet":
        pq.write_table(table, path)
    else:
        feather.write_feather(table, path)
    expected = [float(value) for value in VALUES]
    for found in (read(path, kind="numbers"), read(path)):
        assert next(iter(found.blocks()))[:, 0].tolist() == expected


def test_decimals_are_streamed_alike(tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"a": pa.array(VALUES, pa.decimal128(12, 2))}), path)
    assert next(iter(read(path, streamed=True, kind="numbers").blocks()))[:, 0].tolist() == [
        float(value) for value in VALUES
    ]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_whole_numbers_beyond_64_bits_are_not_called_equal(tmp_path: Path, ending: str) -> None:
    numbers = [2**66 + i for i in range(30)]
    rows = {
        "csv": ["n,x", *[f"{n},{i * 0.5}" for i, n in enumerate(numbers)]],
        "jsonl": [f'{{"n": {n}, "x": {i * 0.5}}}' for i, n in enumerate(numbers)],
    }
    (tmp_path / f"rows.{ending}").write_text("\n".join(rows[ending]) + "\n")
    schema = read(str(tmp_path / f"rows.{ending}")).schema
    assert schema is not None
    assert (
        schema.skipped[0].reason
        == "one number, 7.3787e+19, in 64 bits, which cannot tell numbers apart that are near it"
    )


def test_features_of_nodes_beyond_float32_are_not_called_infinite() -> None:
    features = np.ones((3, 2))
    features[1, 1] = 1e200
    with pytest.raises(ValueError, match=r"1e\+200 in row 1, column '1', which is beyond 3\.4e38"):
        read_graph([(0, 1), (1, 2)], features)
    features[1, 1] = np.inf
    with pytest.raises(ValueError, match="a missing or infinite value in row 1, column 1"):
        read_graph([(0, 1), (1, 2)], features)
