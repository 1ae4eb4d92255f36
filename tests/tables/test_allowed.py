"""What --max-memory says holds for all that a file becomes on the way, and messages are short whatever it holds."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from horoball.graphs import read_graph
from horoball.process import max_memory
from horoball.tables import read
from horoball.tables.parquet import ParquetTable
from horoball.tables.profile import Profile


def test_a_profile_keeps_none_of_a_batch_but_its_sample() -> None:
    profile = Profile("a", pa.float64())
    for _ in range(3):
        profile.add(pa.array(np.random.default_rng(0).normal(size=1 << 16)))
    assert all(part.base is None and part.nbytes <= 1 << 17 for part in profile._sample)


def test_a_table_beyond_what_is_allowed_is_streamed(tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"a": np.arange(1e5) % 50, "b": np.arange(1e5) % 7, "t": ["u", "v"] * 50_000}), path)
    for columns in (["a", "b"], None):
        with max_memory("400kB"):
            table = read(path) if columns is None else read(path, columns=columns, kind="numbers")
        assert isinstance(table, ParquetTable)
    assert not isinstance(read(path), ParquetTable)


def test_labels_whose_array_would_be_larger_than_allowed_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("kind,x,y\n" + "".join(f"{'u' * 500}{i},{i},{i * i % 11}\n" for i in range(1000)))
    with max_memory("1MB"), pytest.raises(ValueError, match="have a text of 503 characters"):
        read(str(path), "kind")
    assert read(str(path), "kind").rows == 1000


def test_compressed_edges_count_as_what_they_become(tmp_path: Path) -> None:
    path = tmp_path / "e.txt.gz"
    path.write_bytes(gzip.compress(b"1 2\n" * 10**6))
    with pytest.raises(ValueError, match="the list of its edges tells of 128,000,000 bytes"):
        read_graph(path)
    with max_memory("200MB"):
        assert read_graph(path).nodes == 2


RECORDS = pa.array([{f"k{i}": {"a": [i]} for i in range(500)}] * 3)


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize("role", ["label", "ids", "feature"])
def test_records_are_refused_in_few_words(tmp_path: Path, ending: str, role: str) -> None:
    table, path = pa.table({"kind": RECORDS, "x": [0.5, 1.5, 2.5], "y": [1.0, 2.0, 4.5]}), tmp_path / f"rows.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
    else:
        feather.write_feather(table, str(path))
    options = {} if role == "feature" else {role: "kind"}
    for reading in (read, read):
        with pytest.raises(ValueError, match="holds struct<k0: struct<a: list") as caught:
            reading(str(path), **options)
        assert len(str(caught.value)) < 500


def test_a_long_cell_among_numbers_is_refused_in_few_words(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,z\n" + "".join(f"{i},{i % 5}\n" for i in range(50)) + "y" * 10_000 + ",1\n")
    with pytest.raises(ValueError, match="holds numbers, except 'yyy") as caught:
        read(str(path))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("sizes", ["0 0", "0 3", "3 0"])
@pytest.mark.parametrize("form", ["array integer", "array real", "coordinate real"])
def test_a_matrix_of_no_nodes_does_not_end_the_process(tmp_path: Path, sizes: str, form: str) -> None:
    more = " 0" if form.startswith("coordinate") else ""
    (tmp_path / "e.mtx").write_text(f"%%MatrixMarket matrix {form} general\n{sizes}{more}\n")
    with pytest.raises(ValueError, match="which has no nodes"):
        read_graph(tmp_path / "e.mtx")


def test_ends_of_edges_that_are_records_are_refused_in_few_words(tmp_path: Path) -> None:
    pq.write_table(pa.table({"source": RECORDS, "target": [1, 2, 3]}), tmp_path / "e.parquet")
    with pytest.raises(ValueError, match=r"holds struct<k0: struct<a: list.*, not node ids") as caught:
        read_graph(tmp_path / "e.parquet")
    assert len(str(caught.value)) < 500
