"""Embeddings written file by file: what is in them, and that a killed command goes on without a row too many or few."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.sparse import csr_matrix

from horoball.tables import ArrayTable, read
from horoball.training import TrainConfig
from horoball.vae.files import ABOUT, embed_file, embed_folder
from horoball.vae.run import Run
from horoball.vae.train import train


@pytest.fixture(scope="module")
def run() -> Run:
    x = np.random.default_rng(0).normal(3.0, 2.0, size=(300, 4))
    return train(ArrayTable(x, list("abcd")), {"hidden": (8,)}, TrainConfig(max_epochs=2))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    x = np.random.default_rng(1).normal(3.0, 2.0, size=(1000, 4))
    path = tmp_path / "rows.parquet"
    columns = {"key": [f"k{i}" for i in range(1000)]} | dict(zip("abcd", x.T, strict=True))
    pq.write_table(pa.table(columns), path, row_group_size=70)
    return path


def test_a_file_has_names_places_radii_and_scales(run: Run, source: Path, tmp_path: Path) -> None:
    table = read(source, ids="key", kind="numbers")
    assert embed_file(run, table, tmp_path / "z.parquet") == 1000
    found = pq.read_table(tmp_path / "z.parquet")
    assert found.column_names == ["key", "z0", "z1", "radius", "scale"]
    assert found["key"].to_pylist() == [f"k{i}" for i in range(1000)]
    ball = torch.tensor(np.stack([found["z0"], found["z1"]], 1))
    assert torch.equal(ball, torch.cat(list(run.embed(table))))
    radius = torch.linalg.vector_norm(run.model.ball.from_ball(ball), dim=-1)
    assert torch.allclose(torch.tensor(found["radius"].to_numpy()), radius)
    assert min(found["scale"].to_pylist()) > 0


@pytest.mark.parametrize("rows", [1, 100, 70, 5000])
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_folder_holds_every_row_once(run: Run, source: Path, tmp_path: Path, rows: int, ranks: int) -> None:
    folder = tmp_path / "out"
    table = read(source, ids="key", streamed=True, kind="numbers")
    last: dict[int, tuple[int, int]] = {}
    for rank in reversed(range(ranks)):
        assert not (folder / "_SUCCESS").exists()
        embed_folder(
            run, table, folder, rows=rows, rank=rank, ranks=ranks, told=lambda *now, rank=rank: last.update({rank: now})
        )
    assert sum(done for done, _ in last.values()) == 1000
    parts = len(list(folder.glob("*.parquet")))
    assert json.loads((folder / "_SUCCESS").read_text()) == {"rows": 1000, "files": parts}
    assert all(done == of for done, of in last.values())
    files = sorted(folder.glob("*.parquet"))
    assert all(pq.read_metadata(file).num_rows >= min(rows, 1000) for file in files[:-1])
    together = pa.concat_tables([pq.read_table(file) for file in files])
    assert together["key"].to_pylist() == [f"k{i}" for i in range(1000)]
    embed_file(run, table, tmp_path / "z.parquet")
    assert together.drop_columns("key").equals(pq.read_table(tmp_path / "z.parquet").drop_columns("key"))


def test_rows_without_names_are_numbered(run: Run, tmp_path: Path) -> None:
    table = ArrayTable(np.random.default_rng(2).normal(size=(250, 4)), list("abcd"))
    embed_folder(run, table, tmp_path / "out", rows=100)
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert [row for file in files for row in pq.read_table(file)["row"].to_pylist()] == list(range(250))


def test_a_csv_file_may_have_a_column_of_names(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,key,b,c,d\n" + "\n".join(f"{i},n{i},1,2,3" for i in range(5)))
    embed_folder(run, read(path, ids="key", kind="numbers"), tmp_path / "out", rows=2)
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert [row for file in files for row in pq.read_table(file)["key"].to_pylist()] == [f"n{i}" for i in range(5)]
    with pytest.raises(ValueError, match="no column 'other'"):
        read(path, ids="other", kind="numbers")
    with pytest.raises(ValueError, match="column of ids"):
        read(np.eye(3), ids="key", kind="numbers")


def test_files_that_are_whole_are_kept_and_others_written_again(run: Run, source: Path, tmp_path: Path) -> None:
    folder, table = tmp_path / "out", read(source, ids="key", kind="numbers")
    embed_folder(run, table, folder, rows=100)
    files = sorted(folder.glob("*.parquet"))
    kept = files[0].stat().st_mtime_ns
    files[1].unlink()
    pq.write_table(pq.read_table(files[2]).slice(0, 3), files[2])
    assert embed_folder(run, table, folder, rows=100) == 2 * pq.read_metadata(files[1]).num_rows
    assert files[0].stat().st_mtime_ns == kept


def test_another_embedding_is_not_mixed_in(run: Run, source: Path, tmp_path: Path) -> None:
    folder, table = tmp_path / "out", read(source, ids="key", kind="numbers")
    embed_folder(run, table, folder, rows=100)
    with pytest.raises(ValueError, match="of other rows"):
        embed_folder(run, table, folder, rows=500)
    other = train(ArrayTable(torch.randn(50, 4), list("abcd")), {"hidden": (8,)}, TrainConfig(max_epochs=1, seed=5))
    with pytest.raises(ValueError, match="by another model"):
        embed_folder(other, table, folder, rows=100)
    with pytest.raises(ValueError, match="by other names"):
        embed_folder(run, read(source, label="key", kind="numbers"), folder, rows=100)
    changed = pq.read_table(source).to_pydict()
    changed["b"][0] += 1.0
    pq.write_table(pa.table(changed), source, row_group_size=70)
    with pytest.raises(ValueError, match="of another table"):
        embed_folder(run, read(source, ids="key", kind="numbers"), folder, rows=100)
    (folder / ABOUT).unlink()
    with pytest.raises(ValueError, match="Choose an empty folder"):
        embed_folder(run, table, folder, rows=100)


@pytest.mark.parametrize("sparse", [False, True])
def test_another_array_is_not_taken_for_the_first(run: Run, tmp_path: Path, sparse: bool) -> None:
    x = np.random.default_rng(0).normal(size=(50, 4))
    tables = [
        ArrayTable(csr_matrix(rows) if sparse else rows, list("abcd")) for rows in (x, x + np.array([0, 0, 0, 1e-3]))
    ]
    assert embed_folder(run, tables[0], tmp_path) == 50
    with pytest.raises(ValueError, match="of another table"):
        embed_folder(run, tables[1], tmp_path)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ("{", "is no record of an embedding"),
        ("3", "is no record of an embedding"),
        ("[" * 100_000, "is no record of an embedding"),
        ('{"model": "x"}', "holds an embedding by another model"),
        ("{}", "holds an embedding by another model"),
    ],
)
def test_a_folder_with_another_record_is_refused(run: Run, tmp_path: Path, record: str, says: str) -> None:
    table = ArrayTable(np.random.default_rng(0).normal(size=(50, 4)), list("abcd"))
    embed_folder(run, table, tmp_path)
    (tmp_path / ABOUT).write_text(record)
    with pytest.raises(ValueError, match=says):
        embed_folder(run, table, tmp_path)


def test_files_of_another_embedding_and_damaged_ones_are_written_again(run: Run, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(100, 4))
    mine, other = tmp_path / "mine", tmp_path / "other"
    embed_folder(run, ArrayTable(x, list("abcd")), mine, rows=50)
    embed_folder(run, ArrayTable(x + 1, list("abcd")), other, rows=50)
    first, second = (mine / f"part-0000{i}.parquet" for i in (0, 1))
    kept = first.read_bytes()
    for content in ((other / first.name).read_bytes(), second.read_bytes(), kept[:-100], b"", b"PAR1PAR1"):
        first.write_bytes(content)
        assert embed_folder(run, ArrayTable(x, list("abcd")), mine, rows=50) == 50
        assert first.read_bytes() == kept
        assert (mine / "_SUCCESS").exists()
    assert embed_folder(run, ArrayTable(x, list("abcd")), mine, rows=50) == 0


def test_a_killed_command_goes_on_without_a_row_too_many_or_too_few(run: Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    x = np.random.default_rng(3).normal(size=(4, 400_000))
    pq.write_table(pa.table(dict(zip("abcd", x, strict=True))), tmp_path / "rows.parquet", row_group_size=4_000)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "horoball", "embed", "run", "rows.parquet", "-o", "out", "--quiet"]
    command += ["--file-rows", "4000"]
    first = subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"})
    while len(list(out.glob("*.parquet"))) < 3 and first.poll() is None:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert 3 <= len(list(out.glob("*.parquet"))) < 100
    ranks = [
        subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"RANK": str(rank), "WORLD_SIZE": "2"}, stderr=-1)
        for rank in range(2)
    ]
    assert not (out / "_SUCCESS").exists()
    said = [rank.communicate()[1].decode() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    counts = [re.search(rf"([0-9,]+) rows written by process {rank + 1} of 2: out", said[rank]) for rank in range(2)]
    assert 0 < sum(int(count[1].replace(",", "")) for count in counts if count) <= 400_000 - 3 * 4_000
    assert json.loads((out / "_SUCCESS").read_text()) == {"rows": 400_000, "files": 100}
    rows = [row for file in sorted(out.glob("*.parquet")) for row in pq.read_table(file)["row"].to_pylist()]
    assert rows == list(range(400_000))
