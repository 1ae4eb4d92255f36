"""Encoders for other programs: what they give is what `horoball embed` writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from horoball.cells import fit as fit_cells
from horoball.cells import simulate
from horoball.tables import ArrayTable
from horoball.tables.covariates import Covariates
from horoball.training import TrainConfig
from horoball.vae import OUTPUTS, export
from horoball.vae.run import Run
from horoball.vae.train import train
from tests.late import late

onnx = late("onnx")
onnxruntime = late("onnxruntime")

ROWS = 10_000
SHORT = TrainConfig(max_epochs=2, batch_size=1024, distance_weight=0.0, learning_rate=1e-2)


def rows_of(kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "poisson":
        return rng.poisson(rng.gamma(1.0, 5.0, (ROWS, 20))).astype(np.float32)
    if kind == "bernoulli":
        return rng.uniform(size=(ROWS, 20)).astype(np.float32).round()
    return (rng.normal(size=(ROWS, 20)) * np.geomspace(1e-3, 1e3, 20) + 7).astype(np.float32)


def of_onnx(path: Path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    z, radius, scale, valid = session.run(list(OUTPUTS), {"x": x})
    assert valid.dtype == bool
    assert np.array_equal(valid, np.isfinite(z).all(1))
    return np.column_stack((z, radius, scale))


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("normal", {"d": 2}),
        ("normal", {"d": 10, "c": 0.7, "posterior": "wrapped", "scale": "diagonal"}),
        ("poisson", {"d": 3, "c": 0.0}),
        ("bernoulli", {"d": 2, "learn_c": True, "posterior": "wrapped", "scale": "full"}),
    ],
)
def test_ten_thousand_rows_are_placed_as_torch_places_them(
    tmp_path: Path, suffix: str, kind: str, model: dict[str, object]
) -> None:
    x = rows_of(kind)
    run = train(ArrayTable(x), {"likelihood": kind, "hidden": (32,)} | model, SHORT)
    path = tmp_path / f"encoder{suffix}"
    export(run, path)
    expected = torch.cat(list(run.coordinates(ArrayTable(x)))).numpy()
    if suffix == ".onnx":
        found = of_onnx(path, x)
    else:
        z, radius, scale, _ = torch.export.load(path).module()(torch.from_numpy(x))
        found = np.column_stack((z, radius, scale))
    assert np.ptp(expected[:, 0]) > 1e-2
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert not list(tmp_path.glob("*part*"))


def test_cells_are_placed_by_counts_and_batches(tmp_path: Path) -> None:
    cells = simulate(depth=2, cells=200, genes=30)
    model = fit_cells(cells, batch_key="batch", max_epochs=3, hidden=(16,), n_neighbors=None)
    export(model.run, tmp_path / "encoder.onnx")
    about = json.loads(onnx.load(tmp_path / "encoder.onnx").metadata_props[0].value)
    assert about == {"columns": model.genes, "covariates": {"batch": ["a", "b"]}, "c": 1.0}
    codes = [about["covariates"]["batch"].index(name) for name in cells.obs["batch"]]
    x = np.column_stack((cells.layers["counts"].toarray(), codes)).astype(np.float32)
    np.testing.assert_allclose(of_onnx(tmp_path / "encoder.onnx", x)[:, :2], cells.obsm["X_poincare"], atol=1e-5)


def test_scaled_numbers_are_placed_beside_their_batches(tmp_path: Path) -> None:
    x, names = torch.randn(40, 4) * 3 + 5, ["a", "b"] * 20
    table = ArrayTable(x, covariates=Covariates.of({"batch": names}))
    run = train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1))
    export(run, tmp_path / "encoder.pt2")
    z, _, _, _ = torch.export.load(tmp_path / "encoder.pt2").module()(next(table.blocks()))
    assert torch.equal(z, next(run.embed(table)))


BAD_VALUES = {
    "normal": (np.nan, np.inf, -np.inf),
    "poisson": (np.nan, np.inf, -1.0, 0.5),
    "bernoulli": (np.nan, -0.5, 2.0),
    "categorical": (np.nan, -1.0, 0.5, 9.0),
}


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
@pytest.mark.parametrize("kind", BAD_VALUES)
def test_rows_that_the_estimator_refuses_are_not_valid_and_leave_others_alone(
    tmp_path: Path, suffix: str, kind: str
) -> None:
    x = rows_of("poisson")[:100].clip(max=3) if kind == "categorical" else rows_of(kind)[:100]
    run = train(ArrayTable(x), {"likelihood": kind, "hidden": (8,)}, SHORT)
    path = tmp_path / f"encoder{suffix}"
    export(run, path)

    def places(rows: np.ndarray) -> np.ndarray:
        if suffix == ".onnx":
            return of_onnx(path, rows)
        *numbers, valid = torch.export.load(path).module()(torch.from_numpy(rows))
        assert torch.equal(valid, numbers[0].isfinite().all(1))
        return np.column_stack([each.numpy() for each in numbers])

    clean = places(x)
    assert np.isfinite(clean).all()
    for bad in BAD_VALUES[kind]:
        broken = x.copy()
        broken[7, 3] = bad
        with pytest.raises(ValueError, match="Row 7 holds"):
            list(run.coordinates(ArrayTable(broken)))
        found = places(broken)
        assert np.isnan(found[7]).all()
        np.testing.assert_array_equal(np.delete(found, 7, 0), np.delete(clean, 7, 0))


def test_an_unknown_batch_is_not_valid(tmp_path: Path) -> None:
    table = ArrayTable(torch.randn(40, 4), covariates=Covariates.of({"batch": ["a", "b"] * 20}))
    export(train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1)), tmp_path / "encoder.onnx")
    x = next(table.blocks())[:3].numpy().copy()
    x[1, 4] = 2.0
    assert np.isfinite(of_onnx(tmp_path / "encoder.onnx", x)).all(1).tolist() == [True, False, True]


@pytest.mark.filterwarnings("ignore::horoball.vae.residuals.FarRowWarning")  # which they are meant to be
@pytest.mark.filterwarnings("ignore::horoball.tables.outliers.OutlierWarning")
@pytest.mark.filterwarnings("ignore::horoball.geometry.coordinates.RimWarning")
@pytest.mark.parametrize("c", [1.0, 100.0])
def test_outliers_and_rows_far_beyond_the_fit_are_placed_as_torch_places_them(tmp_path: Path, c: float) -> None:
    x = rows_of("normal")[:200]
    x[3, 4] = 1e9
    run = train(ArrayTable(x), {"hidden": (8,), "c": c}, SHORT)
    export(run, tmp_path / "encoder.onnx")
    far = np.concatenate((x, 1e3 * x, -1e8 * x, np.full((1, 20), np.finfo(np.float32).max)))
    expected = torch.cat(list(run.coordinates(ArrayTable(far)))).numpy()
    np.testing.assert_allclose(of_onnx(tmp_path / "encoder.onnx", far), expected, rtol=1e-4, atol=1e-4)


def test_an_onnx_file_is_one_file_that_needs_nothing_beside_it(tmp_path: Path) -> None:
    x = rows_of("normal")[:100]
    run: Run = train(ArrayTable(x), {"hidden": (64,)}, SHORT)
    export(run, tmp_path / "encoder.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["encoder.onnx"]
    assert of_onnx(tmp_path / "encoder.onnx", x[:1]).shape == (1, 4)


def test_a_model_can_be_trained_on_after_it_was_exported(tmp_path: Path) -> None:
    run = train(ArrayTable(rows_of("normal")[:100]), {"hidden": (8,), "learn_c": True}, SHORT)
    export(run, tmp_path / "encoder.PT2")
    assert all(parameter.requires_grad for parameter in run.model.parameters())
    extra = {"horoball": ""}
    torch.export.load(tmp_path / "encoder.PT2", extra_files=extra)
    assert json.loads(extra["horoball"])["c"] == run.model.ball.c_value


def test_what_cannot_be_exported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(ArrayTable(rows_of("normal")[:100]), {"hidden": (8,)}, SHORT)
    with pytest.raises(ValueError, match=r"named .onnx or .pt2, not 'encoder.txt'"):
        export(run, tmp_path / "encoder.txt")
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        export(run, tmp_path / "nowhere" / "encoder.pt2")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"horoball\[onnx\]"):
        export(run, tmp_path / "encoder.onnx")
