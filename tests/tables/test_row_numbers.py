"""`row 7` is the same row in every message, whatever the source: rows are numbered from 0."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import torch

from horoball.graphs import read_graph
from horoball.tables import ArrayTable, read
from horoball.tables import anndata as cells_module
from horoball.tables.scaling import summarize
from horoball.training import TrainConfig
from horoball.vae.files import embed_folder
from horoball.vae.run import Run
from horoball.vae.train import train
from tests.late import late

anndata = late("anndata")
pl = late("polars")

BAD = 7  # the row that is wrong, the eighth


def frame(x: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(x, columns=["a", "b", "c"])


def csv(x: np.ndarray, folder: Path) -> Any:
    frame(x).to_csv(folder / "x.csv", index=False)
    return folder / "x.csv"


def tsv(x: np.ndarray, folder: Path) -> Any:
    frame(x).to_csv(folder / "x.tsv", index=False, sep="\t")
    return folder / "x.tsv"


def parquet(x: np.ndarray, folder: Path, *, nulls: bool = False) -> Any:
    table = (
        pa.Table.from_pandas(frame(x), preserve_index=False) if nulls else pa.table(dict(zip("abc", x.T, strict=True)))
    )
    pq.write_table(table, folder / "x.parquet", row_group_size=3)
    return folder / "x.parquet"


def nulls(x: np.ndarray, folder: Path) -> Any:
    return parquet(x, folder, nulls=True)


def parts(x: np.ndarray, folder: Path) -> Any:
    (folder / "parts").mkdir()
    for part, piece in enumerate(np.split(x, 3)):
        table = pa.Table.from_pandas(frame(piece), preserve_index=False)
        pq.write_table(table, folder / "parts" / f"{part}.parquet", row_group_size=3)
    return folder / "parts"


def npy(x: np.ndarray, folder: Path) -> Any:
    np.save(folder / "x.npy", x)
    return folder / "x.npy"


def npz(x: np.ndarray, folder: Path) -> Any:
    scipy.sparse.save_npz(folder / "x.npz", scipy.sparse.csr_matrix(x))
    return folder / "x.npz"


def h5ad(x: np.ndarray, folder: Path) -> Any:
    anndata.AnnData(x.astype(np.float32)).write_h5ad(folder / "x.h5ad")
    return folder / "x.h5ad"


SOURCES: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "array": lambda x, _: x,
    "tensor": lambda x, _: torch.from_numpy(x),
    "sparse matrix": lambda x, _: scipy.sparse.csr_matrix(x),
    "pandas": lambda x, _: frame(x),
    "polars": lambda x, _: pl.from_pandas(frame(x)),
    "list": lambda x, _: x.tolist(),
    "AnnData": lambda x, _: anndata.AnnData(x.astype(np.float32)),
    "csv": csv,
    "tsv": tsv,
    "parquet": parquet,
    "parquet with nulls": nulls,
    "folder of parquet": parts,
    "npy": npy,
    "npz": npz,
    "h5ad": h5ad,
}


def rows_with(value: float) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(12, 3))
    x[BAD, 1] = value
    return x


def told_row(message: object) -> int:
    return int(re.search(r"[Rr]ow (\d+)", str(message))[1])  # type: ignore[index]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("source", SOURCES)
def test_a_value_that_is_not_finite_is_told_by_its_row(
    source: str, value: float, streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if streamed:
        monkeypatch.setattr("horoball.tables.parquet.MAX_BYTES_IN_MEMORY", -1)
        monkeypatch.setattr(cells_module, "_HELD", -1)
    with np.errstate(over="ignore"):
        made = SOURCES[source](rows_with(value), tmp_path)
    with pytest.raises(ValueError, match=r"[Rr]ow \d+") as caught:
        summarize(read(made, kind="numbers"))
    assert told_row(caught.value) == BAD


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("source", ["csv", "parquet", "folder of parquet"])
def test_an_outlier_is_told_by_its_row(source: str, streamed: bool, tmp_path: Path) -> None:
    x = np.tile(np.random.default_rng(0).normal(size=(12, 3)), (40, 1))
    x[BAD, 1] = 1e9
    made = SOURCES[source](x, tmp_path)
    table = read(made, streamed=streamed if source != "csv" else "auto", kind="numbers")
    with warnings.catch_warnings(record=True, action="always") as caught:
        train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1, distance_weight=0.0))
    assert told_row(next(w.message for w in caught if "outliers" in str(w.message))) == BAD


def test_a_row_in_a_later_file_of_an_embedding_is_told_by_its_number_in_the_table(tmp_path: Path) -> None:
    counts = np.random.default_rng(0).poisson(3.0, (40, 3)).astype(np.float32)
    run = train(ArrayTable(counts), {"hidden": (8,), "likelihood": "poisson"}, TrainConfig(max_epochs=1))
    counts[27, 1] = -1.0
    with pytest.raises(ValueError, match="Row 27 holds -1"):
        embed_folder(run, ArrayTable(counts), tmp_path / "out", rows=10)


def test_features_of_nodes_and_edges_are_numbered_alike() -> None:
    with pytest.raises(ValueError, match=f"row {BAD}, column 1"):
        read_graph([(i, i + 1) for i in range(11)], rows_with(np.nan))
    ids = np.arange(24.0).reshape(12, 2)
    ids[BAD, 1] = np.nan
    with pytest.raises(ValueError, match=f"edge {BAD}"):
        read_graph(ids)


def test_rows_of_an_embedding_are_numbered_as_in_messages(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    run: Run = train(ArrayTable(x), {"hidden": (8,)}, TrainConfig(max_epochs=1))
    embed_folder(run, ArrayTable(x), tmp_path / "out", rows=15)
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert [row for file in files for row in pq.read_table(file)["row"].to_pylist()] == list(range(40))
