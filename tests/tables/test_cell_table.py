"""Cells as tables: from memory and from files, held or streamed, with their batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from horoball.tables import anndata as h5ad
from horoball.tables import anndata as module
from horoball.tables import read
from horoball.tables.anndata import DiskRows, H5adTable, cell_table
from horoball.tables.covariates import Covariates
from horoball.tables.geodesics import count_axes
from horoball.tables.table import ArrayTable, Order, Table
from horoball.training import TrainConfig
from horoball.vae.train import train
from horoball.viewer import view_run
from tests.late import late

anndata = late("anndata")
h5py = late("h5py")

ROWS = 103  # a prime: no stretch and no batch divides it


def cells_of(rows: int = ROWS) -> Any:
    """Rows that say their own number in the first column; a dense layer beside a sparse X."""
    x = np.random.default_rng(0).poisson(0.5, (rows, 6)).astype(np.float32)
    x[:, 0] = np.arange(rows)
    cells = anndata.AnnData(scipy.sparse.csr_matrix(x), layers={"counts": x.astype(np.int32)})
    cells.obs_names = [f"cell{i}" for i in range(rows)]
    cells.var_names = list("abcdef")
    cells.obs["batch"] = np.array(["u", "v", "w"])[np.arange(rows) % 3]
    cells.obs["kind"] = np.arange(rows) % 2
    return cells


@pytest.fixture
def path(tmp_path: Path) -> Path:
    cells_of().write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


@pytest.fixture(params=["X", "counts"])
def streamed(path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> H5adTable:
    """Rows that stay in the file, in stretches of 8, shuffled in blocks of 24."""
    monkeypatch.setattr(module, "_HELD", 0)
    monkeypatch.setattr(h5ad, "_STRETCH", 8)
    monkeypatch.setattr(h5ad, "_BLOCK_VALUES", 24 * 7)
    table = cell_table(path, layer=request.param, batch=["batch"], label="kind")
    assert isinstance(table, H5adTable)
    return table


def everything(table: Table) -> torch.Tensor:
    return torch.cat(list(table.blocks(10)))


def epoch(table: Table, order: Order) -> torch.Tensor:
    return torch.cat([batch.x for batch in table.batches(order)])


def test_a_file_and_its_cells_make_one_table(path: Path) -> None:
    options: dict[str, Any] = {"batch": ["batch"], "label": "kind"}
    tables = [cell_table(source, **options) for source in (path, str(path), anndata.read_h5ad(path), cells_of())]
    backed = anndata.read_h5ad(path, backed="r")
    tables += [cell_table(backed, **options), cell_table(backed, layer=None, **options)]
    for table in tables:
        assert isinstance(table, ArrayTable)
        assert torch.equal(everything(table), everything(tables[0]))
        assert (table.features, table.width) == (6, 7)
        assert table.columns == list("abcdef")
        assert table.names is not None
        assert table.names[7] == "cell7"
        assert np.array_equal(table.labels, np.arange(ROWS) % 2)
    assert torch.equal(everything(tables[0])[:, 6], torch.arange(ROWS) % 3)
    backed.file.close()
    assert [table.reading["layer"] for table in tables] == ["counts"] * 5 + [None]


def test_some_genes_are_taken_in_the_order_asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = everything(cell_table(path))[:, [4, 0, 1]]
    for held in (2 << 30, 0):
        monkeypatch.setattr(module, "_HELD", held)
        for source in (path, cells_of()):
            for layer in ("X", "counts"):
                table = cell_table(source, layer=layer, genes=["e", "a", "b"])
                assert torch.equal(everything(table), wanted)
                assert table.columns == ["e", "a", "b"]
    with pytest.raises(ValueError, match=r"lacks 1 of the 2 genes that are asked for: z\."):
        cell_table(path, genes=["a", "z"])


def test_a_streamed_epoch_has_every_row_once_and_can_be_gone_on_with(streamed: H5adTable) -> None:
    held = cell_table(cells_of(), batch=["batch"])
    assert torch.equal(everything(streamed), everything(held))
    order = Order(batch_size=10, seed=1, epoch=2)
    rows = epoch(streamed, order)
    assert torch.equal(rows[rows[:, 0].argsort()], everything(held))
    assert not torch.equal(rows, everything(held))
    late = torch.cat([batch.x for batch in streamed.batches(order._replace(start=4))])
    assert torch.equal(late, rows[40:])
    dealt = torch.cat([epoch(streamed, order._replace(rank=rank, ranks=2)) for rank in range(2)])
    assert torch.equal(dealt[dealt[:, 0].argsort()], everything(held))


def test_a_streamed_table_is_split_by_stretches_with_labels_and_codes(streamed: H5adTable) -> None:
    train, held = streamed.split(0.2, seed=3)
    assert held is not None
    both = torch.cat((everything(train), everything(held)))
    assert torch.equal(both[both[:, 0].argsort()], everything(streamed))
    assert train.rows + held.rows == ROWS
    for part in (train, held):
        number = everything(part)[:, 0]
        assert np.array_equal(part.read_labels(), number.numpy() % 2)
        assert torch.equal(everything(part)[:, 6], number % 3)


def test_codes_follow_a_model_s_categories(streamed: H5adTable) -> None:
    held = cell_table(cells_of(), batch=["batch"])
    for table in (streamed, held):
        assert table.coded({"batch": ["u", "v", "w"]}) is table
        again = table.coded({"batch": ["w", "x", "u", "v"]})
        assert torch.equal(everything(again)[:, 6], torch.tensor([2.0, 3.0, 0.0])[torch.arange(ROWS) % 3])
        assert torch.equal(everything(table)[:, 6], torch.arange(ROWS) % 3)
        with pytest.raises(ValueError, match=r"not seen the batch 'v', 'w'\. It knows: 'u'\."):
            table.coded({"batch": ["u"]})
        with pytest.raises(ValueError, match="with the covariate 'donor'; the rows have none of that name"):
            table.coded({"donor": ["u"]})
        with pytest.raises(ValueError, match="without covariates, but the rows have batch"):
            table.coded({})
    with pytest.raises(ValueError, match="with the covariates batch; the rows have none"):
        cell_table(cells_of()).coded({"batch": ["u"]})


def test_read_takes_files_and_cells(path: Path) -> None:
    for source in (path, cells_of()):
        table = read(source, "kind", kind="numbers")
        assert (table.rows, table.width) == (ROWS, 6)
        assert table.read_labels() is not None
        assert read(source, "no such", label_may_miss=True, kind="numbers").labels is None
        with pytest.raises(ValueError, match=r"has no column 'no such' in obs\. Its columns are: batch, kind"):
            read(source, "no such", kind="numbers")


@pytest.mark.parametrize("way", ["link", "link within", "virtual", "external"])
def test_a_file_that_points_to_others_is_refused(path: Path, way: str) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    with h5py.File(path, "a") as file:
        if way == "link":
            del file["X"]
            file["X"] = h5py.ExternalLink(str(other), "/X")
        elif way == "link within":
            del file["obs/kind"]
            file["obs/kind"] = h5py.ExternalLink(str(other), "/obs/kind")
        elif way == "virtual":
            layout = h5py.VirtualLayout((ROWS, 6), "i4")
            layout[:2] = h5py.VirtualSource(".", "layers/counts", (ROWS, 6))[:2]
            layout[2:] = h5py.VirtualSource(str(other), "layers/counts", (ROWS, 6))[2:]
            file.create_virtual_dataset("layers/raw", layout)
        else:
            file.create_dataset("layers/raw", (ROWS, 6), "i4", external=[(str(other), 0, ROWS * 24)])
    with pytest.raises(ValueError, match=rf"^{path} has its .* in another file, '{other}', which is not read\."):
        cell_table(path)


def test_a_file_may_point_to_itself(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file["layers/soft"] = h5py.SoftLink("/layers/counts")
        file["layers/back"] = file["layers/counts"]
        layout = h5py.VirtualLayout((ROWS, 6), "i4")
        layout[:] = h5py.VirtualSource(".", "layers/counts", (ROWS, 6))
        file.create_virtual_dataset("layers/virtual", layout)
    whole = everything(cell_table(path, layer="counts"))
    for layer in ("soft", "back", "virtual"):
        assert torch.equal(everything(cell_table(path, layer=layer)), whole)


def test_what_is_no_file_of_cells_is_refused_by_name(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.h5ad"
    with pytest.raises(FileNotFoundError, match=r"There is no file .*wrong\.h5ad"):
        read(wrong, kind="numbers")
    wrong.write_bytes(b"garbage")
    with pytest.raises(ValueError, match=r"wrong\.h5ad is not a readable \.h5ad file"):
        read(wrong, kind="numbers")
    with h5py.File(wrong, "w") as file:
        file["x"] = np.eye(3)
    with pytest.raises(ValueError, match=r"wrong\.h5ad is not a readable \.h5ad file"):
        read(wrong, kind="numbers")
    nothing = anndata.AnnData(obs=cells_of().obs)
    with pytest.raises(ValueError, match="has no X"):
        cell_table(nothing, layer=None)
    with pytest.raises(ValueError, match="has no cells"):
        cell_table(cells_of()[:0].copy())
    holes = cells_of()
    holes.layers["counts"] = holes.layers["counts"].astype(float)
    holes.layers["counts"][5, 1] = np.nan
    with pytest.raises(ValueError, match="missing or infinite value in row 5, column 'b'"):
        read(holes, kind="numbers")


def test_a_matrix_in_columns_is_read_in_rows(tmp_path: Path) -> None:
    cells = cells_of()
    cells.X = cells.X.tocsc()
    del cells.layers["counts"]
    cells.write_h5ad(tmp_path / "columns.h5ad")
    assert torch.equal(
        everything(read(tmp_path / "columns.h5ad", kind="numbers")), everything(read(cells_of(), kind="numbers"))
    )
    backed = anndata.read_h5ad(tmp_path / "columns.h5ad", backed="r")
    assert torch.equal(everything(cell_table(backed)), everything(read(cells_of(), kind="numbers")))
    part = backed[5:20, ["b", "a"]]  # a view of a file
    assert torch.equal(everything(cell_table(part)), everything(read(cells_of(), kind="numbers"))[5:20, [1, 0]])
    backed.file.close()


def test_all_rows_of_a_file_are_read_bit_by_bit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h5ad, "_AT_ONCE", 17)
    with h5py.File(path) as file:
        for matrix in (file["X"], file["layers/counts"]):
            rows = DiskRows(matrix)
            held = rows.held()
            assert held.dtype == np.float32
            dense = held.toarray() if rows.sparse else held
            assert np.array_equal(dense, cells_of().X.toarray())


def test_covariates_are_told_apart_as_text() -> None:
    covariates = Covariates.of({"day": [10, 2, 10], "site": ["b", "a", "a"]})
    assert covariates.categories == {"day": ["10", "2"], "site": ["a", "b"]}
    assert covariates.sizes == (2, 2)
    assert covariates.take(np.array([1])).codes.tolist() == [[1, 0]]
    with pytest.raises(ValueError, match="'site' is missing in 2 rows, first in row 1"):
        Covariates.of({"site": ["a", None, float("nan")]})
    with pytest.raises(ValueError, match="covariates of 4 rows, got 3"):
        ArrayTable(np.eye(4), covariates=covariates)


def test_main_axes_do_not_see_depth_and_are_the_same_for_dense_and_sparse_counts() -> None:
    x = np.random.default_rng(0).poisson(1.0, (200, 80)).astype(np.float32) + np.eye(200, 80, dtype=np.float32)
    axes = count_axes(ArrayTable(x), 10)
    assert np.array_equal(axes, count_axes(ArrayTable(scipy.sparse.csr_matrix(x)), 10))
    deeper = x * np.where(np.arange(200) % 2, 3.0, 1.0)[:, None]
    np.testing.assert_allclose(axes, count_axes(ArrayTable(deeper), 10), atol=1e-6)
    seen = np.log1p(x.astype(np.float64) * 80 / x.sum(1, keepdims=True))
    values = np.linalg.svd(seen - seen.mean(0), compute_uv=False)[:10]
    np.testing.assert_allclose(np.linalg.norm(axes, axis=0), values, rtol=1e-6)
    assert count_axes(ArrayTable(x[:, :6])).shape == (200, 6)
    table = ArrayTable(scipy.sparse.csr_matrix(x))
    count_axes(table)
    assert torch.equal(everything(table), torch.from_numpy(x))  # the table's own counts are not touched


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT], ids=repr)
def test_a_missing_batch_is_told_whatever_stands_for_it(missing: object) -> None:
    with pytest.raises(ValueError, match="The covariate 'batch' is missing in 1 rows, first in row 1"):
        Covariates.of({"batch": ["a", missing, "b"]})


def test_labels_of_a_streamed_file_reach_the_map(streamed: H5adTable) -> None:
    run = train(streamed, {"hidden": (8,), "likelihood": "normal"}, TrainConfig(max_epochs=1), label="kind")
    assert '"kind"' in view_run(run, streamed).html


def test_genes_are_dropped_and_chosen_by_the_options_of_tables(path: Path) -> None:
    for source in (path, cells_of()):
        for kind in ("auto", "numbers"):
            assert read(source, kind=kind, drop=["b", "e"]).columns == list("acdf")
            assert read(source, kind=kind, columns=["e", "a"]).columns == ["e", "a"]
        with pytest.raises(ValueError, match=r"no gene 'bb' to drop\. Did you mean 'b'\?"):
            read(source, drop=["bb"])
        with pytest.raises(ValueError, match="Kinds of columns and --na are for tables"):
            read(source, columns={"a": "skip"})
        with pytest.raises(ValueError, match="hold cells, counts or numbers, not rows of the kind 'vectors'"):
            read(source, kind="vectors")
