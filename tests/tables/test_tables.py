from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import torch
from torch.utils.data import Dataset, TensorDataset

from horoball.tables import ArrayTable, Table, read
from horoball.tables.scaling import summarize
from tests.late import late

pl = late("polars")

X = np.array([[1.0, -2.5, 0.0], [0.0, 3.0, 1e-3], [7.0, 0.0, 4.0], [0.25, 9.0, -1.0]], np.float32)
NAMES = ["a", "b", "c"]
KINDS = ["u", "v", "u", "w"]
FRAME = pa.table([*(pa.array(column) for column in X.T), pa.array(KINDS)], names=[*NAMES, "kind"])
MOST = 600  # characters that an error may have


class Rows(Dataset):
    """A dataset of 1 × 3 images, with their labels or without."""

    def __init__(self, labeled: bool) -> None:
        self.labeled = labeled

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> Any:
        x = torch.from_numpy(X[index])[None]
        return (x, KINDS[index]) if self.labeled else x


def text(separator: str) -> str:
    lines = [separator.join([*NAMES, "kind"])]
    return "\n".join(lines + [separator.join([*map(str, row), kind]) for row, kind in zip(X, KINDS, strict=True)])


def written(name: str, content: str | bytes) -> Callable[[Path], str]:
    """A source in a file of its own."""

    def source(folder: Path) -> str:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return str(folder / name)

    return source


def saved(name: str, save: Callable[[Path], object]) -> Callable[[Path], Path]:
    """A source that a library writes."""
    return lambda folder: (save(folder / name), folder / name)[1]


def elsewhere(source: Callable[[Path], Any]) -> Callable[[Path], str]:
    """A source behind a URL."""

    def url(folder: Path) -> str:
        path = Path(source(folder))
        fsspec.filesystem("memory").pipe_file(f"/test_read/{path.name}", path.read_bytes())
        return f"memory://test_read/{path.name}"

    return url


