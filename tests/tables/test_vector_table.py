from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from horoball.tables.read import read
from horoball.tables.schema import ReadOptions
from horoball.tables.table import Order
from horoball.tables.table import Table as Rows
from horoball.tables.vectors import VectorTable
from tests.commands import done, refused

HALF = pa.float16()
X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float16)


def frame(dtype: pa.DataType = HALF, *, fixed: bool = True) -> pa.Table:
    kind = pa.list_(dtype, 5) if fixed else pa.list_(dtype)
    vectors = pa.array([row.astype(dtype.to_pandas_dtype()) for row in X], kind)
    return pa.table({"id": [f"row {i}" for i in range(40)], "embedding": vectors, "kind": ["a", "b"] * 20})


def rows(table: Rows) -> np.ndarray:
    return torch.cat(list(table.blocks())).numpy()


@pytest.mark.parametrize("dtype", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("fixed", [True, False])
def test_a_list_column_of_parquet_is_read_whole_and_streamed(tmp_path: Path, dtype: pa.DataType, fixed: bool) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(frame(dtype, fixed=fixed), path, row_group_size=16)
    table = read(str(path), "kind", kind="vectors", vectors="embedding", ids="id")
    np.testing.assert_array_equal(rows(table), X.astype(np.float32))
    assert table.read_labels().tolist() == ["a", "b"] * 20
    assert list(map(str, table.read_names()))[-1] == "row 39"
    streamed = read(str(path), kind="vectors", label="kind", streamed=True)
    assert isinstance(streamed, VectorTable)
    np.testing.assert_array_equal(rows(streamed), X.astype(np.float32))
    seen = torch.cat([batch.x for batch in streamed.batches(Order(7))]).numpy()
    np.testing.assert_array_equal(np.sort(seen, 0), np.sort(X.astype(np.float32), 0))


def test_frames_and_arrays_give_the_same_vectors(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X)
    lists = pd.DataFrame({"vector": list(X.astype(np.float32)), "n": range(40)})
    for source in (frame(), lists, X, torch.from_numpy(X), str(tmp_path / "rows.npy")):
        np.testing.assert_array_equal(rows(read(source, kind="vectors")), X.astype(np.float32))


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 2.0], [3.0]], "a vector of 1 numbers in row 1, column 'v', where row 0 has 2"),
        ([[1.0, 2.0], None], "no vector in row 1"),
        ([[1.0, 2.0], [1.0, None]], "a missing or infinite number in row 1"),
        ([[1.0, 2.0], [1.0, float("inf")]], "a missing or infinite number in row 1"),
        ([[], [1.0]], "no vector in row 0"),
    ],
)
def test_vectors_that_are_none_are_refused_by_their_row(tmp_path: Path, vectors: list[object], message: str) -> None:
    table = pa.table({"v": pa.array(vectors, pa.list_(pa.float32()))})
    with pytest.raises(ValueError, match=message):
        read(table, kind="vectors")
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=message):
        read(str(tmp_path / "rows.parquet"), kind="vectors")


def test_the_column_has_to_be_clear(tmp_path: Path) -> None:
    two = frame().append_column("other", frame().column("embedding"))
    with pytest.raises(ValueError, match=r"found 2: embedding, other\. Name it with --column"):
        read(two, kind="vectors")
    with pytest.raises(ValueError, match="no column 'vec'"):
        read(two, kind="vectors", vectors="vec")
    with pytest.raises(ValueError, match="'kind' of The Table holds string, not lists of numbers"):
        read(two, kind="vectors", vectors="kind")
    with pytest.raises(ValueError, match="found none"):
        read(pa.table({"a": [1.0]}), kind="vectors")
    pq.write_table(frame().slice(0, 0), tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="has no rows"):
        VectorTable(str(tmp_path / "none.parquet"), None, ReadOptions())


def test_a_model_of_vectors_is_fitted_and_used_from_the_command_line(tmp_path: Path) -> None:
    pq.write_table(frame(), tmp_path / "rows.parquet")
    data, run = str(tmp_path / "rows.parquet"), str(tmp_path / "run")
    fit = ("--kind", "vectors", "--column", "embedding", "--id", "id", "--max-epochs", 2, "--hidden", 8, "--quiet")
    assert "von_mises_fisher" in done("fit", data, "-o", run, *fit).output
    done("tree", run, data, "-o", tmp_path / "groups.csv", "--levels", "2,5", "--draws", 0)
    groups = pd.read_csv(tmp_path / "groups.csv")
    assert groups["id"].tolist()[:2] == ["row 0", "row 1"]
    assert groups["groups_5"].nunique() == 5
    told = done("tree", run, data, "-o", tmp_path / "none.csv", "--levels", "2,5", "--draws", 4).output
    assert "No branch is sure enough for a group" in told  # the rows are noise
    levels = ["groups_0", "names_0", "groups_0_of_level_2", "names_0_of_level_2"]
    assert pd.read_csv(tmp_path / "none.csv").columns.tolist() == ["id", "leaf", *levels]
    assert "Say so: --kind vectors" in refused("fit", data, "-o", tmp_path / "other", "--column", "embedding")
    wrong = ("--kind", "vectors", "--drop", "id")
    assert "--columns and --drop are for tables" in refused("fit", data, "-o", tmp_path / "other", *wrong)


def test_a_large_npy_file_is_streamed_and_gives_the_same_rows(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(20_000, 6)).astype(np.float16)
    path = tmp_path / "vectors.npy"
    np.save(path, x)
    table, held = (read(path, kind="vectors", streamed=streamed) for streamed in (True, False))
    assert type(table).__name__ == "MappedVectors"
    assert torch.equal(torch.cat(list(table.blocks())), torch.cat(list(held.blocks())))
    batches = [batch.x for batch in table.batches(Order(512, 0))]
    assert sorted(torch.cat(batches)[:, 0].tolist()) == sorted(x[:, 0].astype(float).tolist())
    kept, out = table.split(0.1, 0)
    assert out is not None
    assert kept.rows + out.rows == 20_000
    assert type(read(path, kind="vectors")).__name__ == "ArrayTable"  # small ones are held


def test_what_a_npy_file_cannot_hold_is_refused(tmp_path: Path) -> None:
    for name, x, words in (
        ("flat", np.zeros(3), "expected \\(rows, numbers\\)"),
        ("text", np.array([["a"]]), "not numbers"),
        ("objects", np.array([[{}]], object), "not a readable"),
    ):
        np.save(tmp_path / f"{name}.npy", x, allow_pickle=True)
        with pytest.raises(ValueError, match=words):
            read(tmp_path / f"{name}.npy", kind="vectors", streamed=True)
    x = np.ones((9000, 2))
    x[8500, 1] = np.nan
    np.save(tmp_path / "gap.npy", x)
    with pytest.raises(ValueError, match="infinite number in row 8500"):
        list(read(tmp_path / "gap.npy", kind="vectors", streamed=True).blocks())
    whole = (tmp_path / "gap.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-100])
    with pytest.raises(ValueError, match="not a readable"):
        read(tmp_path / "cut.npy", kind="vectors", streamed=True)
