"""Every kind of rows through every verb, by the command and in Python: no cell of the table differs by accident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import horoball
from horoball import PoincareVAE
from horoball.tables import read
from horoball.tables.read import KINDS
from horoball.tables.table import Table
from horoball.training import TrainConfig
from horoball.vae.kinds import kind_named
from horoball.vae.run import Run
from tests.commands import done, run
from tests.kind_table import END, PAGE, START, VERBS, tables

ROWS = 120


def write_rows(kind: str, folder: Path) -> Path:
    """A file of rows of a kind, in three groups that are the label."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    group = np.arange(ROWS) % 3
    label = np.array(["left", "right", "none"])[group]
    if kind == "cells":
        anndata = pytest.importorskip("anndata")
        cells = anndata.AnnData(rng.poisson(2.0 + 20 * (group[:, None] == np.arange(8) % 3)).astype(np.float32))
        cells.obs["label"], cells.obs["batch"] = label, np.array(["a", "b"])[np.arange(ROWS) // 3 % 2]
        cells.write_h5ad(folder / "rows.h5ad")
        return folder / "rows.h5ad"
    if kind == "vectors":
        x = rng.normal(size=(ROWS, 6)) + 12 * np.eye(6)[group]
        pq.write_table(pa.table({"vector": list(x), "label": label}), folder / "rows.parquet")
        return folder / "rows.parquet"
    if kind == "mixed":
        height = [None if row == 7 else f"{value:.3f}" for row, value in enumerate(rng.normal(8 * group, 1.0))]
        color = np.where(rng.random(ROWS) < 0.9, np.array(["red", "blue", "green"])[group], "white")
        columns = {"height": height, "color": color, "eggs": rng.poisson(1 + 9 * group).astype(str)}
    elif kind == "counts":
        columns = {f"gene{j}": rng.poisson(2.0 + 12 * (group == j % 3)).astype(str) for j in range(6)}
    else:
        columns = {f"size{j}": [f"{value:.4f}" for value in rng.normal(6 * (group == j % 3), 1.0)] for j in range(6)}
    columns["label"] = label
    cells = (",".join("" if cell is None else cell for cell in row) for row in zip(*columns.values(), strict=True))
    (folder / "rows.csv").write_text("\n".join([",".join(columns), *cells]) + "\n", encoding="utf-8")
    return folder / "rows.csv"


class Fitted:
    """Rows of a kind, and a model of them by the command."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.data, self.run = kind, write_rows(kind, folder), folder / "run"
        told = ("--kind", "vectors") if kind == "vectors" else ()
        done("fit", self.data, "-o", self.run, "--label", "label", "--hidden", 8, "--max-epochs", 2, *told)

    @property
    def table(self) -> Table:
        return Run.load(self.run).read(self.data)


@pytest.fixture(scope="module", params=KINDS)
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    return Fitted(request.param, tmp_path_factory.mktemp(request.param))


def test_the_model_of_a_fit_knows_its_kind(fitted: Fitted) -> None:
    assert Run.load(fitted.run).record.kind.name == fitted.kind


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "fit"])
def test_command(verb: str, fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments: list[Any] = [{"RUN": fitted.run, "DATA": fitted.data}.get(part, part) for part in VERBS[verb][0].split()]
    if verb in ("check", "report") and fitted.kind == "vectors":
        arguments += ["--kind", "vectors"]
    if verb == "report":
        arguments += ["--label", "label", "--seeds", 1, "--max-epochs", 1, "--hidden", 8]
    if verb == "place":
        done("tree", fitted.run, fitted.data, "-o", tmp_path / "groups.csv", "--levels", "3", "--source", "columns")
    why = kind_named(fitted.kind).refuses.get(verb)
    if why is None:
        done(*arguments)
    else:
        result = run(*arguments)
        assert result.exit_code == 1
        assert why in result.output


@pytest.mark.parametrize("verb", VERBS)
def test_python(verb: str, fitted: Fitted, tmp_path: Path) -> None:
    from horoball.report.analysis import make_report
    from horoball.vae.onnx import export
    from horoball.viewer.run import view_run

    model, table = PoincareVAE.load(fitted.run), fitted.table
    own: dict[str, Any] = {
        "check": lambda: horoball.check(table),
        "fit": lambda: PoincareVAE(kind=fitted.kind, max_epochs=1, hidden=(8,)).fit(table).n_iter_,
        "embed": lambda: model.transform(table),
        "view": lambda: view_run(model.run_, table),
        "tree": lambda: model.tree(table, draws=5),
        "place": lambda: (model.taxonomy(table, [3]), model.place(table)),
        "impute": lambda: model.impute(table),
        "evaluate": lambda: model.score_samples(table, samples=3),
        "sample": lambda: model.sample(5),
        "report": lambda: make_report(table, TrainConfig(max_epochs=1), model={"hidden": (8,)}, seeds=1),
        "export": lambda: export(model.run_, tmp_path / "encoder.pt2"),
    }
    why = kind_named(fitted.kind).refuses.get(verb)
    if why is None:
        own[verb]()
    else:
        with pytest.raises(ValueError, match=why):
            own[verb]()


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_of_rows_alone_has_their_three_groups(kind: str, tmp_path: Path) -> None:
    data, groups = write_rows(kind, tmp_path), tmp_path / "groups.csv"
    told = ("--kind", "vectors") if kind == "vectors" else ()
    done("tree", data, "-o", groups, "-o", tmp_path / "tree.html", "--label", "label", "--levels", 3, *told)
    lines = [line.split(",") for line in groups.read_text(encoding="utf-8").splitlines()[1:]]
    found = np.array([int(line[2]) if line[2] else -1 for line in lines])
    held = found >= 0
    assert held.mean() > 0.7
    for number in range(3):
        assert len(set(found[held & (np.arange(ROWS) % 3 == number)])) == 1
    in_python = horoball.tree(data, "label", by_label=True, draws=0, kind=kind if kind == "vectors" else "auto")
    assert sorted(in_python.names) == ["left", "none", "right"]


def test_options_of_data_alone_are_refused_beside_a_run(tmp_path: Path) -> None:
    result = run("tree", tmp_path, tmp_path / "rows.csv", "-o", tmp_path / "tree.nwk", "--label", "kind")
    assert result.exit_code == 1
    result = run("tree", write_rows("numbers", tmp_path), "-o", tmp_path / "tree.nwk", "--source", "latent")
    assert "Give the folder of a run first" in result.output


def test_groups_of_mixed_rows_are_named_by_columns_and_categories(tmp_path: Path) -> None:
    fitted = Fitted("mixed", tmp_path)
    done("tree", fitted.run, fitted.data, "-o", tmp_path / "groups.csv", "--levels", "3", "--source", "columns")
    named = (tmp_path / "groups.csv").read_text(encoding="utf-8")
    assert "color = red" in named
    assert "height -" in named
    assert "≠" not in named


def test_cells_with_batches_are_sampled_filled_and_placed(tmp_path: Path) -> None:
    from horoball.trees import taxonomy, tree
    from horoball.vae.tree import load_places, places_of, save_places, table_points

    data, folder = write_rows("cells", tmp_path), tmp_path / "run"
    done("fit", data, "-o", folder, "--batch", "batch", "--hidden", 8, "--max-epochs", 2)
    fitted = Run.load(folder)
    table, drawn = fitted.read(data), fitted.sample(200)
    assert drawn.shape == (200, 8)
    given = fitted.given
    assert given is not None
    assert given.shape == (ROWS, 2)
    assert 0.5 < float(drawn.sum(1).mean() / given[:, 0].mean()) < 2
    done("impute", folder, data, "-o", tmp_path / "filled.csv")
    groups = taxonomy(tree(next(table.blocks())[:, :8], draws=0), [3])
    save_places(places_of(fitted, table, groups), fitted, folder)
    assert load_places(folder, fitted).place(table_points(fitted, table)).path.shape == (ROWS, 1)


@pytest.mark.parametrize("damage", ["code", "size", "infinite"])
def test_what_a_damaged_run_tells_of_its_rows_is_refused(damage: str, tmp_path: Path) -> None:
    data, folder = write_rows("cells", tmp_path), tmp_path / "run"
    done("fit", data, "-o", folder, "--batch", "batch", "--hidden", 8, "--max-epochs", 1)
    fitted = Run.load(folder)
    assert fitted.given is not None
    fitted.given[0] = torch.tensor({"code": [5.0, 7.0], "size": [1.0, 0.5], "infinite": [np.inf, 0.0]}[damage])
    fitted.save(folder)
    with pytest.raises(ValueError, match="what it tells of its rows"):
        Run.load(folder)


@pytest.mark.parametrize("ending", [".csv", ".npy", ".parquet"])
@pytest.mark.parametrize("rows", ["digits", "truths and sizes", "sizes with gaps"])
def test_the_same_numbers_are_the_same_table_in_an_array_and_in_a_file(rows: str, ending: str, tmp_path: Path) -> None:
    import pandas
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    x = {
        "digits": lambda: load_digits().data[:300],
        "truths and sizes": lambda: np.column_stack([rng.integers(0, 2, (80, 2)), rng.normal(size=(80, 2))]),
        "sizes with gaps": lambda: np.where(rng.random((80, 3)) < 0.1, np.nan, rng.normal(size=(80, 3))),
    }[rows]()
    path, frame = tmp_path / f"rows{ending}", pandas.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
    if ending == ".npy":
        np.save(path, x)
    elif ending == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    array, file = read(x), read(path)
    assert (array.kind, array.columns) == (file.kind, file.columns)
    assert array.kind == {"digits": "numbers"}.get(rows, "mixed")
    np.testing.assert_array_equal(next(array.blocks()), next(file.blocks()))


def test_an_array_is_filled_with_all_its_columns_in_place() -> None:
    rng = np.random.default_rng(0)
    size = rng.normal(size=80)
    rating, truth = rng.integers(1, 6, 80), rng.integers(0, 2, 80)
    x = np.column_stack([np.arange(80.0), size, size, np.full(80, 7.0), rating, truth, size + rng.normal(size=80)])
    gaps = np.zeros(x.shape, bool)
    gaps[[3, 5, 9], [4, 5, 6]] = True
    filled = PoincareVAE(max_epochs=1, hidden=(8,)).fit(np.where(gaps, np.nan, x)).impute(np.where(gaps, np.nan, x))
    np.testing.assert_array_equal(filled[~gaps], x[~gaps])
    assert filled[3, 4] in range(1, 6)
    assert filled[5, 5] in (0, 1)
    assert np.isfinite(filled).all()


@pytest.mark.parametrize("kind", ["numbers", "counts"])
def test_a_kind_that_is_named_refuses_other_rows(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="color"):
        read(write_rows("mixed", tmp_path), "label", kind=kind)


def test_a_misspelt_kind_is_told() -> None:
    with pytest.raises(ValueError, match="Did you mean 'vectors'"):
        read(np.eye(3), kind="vector")


def test_the_table_of_kinds_and_verbs_is_in_the_docs() -> None:
    assert START + tables() + END in PAGE.read_text(encoding="utf-8"), "run python -m tests.kind_table"