def several(folder: Path) -> Path:
    """A folder as Spark leaves them: one of the parts is empty."""
    for number, part in enumerate((FRAME[:1], FRAME[1:1], FRAME[1:])):
        pq.write_table(part, folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    return folder


CSV = written("x.csv", text(","))
PARQUET = saved("x.parquet", lambda path: pq.write_table(FRAME, path, row_group_size=3))
NPY = saved("x.npy", lambda path: np.save(path, X.astype(np.float64)))
NAMED: dict[str, Callable[[Path], Any]] = {
    "csv": CSV,
    "csv of windows": written("X.CSV", "\ufeff" + text(",").replace("\n", "\r\n") + "\r\n"),
    "csv elsewhere": elsewhere(CSV),
    "tsv": written("x.tsv", text("\t") + "\n"),
    "parquet": PARQUET,
    "parquet elsewhere": elsewhere(PARQUET),
    "folder": several,
    "pandas": lambda _: FRAME.to_pandas(),
    "polars": lambda _: pl.from_arrow(FRAME),
}
PLAIN: dict[str, Callable[[Path], Any]] = {
    "npy": NPY,
    "npy elsewhere": elsewhere(NPY),
    "npz": saved("x.npz", lambda path: np.savez_compressed(path, anything=X)),
    "sparse npz": saved("s.npz", lambda path: scipy.sparse.save_npz(path, scipy.sparse.csc_matrix(X))),
    "numpy": lambda _: X,
    "numpy, Fortran order": lambda _: np.asfortranarray(X),
    "torch": lambda _: torch.from_numpy(X).double(),
    "csr": lambda _: scipy.sparse.csr_matrix(X),
    "coo": lambda _: scipy.sparse.coo_array(X),
    "dataset": lambda _: Rows(labeled=False),
    "tensor dataset": lambda _: TensorDataset(torch.from_numpy(X)),
    "table": lambda _: ArrayTable(X),
}


def rows(table: Table) -> np.ndarray:
    return torch.cat(list(table.blocks(3))).numpy()


@pytest.mark.parametrize("name", NAMED)
def test_sources_with_names_give_the_same_rows(name: str, tmp_path: Path) -> None:
    table = read(NAMED[name](tmp_path), label="kind", kind="numbers")
    np.testing.assert_array_equal(rows(table), X)
    assert (table.rows, table.columns) == (4, NAMES)
    labels = table.labels if isinstance(table, ArrayTable) else table.read_labels()
    assert labels.tolist() == KINDS
    assert summarize(table).rows == 4


@pytest.mark.parametrize("name", PLAIN)
def test_sources_without_names_give_the_same_rows(name: str, tmp_path: Path) -> None:
    table = read(PLAIN[name](tmp_path), kind="numbers")
    np.testing.assert_array_equal(rows(table), X)
    assert (table.rows, table.features, table.labels) == (4, 3, None)


@pytest.mark.parametrize("source", [Rows(labeled=True), list(zip(torch.from_numpy(X), KINDS, strict=True))])
def test_labels_of_a_dataset_are_kept_aside(source: Any) -> None:
    table = read(source, kind="numbers")
    np.testing.assert_array_equal(rows(table), X)
    assert table.labels.tolist() == KINDS
    numbered = TensorDataset(torch.from_numpy(X), torch.tensor([3, 1, 2, 0]))
    assert read(numbered, kind="numbers").labels.tolist() == [3, 1, 2, 0]


def test_a_list_of_rows_is_not_taken_for_pairs() -> None:
    """Rows of a nested list look like (row, label): the rows, or an error, but never the first column alone."""
    try:
        table = read(X.tolist(), kind="numbers")
    except (TypeError, ValueError):
        return
    np.testing.assert_array_equal(rows(table), X)


def test_whole_numbers_and_truths_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,true\n-3,false\n")
    np.testing.assert_array_equal(rows(read(tmp_path / "x.csv", kind="numbers")), [[1, 1], [-3, 0]])
    (tmp_path / "one.csv").write_text("a\n1\n2\n")
    assert read(tmp_path / "one.csv", kind="numbers").features == 1


def test_a_frame_with_numbered_columns_has_a_label_too() -> None:
    table = read(pd.DataFrame({0: [1.0, 2.0], 1: ["u", "v"]}), label="1", kind="numbers")
    assert table.columns == ["0"]
    assert table.labels.tolist() == ["u", "v"]


OBJECTS = np.array([[{"a": 1}]], dtype=object)
LONG = "x" * 10**6
CONTENTS = {  # what a csv holds, the label, what the error says
    "text": (
        "a,b\n1,2\n3,oops\n",
        None,
        r"x\.csv has the text 'oops' in row 1 \(line 3\), column 'b'.*--label.*or drop",
    ),
    "missing": ("a,b\n1,2\n3,\n", None, r"missing value in row 1 \(line 3\), column 'b'\. Fill or drop"),
    "text below empty lines": ("\na,b\n\n1,2\r\n\r\n3,oops\n", None, r"'oops' in row 1 \(line 6\), column 'b'"),
    "text below a cell of two lines": ('id,a\n"u\n""v""",1\nw,oops\n', "id", r"'oops' in row 1 \(line 4\), column 'a'"),
    "missing below empty lines": ("a,b\n\n1,2\n3,\n", None, r"missing value in row 1 \(line 4\), column 'b'"),
    "NaN": ("a,b\n1,2\nnan,3\n", None, r"missing.*column 'a'.*Fill or drop"),
    "infinite": ("a,b\n1,2\ninf,3\n", None, r"infinite.*column 'a'.*Fill or drop"),
    "a missing column": ("a,b\n1,\n2,\n", None, r"Column 'b' of .* is empty. Drop the column"),
    "empty": ("", None, r"x\.csv is not a table: Empty.*Expected one header line"),
    "header only": ("a,b\n", None, r"x\.csv has no rows"),
    "label only": ("kind\n1\n2\n", "kind", r"x\.csv has no columns of numbers"),
    "semicolons": ("a;b\n1;x\n", None, r"the text 'x' in row 0 \(line 2\), column 'b'"),
    "same names": ("a,b,a\n1,2,3\n", None, r"columns of the same name: a\. Rename them"),
    "ragged": ("a,b\n1,2\n1,2,3\n", None, r"x\.csv is not a table: .*Expected 2 columns, got 3"),
    "long field": (f"a,b\n1,{LONG}\n", None, r"the text 'xxx.*' in row 0 \(line 2\), column 'b'"),
    "long name": (f"a,{LONG}\n1,u\n", None, r"the text 'u' in row 0 \(line 2\), column 'xxx"),
    "long name, no label": (f"a,{LONG}\n1,2\n", "kind", r"has no column 'kind'"),
    "no label": ("a,b\n1,2\n", "kind", r"x\.csv has no column 'kind'\. Its columns are: a, b\."),
}
REFUSED: dict[str, tuple[Callable[[Path], Any], str | None, str]] = {
    f"csv, {name}": (written("x.csv", content), label, says) for name, (content, label, says) in CONTENTS.items()
} | {
    "missing file": (lambda folder: folder / "x.csv", None, r"There is no file .*x\.csv"),
    "unknown ending": (written("x.xls", "a"), None, r"x\.xls: its name has to end in \.csv, \.tsv"),
    "folder": (saved("x", Path.mkdir), None, r"x holds no \.parquet files"),
    "empty npy": (written("x.npy", ""), None, r"x\.npy"),
    "empty npz": (written("x.npz", ""), None, r"x\.npz"),
    "empty parquet": (written("x.parquet", ""), None, r"x\.parquet"),
    "cut npz": (written("x.npz", b"PK\x03\x04" + b"\0" * 200), None, r"x\.npz"),
    "no parquet": (written("x.parquet", "a,b\n1,2\n" * 9), None, r"x\.parquet"),
    "pickled npy": (saved("x.npy", lambda path: np.save(path, OBJECTS)), None, r"x\.npy"),
    "pickled npz": (saved("x.npz", lambda path: np.savez(path, OBJECTS)), None, r"x\.npz"),
    "two arrays": (saved("x.npz", lambda path: np.savez(path, a=X, b=X)), None, r"x\.npz holds 2 .* one: a, b"),
    "text npy": (saved("x.npy", lambda path: np.save(path, np.array([["a"]]))), None, r"not numbers"),
    "flat npy": (saved("x.npy", lambda path: np.save(path, np.ones(3))), None, r"rows and columns; got .*\(3,\)"),
    "no rows": (saved("x.parquet", lambda path: pq.write_table(FRAME[:0], path)), "kind", r"x\.parquet has no rows"),
    "npy, label": (NPY, "kind", r"x\.npy has no column names, so it has no label 'kind'\. Leave the label out"),
    "npz, label": (written("x.npz", ""), "kind", r"x\.npz has no column names, so it has no label 'kind'"),
    "array, label": (lambda _: X, "kind", r"The ndarray has no column names, so it has no label 'kind'"),
    "sparse, label": (lambda _: scipy.sparse.csr_array(X), "kind", r"The csr_array has no column names"),
    "text parquet": (PARQUET, None, r"Column 'kind' of .*x\.parquet holds string.*label"),
    "parquet, no label": (PARQUET, "type", r"x\.parquet has no column 'type'\. Its columns are: a, b, c, kind"),
    "parquet, same names": (
        saved("x.parquet", lambda path: pq.write_table(FRAME.select([0, 1]).rename_columns(["a", "a"]), path)),
        None,
        r"x\.parquet has columns of the same name: a\. Rename",
    ),
    "parquet, NaN": (saved("x.parquet", lambda p: pq.write_table(pa.table({"a": [np.nan]}), p)), None, r"Fill or drop"),
    "NaN": (lambda _: np.array([[1.0, 2.0], [3.0, np.nan]]), None, r"in row 1, column 'x1'\. Fill or drop"),
    "sparse NaN": (lambda _: scipy.sparse.csr_array([[0.0, np.nan]]), None, r"in row 0, column 'x1'\. Fill or drop"),
    "objects": (lambda _: OBJECTS, None, r"holds object, not numbers"),
    "array, no rows": (lambda _: np.empty((0, 3)), None, r"has no rows"),
    "array, no columns": (lambda _: np.empty((3, 0)), None, r"has no columns"),
    "frame, no label": (lambda _: FRAME.to_pandas(), "type", r"has no column 'type'\. Its columns are: a, b, c, kind"),
    "frame, text": (lambda _: pl.from_arrow(FRAME), None, r"Column 'kind' of the data frame holds .*label"),
    "frame, same names": (lambda _: pd.DataFrame(X, columns=["a", "a", "b"]), None, r"same name.*a.*Rename"),
    "frame, missing": (lambda _: pl.DataFrame({"a": [1, None]}), None, r"row 1, column 'a'\. Fill or drop"),
    "nothing": (lambda _: None, None, r"Cannot read rows from NoneType. Expected a path, an array"),
    "dictionary": (lambda _: {"a": [1.0]}, None, r"Cannot read rows from dict. Expected a path, an array"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    make, label, says = REFUSED[name]
    source = make(tmp_path)
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=says) as caught:
        summarize(read(source, label, kind="numbers"))
    assert len(str(caught.value)) < MOST
    assert "\n" not in str(caught.value)
