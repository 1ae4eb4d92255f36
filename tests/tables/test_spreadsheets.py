"""Sheets as programs write them: formulas with and without values, and cells that no name is above."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from horoball.tables.read import read
from tests.late import late

openpyxl = late("openpyxl")


def book(path: Path, rows: list[list[Any]], cells: dict[str, Any]) -> str:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    for place, value in cells.items():
        made.active[place] = value
    made.save(path)
    return str(path)


ROWS = [["a", "b"], *[[i * 0.5, i % 3 + 0.25] for i in range(30)]]


def stored(path: str, old: str, new: str) -> None:
    """Put another value into the sheet."""
    copy = path + ".old"
    shutil.move(path, copy)
    with zipfile.ZipFile(copy) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("sheet1.xml"):
                content, times = re.subn(old.encode(), new.encode(), content)
                assert times == 1
            target.writestr(name, content)


@pytest.mark.parametrize("place", ["B2", "B31"])
def test_a_formula_without_its_value_is_refused(tmp_path: Path, place: str) -> None:
    path = book(tmp_path / "rows.xlsx", ROWS, {place: "=A3*2"})
    with pytest.raises(ValueError, match=rf"formula in cell {place} without its value.*Open and save it"):
        read(path)


def test_a_formula_after_many_cells_is_found(tmp_path: Path) -> None:
    rows = [["a", "b"], *[[i * 0.125, float(i)] for i in range(14_000)]]  # two stretches of text
    path = book(tmp_path / "rows.xlsx", rows, {"A13999": "=1+1"})
    with pytest.raises(ValueError, match="formula in cell A13999"):
        read(path)


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("<f>A3[*]2</f><v ?/>", "<f>A3*2</f><v>7.5</v>", 7.5),
        ('<c r="B2"><f>A3[*]2</f><v ?/>', '<c r="B2" t="str"><f>A3*2</f><v></v>', None),  # of =IF(A3, "", 1)
    ],
)
def test_a_formula_with_its_value_is_that_value(tmp_path: Path, old: str, new: str, value: float | None) -> None:
    path = book(tmp_path / "rows.xlsx", ROWS, {"B2": "=A3*2"})
    stored(path, old, new)
    found = next(iter(read(path).blocks()))[0, 1].item()
    assert found == value or (value is None and found != found)


def test_formulas_of_other_sheets_are_not_asked_for(tmp_path: Path) -> None:
    path = book(tmp_path / "rows.xlsx", ROWS, {})
    made = openpyxl.load_workbook(path)
    made.create_sheet("sums")["A1"] = "=SUM(Sheet!A2:A31)"
    made.save(path)
    assert read(path).rows == 30


def test_a_cell_to_the_right_of_the_last_name_is_refused(tmp_path: Path) -> None:
    path = book(tmp_path / "rows.xlsx", ROWS, {"D7": "seen twice"})
    with pytest.raises(ValueError, match=r"right of its last name: 'seen twice' in D7\. Give its column a name"):
        read(path)
