"""What readers do with a file by themselves is told: rounding, the order of day and month, sheets, encodings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.tables import read
from tests.commands import done


def frames(values: np.ndarray) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame({"amount": values, "y": rng.normal(size=60), "z": rng.normal(size=60)})
    return {"numbers": numbers, "mixed": numbers.assign(kind=rng.choice(["a", "b", "c"], 60))}


WRITERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "x.csv": lambda frame, path: frame.to_csv(path, index=False),
    "x.parquet": lambda frame, path: pq.write_table(pa.Table.from_pandas(frame), path),
    "x.feather": lambda frame, path: frame.to_feather(path),
}


@pytest.mark.parametrize("shape", ["numbers", "mixed"])
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("start", [3 * 10**9, 2**53, 2**60])
def test_rounding_is_told_for_every_format(
    name: str, shape: str, start: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    WRITERS[name](frames(start + 3 * np.random.default_rng(1).permutation(60))[shape], tmp_path / name)
    read(tmp_path / name)
    assert caplog.text.count("Rounding: amount") == 1
    assert "Rounding: y" not in caplog.text


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
@pytest.mark.parametrize("start", [3.0e9, 2.0**53, 2.0**60])
def test_rounding_of_real_numbers_is_told_too(
    name: str, start: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps = np.random.default_rng(1).permutation(60)
    WRITERS[name](frames(start + steps * max(3.0, 2 * np.spacing(start)))["numbers"], tmp_path / name)
    read(tmp_path / name, kind="numbers")
    assert caplog.text.count("Rounding: amount") == 1


def test_streamed_tables_tell_it_when_they_are_fitted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horoball.tables.parquet.MAX_BYTES_IN_MEMORY", 0)
    steps = np.random.default_rng(1).permutation(60)
    WRITERS["x.parquet"](frames(3 * 10**9 + 3 * steps)["numbers"], tmp_path / "x.parquet")
    read(tmp_path / "x.parquet")
    assert caplog.text.count("Rounding: amount") == 1


@pytest.mark.parametrize("shape", ["numbers", "mixed"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_number_beyond_float32_is_not_called_infinite(name: str, shape: str, tmp_path: Path) -> None:
    values = np.linspace(0, 1, 60)
    values[7] = 1e308
    WRITERS[name](frames(values)[shape], tmp_path / name)
    for reader in (read, read) if shape == "numbers" else (read,):
        with pytest.raises(
            ValueError, match=r"row 7, column 'amount'.*float32|float32.*row 7, column 'amount'"
        ) as found:
            reader(tmp_path / name)
        assert "infinite" not in str(found.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
@pytest.mark.parametrize("shape", ["numbers", "mixed"])
def test_tables_in_utf_16_are_read_by_their_mark_or_refused(shape: str, encoding: str, tmp_path: Path) -> None:
    frame = frames(np.arange(60) ** 0.5)[shape]
    (tmp_path / "x.csv").write_bytes(frame.to_csv(index=False).encode(encoding))
    readers = (read, read) if shape == "numbers" else (read,)
    for reader in readers:
        if encoding == "utf-16":
            assert reader(tmp_path / "x.csv").rows == 60
        else:
            with pytest.raises(ValueError, match=r"UTF-16 without a byte-order mark.*Save it as UTF-8"):
                reader(tmp_path / "x.csv")


def test_dates_that_may_be_read_in_two_ways_are_told(caplog: pytest.LogCaptureFixture) -> None:
    dates = [f"{1 + i % 12:02}/{1 + i % 11:02}/2026" for i in range(60)]
    frame = pd.DataFrame({"signup": dates, "x": np.arange(60) ** 0.5})
    read(frame)
    assert "column 'signup' is read with the month first, '01/01/2026' as 2026-01-01" in caplog.text
    caplog.clear()
    read(frame.replace("01/01/2026", "01/31/2026"))
    assert "month first" not in caplog.text


def test_sheets_that_are_not_read_are_told(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "May"
    for row in [["a", "b"], *([i**0.5, (7 * i % 60) ** 0.5] for i in range(60))]:
        book.active.append(row)
    book.create_sheet("June")
    book.save(tmp_path / "x.xlsx")
    told = done("fit", tmp_path / "x.xlsx", "-o", tmp_path / "run", "--quiet", "--hidden", "8", "--max-epochs", "1")
    assert "Sheets: read 'May', the first of" in told.stderr
    assert "not read: 'June'" in told.stderr
