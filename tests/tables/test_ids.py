"""Names and labels of rows come out as they went in: no digit of an id is lost, and NA is a name like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.graphs import read_graph
from horoball.tables import read
from horoball.viewer.payload import make_column

LARGE = 2**60
TEXTS = {  # cells of a column that some parser would change
    "leading zeros": ["007", "7", "07"],
    "21 digits": ["100000000000000000001", "100000000000000000002", "100000000000000000003"],
    "markers of missing values": ["NA", "nan", "null"],
    "near 2**60": [str(LARGE), str(LARGE + 1), str(LARGE + 2)],
    "exponents": ["1e5", "100000", "1E5"],
    "truths": ["true", "True", "TRUE"],
    "dates": ["2026-01-02", "2026-1-2", "02.01.2026"],
    "signs": ["+1", "1", "-1"],
    "blanks": [" a", "a ", "a"],
    "quotes": ["a,b", "c;d", "e\tf"],
    "hexadecimal": ["0x10", "16", "0b1"],
}


def csv(path: Path, cells: list[str], ending: str = ".csv") -> Path:
    delimiter = "\t" if ending == ".tsv" else ","
    lines = [delimiter.join(["key", "a", "kind"])]
    lines += [delimiter.join([f'"{cell}"', str(i), f'"{cell}"']) for i, cell in enumerate(cells)]
    path = path / f"x{ending}"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@pytest.mark.parametrize("case", TEXTS)
def test_ids_of_a_text_file_are_the_text_of_the_file(case: str, ending: str, tmp_path: Path) -> None:
    table = read(csv(tmp_path, TEXTS[case], ending), label="kind", ids="key", kind="numbers")
    assert table.read_names() == TEXTS[case]


@pytest.mark.parametrize("case", TEXTS)
def test_labels_of_a_text_file_stay_apart(case: str, tmp_path: Path) -> None:
    labels = read(csv(tmp_path, TEXTS[case]), label="kind", ids="key", kind="numbers").read_labels()
    assert len(set(map(str, labels))) == 3
    if case != "near 2**60":  # those are whole numbers, exactly
        assert labels.tolist() == TEXTS[case]


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["3", "1", "2"], [3, 1, 2]),
        (["0.5", "-1.25", "1e-3"], [0.5, -1.25, 1e-3]),
        (["3", "NA", "2"], [3, None, 2]),
        (["", "0.5", "nan"], [None, 0.5, None]),
        (["", "u", "NA"], ["", "u", "NA"]),
        (["NA", "NA", "NA"], ["NA", "NA", "NA"]),
        (["1.1", "1.10", "2"], ["1.1", "1.10", "2"]),
    ],
)
def test_labels_are_numbers_only_where_every_cell_is_one(
    cells: list[str], labels: list[object], tmp_path: Path
) -> None:
    assert read(csv(tmp_path, cells), label="kind", ids="key", kind="numbers").read_labels().tolist() == labels


def test_an_index_that_pandas_wrote_is_text(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(",a,b\n007,1,2\nNA,3,4\n")
    assert read(tmp_path / "x.csv", kind="numbers").names == ["007", "NA"]


COLUMNS = {
    "int64": pa.array([LARGE, LARGE + 1, LARGE + 2]),
    "int64 with a missing one": pa.array([LARGE, None, LARGE + 2]),
    "uint64": pa.array([2**63 + 1, 2**63 + 2, 5], pa.uint64()),
    "text": pa.array(["007", "NA", ""]),
    "dictionary": pa.array(["007", "7", "007"]).dictionary_encode(),
    "int8 with a missing one": pa.array([1, None, 3], pa.int8()),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_ids_and_labels_of_parquet_are_exact(case: str, tmp_path: Path) -> None:
    column = COLUMNS[case]
    pq.write_table(pa.table({"key": column, "a": [1.0, 2.0, 3.0], "kind": column}), tmp_path / "x.parquet")
    table = read(tmp_path / "x.parquet", label="kind", ids="key", kind="numbers")
    assert table.read_names().to_pylist() == column.to_pylist()
    assert table.read_labels().tolist() == column.to_pylist()


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_nodes_near_2_to_the_60_stay_apart(ending: str, tmp_path: Path) -> None:
    ends = pa.table({"source": [LARGE, LARGE + 1], "target": [LARGE + 1, LARGE + 2]})
    if ending == ".csv":
        (tmp_path / "x.csv").write_text(f"source,target\n{LARGE},{LARGE + 1}\n{LARGE + 1},{LARGE + 2}\n")
    else:
        pq.write_table(ends, tmp_path / "x.parquet")
    assert read_graph(tmp_path / f"x{ending}").names.tolist() == [str(LARGE + i) for i in range(3)]


def test_a_map_shows_large_whole_numbers_exactly() -> None:
    column = make_column("key", np.arange(LARGE, LARGE + 30))
    assert len(column.categories) == 30
    assert make_column("key", np.arange(2**53 - 30, 2**53)).kind == "number"


HEADERLESS = {
    "one column": "5\n1\n9\n",
    "two columns": "1,2\n3,4\n5,6\n",
    "two columns, falling": "2,1\n3,4\n5,6\n",
    "three columns in order": "1.5,2.5,3.5\n1,2,3\n2,3,4\n",
    "in no order": "1,3,2\n4,5,6\n",
    "with a missing value": "1,,3\n4,5,6\n7,8,9\n",
}


@pytest.mark.parametrize("case", HEADERLESS)
def test_a_file_without_a_header_does_not_lose_its_first_row(case: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(HEADERLESS[case])
    with pytest.raises(ValueError, match=r"no header: its first line holds numbers.*names of the columns first"):
        read(tmp_path / "x.csv", kind="numbers")


@pytest.mark.parametrize("header", ["400,410.5,421", "2019,2020,2021", "0,1,2", "3000,2000,1000"])
def test_numbers_in_order_are_names_and_the_log_says_so(
    header: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "x.csv").write_text(f"{header}\n0.5,0.25,3\n-1,7,0.5\n")
    table = read(tmp_path / "x.csv", kind="numbers")
    assert (table.rows, table.columns) == (2, header.split(","))
    assert "which holds the numbers" in caplog.text


@pytest.mark.parametrize(
    "content",
    ["a,b\r1,2\r3,4\r", "\n\na,b\n1,2\n3,4\n", '"a","b"\n1,2\n3,4', "\ufeffa,b\r\n1,2\r\n3,4\r\n"],
    ids=["carriage returns", "blank lines first", "quotes", "a mark of Windows"],
)
def test_names_are_found_however_lines_end(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(content.encode())
    table = read(tmp_path / "x.csv", kind="numbers")
    assert (table.rows, table.columns) == (2, ["a", "b"])
