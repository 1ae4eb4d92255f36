"""An Iceberg table in a store: its metadata and its files are read there."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from horoball.tables import read

sql = pytest.importorskip("pyiceberg.catalog.sql")


def test_rows_that_are_left_are_read_from_a_store(s3_server: None, tmp_path: Path) -> None:
    catalog = sql.SqlCatalog(
        "test",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse="s3://bucket/iceberg",
        **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO", "s3.endpoint": os.environ["AWS_ENDPOINT_URL"]},
    )
    catalog.create_namespace("rows")
    rows = pa.table({"a": np.arange(40.0), "b": np.arange(40.0) ** 2, "t": [f"x {i % 3}" for i in range(40)]})
    table = catalog.create_table("rows.stored", rows.schema)
    table.append(rows)
    table.delete("a < 10")
    url = table.location()
    assert url.startswith("s3://bucket/iceberg/")
    found = read(url)
    assert found.rows == 30
    assert sorted(next(found.blocks())[:, 0].tolist()) == list(range(10, 40))
    with pytest.raises(ValueError, match="part of the Iceberg table"):
        read(f"{url}/data")
