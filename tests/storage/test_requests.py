"""How often a store is asked: every process lists and opens a table's files once a reading."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.tables import read

FILES = 12


@pytest.mark.parametrize("kinds", ["numbers", "several"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_file_is_opened_once_a_reading(
    kinds: str, streamed: bool, s3_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    system, folder = fsspec.filesystem("s3"), f"bucket/requests/{kinds}/{streamed}"
    for number in range(FILES):
        rng, data = np.random.default_rng(number), io.BytesIO()
        more = {"t": ["x", "y"] * 50} if kinds == "several" else {}
        pq.write_table(pa.table({name: rng.normal(size=100) for name in "abc"} | more), data)
        system.pipe_file(f"{folder}/{number:04d}.parquet", data.getvalue())
    count, call = Counter[str](), s3fs.S3FileSystem._call_s3

    async def counted(self: Any, method: str, *args: Any, **options: Any) -> Any:
        count[method] += 1
        return await call(self, method, *args, **options)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", counted)
    table = read(f"s3://{folder}", streamed=streamed)
    assert sum(len(block) for block in table.blocks()) == 100 * FILES
    assert count["get_object"] == FILES  # small files are read whole
    assert count["head_object"] <= FILES + 3  # and is there a Delta log above?
    assert count["list_objects_v2"] <= 8
