"""Folders of Parquet files that were not written with one schema."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.tables import read

COLUMNS = {
    "numbers": pa.array(np.arange(40) % 7 + 0.5),
    "counts": pa.array(np.arange(40) % 6),
    "small": pa.array(np.arange(40) % 6, pa.uint8()),
    "decimals": pa.array(np.arange(40) % 6).cast(pa.decimal128(24, 2)),
    "truths": pa.array(np.arange(40) % 2 == 0),
    "text": pa.array(["u", "v"] * 20),
    "long text": pa.array(["u", "w"] * 20, pa.large_string()),
    "codes": pa.array(["u", "w"] * 20).dictionary_encode(),
    "days": pa.array(np.arange(40, dtype=np.int32), pa.int32()).cast(pa.date32()),
    "times": pa.array(np.arange(40) * 86_400_000, pa.timestamp("ms")),
    "zoned": pa.array(np.arange(40) * 86_400_000, pa.timestamp("ms", "UTC")),
    "nothing": pa.nulls(40),
}


def folder(path: Path, *columns: str) -> str:
    for number, name in enumerate(columns):
        table = pa.table({"a": np.arange(40) * 0.37, "b": COLUMNS[name], "t": ["r", "s"] * 20})
        pq.write_table(table, path / f"{number}.parquet")
    return str(path)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("truths", "counts"),
        ("counts", "truths"),
        ("text", "counts"),
        ("numbers", "text"),
        ("days", "counts"),
        ("days", "text"),
        ("times", "zoned"),
    ],
)
def test_a_column_of_other_values_than_in_the_first_file_is_refused(tmp_path: Path, first: str, second: str) -> None:
    said = rf"'b' holds {COLUMNS[first].type}.* in .*0\.parquet and .* in .*1\.parquet\. Write it with one type"
    with pytest.raises(ValueError, match=said.replace("[", r"\[").replace("]", r"\]")):
        read(folder(tmp_path, first, second))


def test_the_file_that_a_type_comes_from_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'b' holds int64 in .*1\.parquet and string in .*2\.parquet"):
        read(folder(tmp_path, "nothing", "counts", "text"))


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (("nothing", "numbers"), "real"),
        (("numbers", "nothing"), "real"),
        (("numbers", "counts"), "real"),
        (("counts", "numbers"), "real"),
        (("small", "counts"), "count"),
        (("decimals", "counts"), "count"),
        (("nothing", "truths"), "binary"),
        (("nothing", "text"), "binary"),
        (("text", "nothing"), "binary"),
        (("text", "codes"), "category"),
        (("codes", "text"), "category"),
        (("nothing", "codes"), "binary"),
        (("long text", "text", "nothing"), "category"),
        (("days", "nothing"), "date"),
        (("nothing", "days"), "date"),
        (("days", "times"), "date"),
    ],
)
def test_a_column_is_the_same_as_if_one_file_held_it(tmp_path: Path, columns: tuple[str, ...], kind: str) -> None:
    table = read(folder(tmp_path, *columns))
    assert table.schema is not None
    found = next(column for column in table.schema.columns if column.name == "b")
    assert found.kind == kind
    x = np.concatenate(list(table.blocks()))
    start = 0
    for name in columns:  # as the file alone is read, by what the column was found to be
        rows = x[start : start + 40]
        values = COLUMNS[name].to_pylist()
        assert (np.isnan(rows[:, 1]) == [value is None for value in values]).all()
        if kind in ("real", "count"):
            assert [v for v in rows[:, 1].tolist() if v == v] == [float(v) for v in values if v is not None]
        elif found.levels:
            told = [None if code != code else found.levels[int(code)] for code in rows[:, 1]]
            assert told == values
        start += 40


def test_labels_of_a_file_without_any_are_missing(tmp_path: Path) -> None:
    folder(tmp_path, "nothing", "text")
    labels = read(str(tmp_path), "b").read_labels()
    assert labels is not None
    assert labels.tolist() == [None] * 40 + ["u", "v"] * 20


def test_a_table_of_numbers_is_refused_alike(tmp_path: Path) -> None:
    for number, name in enumerate(("truths", "counts")):
        pq.write_table(pa.table({"b": COLUMNS[name]}), tmp_path / f"{number}.parquet")
    with pytest.raises(ValueError, match=r"'b' holds bool in .* and int64 in .* one type"):
        read(str(tmp_path), kind="numbers")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["a", "t"], "has no column 'b'"),
        (["a", "b", "t", "z"], "has a column 'z' more"),
        (["t", "a", "b"], "has the same columns in another order"),
    ],
)
def test_a_file_with_other_columns_is_named_with_one_of_them(tmp_path: Path, columns: list[str], said: str) -> None:
    folder(tmp_path, "text", "text")
    held = pq.read_table(tmp_path / "1.parquet")
    held = held.append_column("z", held["a"]).select(columns)
    pq.write_table(held, tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=rf"1\.parquet has other columns than .*0\.parquet: it {said}"):
        read(str(tmp_path))
