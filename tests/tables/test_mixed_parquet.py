"""Mixed tables in Parquet files: texts are read as the dictionaries that the files hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from horoball.tables import parquet
from horoball.tables.mixed import UnseenValueWarning
from horoball.tables.read import Reading, read


def frame(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    kind = pd.Series(rng.choice(["red", "green", "blue"], rows)).mask(rng.random(rows) < 0.1)
    return pd.DataFrame({"a": rng.normal(size=rows), "kind": kind, "sure": rng.choice(["yes", "no"], rows)})


def test_a_streamed_table_has_the_rows_of_one_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.parquet"
    frame().to_parquet(path, row_group_size=70)
    held = read(path)
    monkeypatch.setattr(parquet, "MAX_BYTES_IN_MEMORY", 0)
    streamed = read(path)
    assert type(streamed).__name__ == "MixedParquetTable"
    assert streamed.schema == held.schema
    direct = read(frame())
    for table in (held, streamed):
        torch.testing.assert_close(torch.cat(list(table.blocks())), torch.cat(list(direct.blocks())), equal_nan=True)


def test_a_text_is_unseen_only_where_it_occurs(tmp_path: Path) -> None:
    schema = read(frame()).schema
    assert schema is not None
    rows = frame(20).assign(kind=pd.Categorical(["red"] * 20, ["red", "violet"]))
    rows.to_parquet(tmp_path / "rows.parquet")
    for source in (rows, tmp_path / "rows.parquet"):
        read(source, like=Reading("mixed", schema.names, schema))  # without a warning: no row is violet
    rows.loc[3, "kind"] = "violet"
    with pytest.warns(UnseenValueWarning, match="1 value that the model has not seen is taken .* kind 'violet'"):
        assert bool(next(read(rows, like=Reading("mixed", schema.names, schema)).blocks())[3, 1].isnan())


def test_a_copy_is_found_whatever_the_order_of_its_dictionary(tmp_path: Path) -> None:
    rows = frame().assign(copied=lambda x: pd.Categorical(x["kind"], ["red", "blue", "green"]))
    rows.to_parquet(tmp_path / "rows.parquet")
    for source in (rows, tmp_path / "rows.parquet"):
        schema = read(source).schema
        assert schema is not None
        assert [(column.name, column.reason) for column in schema.skipped] == [("copied", "the same as kind")]
