from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from horoball import PoincareGraphVAE, PoincareVAE
from horoball.cli import app
from horoball.geometry import PoincareBall
from horoball.geometry.coordinates import frechet_mean, project
from horoball.tables import ArrayTable, read
from horoball.training import TrainConfig
from horoball.trees import Tree
from horoball.vae.run import Run
from horoball.vae.train import train
from horoball.viewer import View, view, view_run, view_tree
from horoball.viewer.payload import make_atlas


def unpack(made: View) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a page was given."""
    meta = json.loads(re.search(r'id="meta">(.*?)</script>', made.html, re.DOTALL)[1])
    data = zlib.decompress(base64.b64decode(re.search(r'id="arrays">(.*?)</script>', made.html, re.DOTALL)[1]))
    places = {name: meta[name] for name in ("radius", "angle", "scale", "edges") if name in meta}
    places |= {column["name"]: column["values"] for column in meta["columns"]}
    places |= {f"tree.{name}": at for name, at in meta.get("tree", {}).items() if isinstance(at, dict)}
    kinds = {"Float32": "<f4", "Float64": "<f8"}
    arrays = {}
    for name, at in places.items():
        kind = np.dtype(kinds.get(at["type"], at["type"].lower()))
        planes = np.frombuffer(data, np.uint8, at["length"] * kind.itemsize, at["offset"])
        arrays[name] = np.ascontiguousarray(planes.reshape(kind.itemsize, -1).T).view(kind).ravel()
    return meta, arrays


def ball_points(made: View) -> np.ndarray:
    meta, arrays = unpack(made)
    angle = arrays["angle"] / 2**32 * 2 * np.pi
    return (np.tanh(arrays["radius"].astype(float) / 2) / np.sqrt(meta["c"]))[:, None] * np.stack(
        (np.cos(angle), np.sin(angle)), 1
    )


@pytest.mark.parametrize("c", [0.3, 1.0, 2.0])
def test_points_are_kept_for_every_curvature(c: float) -> None:
    z = np.random.default_rng(0).uniform(-0.65, 0.65, (100, 2)) / np.sqrt(c)
    np.testing.assert_allclose(ball_points(view(z, c=c)), z, atol=2e-7)


def test_scales_and_edges_are_kept() -> None:
    rng = np.random.default_rng(0)
    scale, edges = np.exp(rng.normal(size=50)), rng.integers(0, 50, (80, 2))
    meta, arrays = unpack(view(np.zeros((50, 2)), scale=scale, edges=edges))
    low, high = meta["scale"]["low"], meta["scale"]["high"]
    np.testing.assert_allclose(low * (high / low) ** (arrays["scale"] / 65535), scale, rtol=1e-4)
    assert arrays["edges"].reshape(-1, 2).tolist() == edges.tolist()


def test_one_scale_for_all_points_is_kept() -> None:
    meta, _ = unpack(view(np.zeros((3, 2)), scale=np.full((3, 1), 0.25)))
    assert meta["scale"]["low"] == 0.25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"z": np.zeros(3)}, r"shape \(n, d\), got \(3,\)"),
        ({"z": np.zeros((0, 2))}, r"shape \(n, d\)"),
        ({"z": np.array([[0.0, 0.0], [1.0, 0.0]])}, "row 1 has 1"),
        ({"z": np.array([[np.nan, 0.0]])}, "row 0 has nan"),
        ({"c": -1.0}, "c must be 0 or more, got c = -1"),
        ({"z": np.array([[0.0, 0.0], [np.inf, 0.0]]), "c": 0.0}, "finite coordinates, but row 1 has"),
        ({"color": "x"}, "no column 'x'"),
        ({"labels": ["a"]}, "1 names for 2 points"),
        ({"scale": [1.0, -1.0]}, "2 numbers above 0"),
        ({"edges": [[0, 2]]}, "rows 0 to 1, got 0 to 2"),
        ({"edges": [[0.5, 1.0]]}, "whole numbers"),
        ({"images": np.zeros((2, 4, 4, 4))}, r"\(2, h, w\)"),
        ({"images": np.full((2, 4, 4), 7.0)}, r"floats in \[0, 1\]"),
    ],
)
def test_what_cannot_be_shown_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        view(options.pop("z", np.zeros((2, 2))), **options)


def test_a_page_is_written_to_its_path(tmp_path: Path) -> None:
    made = view(np.zeros((1, 2)), path=tmp_path / "map.html", title="Zoë")
    assert (tmp_path / "map.html").read_text(encoding="utf-8") == made.html
    assert [path.name for path in tmp_path.iterdir()] == ["map.html"]


def test_the_mean_has_no_pull_left() -> None:
    ball = PoincareBall(1.0)
    z = torch.randn(200, 4, dtype=torch.float64) + 1
    mean = frechet_mean(z, ball)
    assert ball.log(mean.expand_as(z), z).mean(0).norm() < 1e-6


def test_a_plane_in_more_dimensions_is_projected_without_loss() -> None:
    """Points of a two-dimensional disc turned into five dimensions: distances are kept, all of them."""
    ball = PoincareBall(1.0)
    flat = torch.randn(100, 2, dtype=torch.float64)
    flat = flat - flat.mean(0)
    turn = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64)).Q[:2]
    shown = project(flat @ turn, ball)
    assert "keep 100 %" in shown.note
    mean = frechet_mean(flat, ball)
    expected = ball.dist(flat, mean.expand_as(flat))
    np.testing.assert_allclose(np.hypot(*shown.points.T), expected.numpy(), rtol=1e-5)


def test_a_line_lies_on_a_diameter() -> None:
    shown = ball_points(view(np.array([[-0.5], [0.2]])))
    np.testing.assert_allclose(shown, [[-0.5, 0], [0.2, 0]], atol=1e-7)


def test_large_pictures_are_made_smaller_and_sheets_are_many() -> None:
    atlas = make_atlas(np.random.default_rng(0).random((3, 128, 100)), 3)
    assert (atlas["height"], atlas["width"]) == (64, 50)
    many = make_atlas(np.zeros((5000, 64, 64), bool), 5000)
    assert (many["across"], many["per"], len(many["sheets"])) == (64, 4096, 2)


@pytest.fixture(scope="module")
def fitted() -> tuple[Run, ArrayTable]:
    labels = np.repeat(["a", "b", "c"], 40)
    x = np.random.default_rng(0).normal(size=(120, 6)) + np.repeat(np.eye(3, 6) * 3, 40, 0)
    table = ArrayTable(x, [f"gene {k}" for k in range(6)], labels)
    return train(table, {"d": 2, "hidden": (16,)}, TrainConfig(max_epochs=2), label="type"), table


def test_a_run_is_shown_with_its_label_its_scale_and_features(fitted: tuple[Run, ArrayTable]) -> None:
    run, table = fitted
    made = view_run(run, table, features=["gene 2"], image_shape=(2, 3))
    meta, arrays = unpack(made)
    np.testing.assert_allclose(ball_points(made), torch.cat(list(run.embed(table))).numpy(), atol=1e-6)
    assert [column["name"] for column in meta["columns"]] == ["type", "gene 2"]
    np.testing.assert_allclose(arrays["gene 2"], table.take(slice(None))[:, 2].numpy())
    scale = run.model.posterior(next(run.scaled(table).blocks(200))).scale[:, 0].detach().numpy()
    low, high = meta["scale"]["low"], meta["scale"]["high"]
    np.testing.assert_allclose(low * (high / low) ** (arrays["scale"] / 65535), scale, rtol=1e-3)
    assert meta["images"]["width"] == 3


@pytest.mark.parametrize("source", ["csv", "parquet", "streamed parquet"])
def test_labels_and_ids_of_a_table_reach_the_page(source: str, fitted: tuple[Run, ArrayTable], tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    run, table = fitted
    rows = dict(zip(table.columns, table.take(slice(None)).T.numpy(), strict=True)) | {"type": table.labels}
    ids = [f"row-{i:03d}" for i in range(table.rows)]
    path = tmp_path / f"rows.{source.split()[-1]}"
    if source == "csv":
        pa.csv.write_csv(pa.table(rows | {"key": ids}), path)
    else:
        pq.write_table(pa.table(rows | {"key": ids}), path, row_group_size=50)
    meta, _ = unpack(
        view_run(run, read(path, "type", ids="key", streamed="streamed" in source or "auto", kind="numbers"))
    )
    assert meta["columns"][0]["categories"] == ["a", "b", "c"]
    assert meta["names"] == ids
    meta, _ = unpack(
        view_run(run, read(path, "type", ids="key", kind="numbers"), labels=[f"{i}" for i in range(table.rows)])
    )
    assert meta["names"][:2] == ["0", "1"]


def test_runs_that_cannot_be_shown_are_refused(fitted: tuple[Run, ArrayTable]) -> None:
    run, table = fitted
    with pytest.raises(ValueError, match="was not fitted to a column 'gene 9', but to: gene 0"):
        view_run(run, table, features=["gene 9"])
    with pytest.raises(ValueError, match="2 × 2 needs 4 columns, the table has 6"):
        view_run(run, table, image_shape=(2, 2))


def test_files_become_a_page(fitted: tuple[Run, ArrayTable], tmp_path: Path) -> None:
    run, table = fitted
    run.save(tmp_path / "run")
    header = ",".join(table.columns)
    np.savetxt(tmp_path / "cells.csv", table.take(slice(None)).numpy(), delimiter=",", header=header, comments="")
    (tmp_path / "names.txt").write_text("".join(f"cell {k}\n" for k in range(120)))
    data, output = str(tmp_path / "cells.csv"), tmp_path / "map.html"
    command = ["view", str(tmp_path / "run"), data, "-o", str(output), "--names", str(tmp_path / "names.txt")]
    command += ["--column", "gene 1", "--image-shape"]
    assert CliRunner().invoke(app, [*command, "2x3"]).exit_code == 0
    meta, _ = unpack(View(output.read_text(encoding="utf-8")))
    assert (meta["title"], meta["names"][119], meta["images"]["height"]) == ("cells", "cell 119", 2)
    assert [column["name"] for column in meta["columns"]] == ["gene 1"]  # this file has no labels
    refused = CliRunner().invoke(app, [*command, "big", "--force"])
    assert refused.exit_code != 0
    assert "such as 28x28, got 'big'" in " ".join(refused.output.split())


def test_one_function_shows_everything(fitted: tuple[Run, ArrayTable]) -> None:
    run, table = fitted
    x = table.take(slice(None)).numpy()
    shown, _ = unpack(view(run, table, features=["gene 2"]))
    assert shown == unpack(view_run(run, table, features=["gene 2"]))[0]
    assert "radius" in unpack(view(run, x, color="gene 1", features=["gene 1"]))[0]
    model = PoincareVAE(max_epochs=1, hidden=(8,), random_state=0)
    with pytest.raises(ValueError, match="PoincareVAE is not fitted yet"):
        view(model, x)
    assert unpack(view(model.fit(x), x))[0]["compared"]["of"] == 6
    with pytest.raises(ValueError, match="shows rows: view"):
        view(run)
    tree = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0])
    assert view(tree).html == view_tree(tree).html
    with pytest.raises(ValueError, match="tree without a map takes no scale="):
        view(tree, scale=[1, 1, 1])
    graph = PoincareGraphVAE(max_epochs=1, random_state=0).fit([(0, 1), (1, 2)])
    for what in (graph, graph.run_):
        told, _ = unpack(view(what))
        assert told["edges"]["length"] == 4
        assert told["columns"][0]["name"] == "degree"
    with pytest.raises(ValueError, match="known, takes no c="):
        view(graph, c=2.0)


def test_a_picture_may_be_a_line() -> None:
    for shape in ((1, 784), (784, 1), (3, 5000)):
        made = make_atlas(np.zeros((2, *shape), np.uint8), 2)
        assert 0 < max(made["width"], made["height"]) <= 64


def test_masks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^z has 2 masked values. Masks are not read"):
        view(np.ma.masked_greater([[0.1, 0.2], [0.9, 0.0], [0.0, 0.8]], 0.5))
