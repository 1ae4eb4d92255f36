from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from benchmarks import neighbors


def test_a_quick_table_of_radii_finds_no_neighbor_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert neighbors.main(["radius", "--quick"]) == 0
    assert "| clusters | 10 | 12 " in capsys.readouterr().out


def test_a_quick_table_of_promises_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert neighbors.main(["promise", "--quick"]) == 0
    assert "promise of 0.99: kept" in capsys.readouterr().out


def test_embeddings_are_read_from_files(tmp_path: Path) -> None:
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (50, 3))
    np.save(tmp_path / "x.npy", x)
    columns = {f"z{i}": x[:, i] for i in range(3)} | {"label": np.arange(50)}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    clouds = []
    for name in ("x.npy", "x.parquet"):
        torch.manual_seed(0)
        clouds.append(neighbors.embedding(tmp_path / name, 0.5, 10))
    assert torch.equal(clouds[0].z, clouds[1].z)
    assert (len(clouds[0].z), len(clouds[0].q)) == (40, 10)
