"""The index as users meet it: what goes in, what is refused, what is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import horoball as hb
from horoball.neighbors import Index
from horoball.neighbors.names import as_names
from horoball.training.checkpoint import load_checkpoint, save_checkpoint
from tests.neighbors.clouds import prior, true_neighbours

BALL = hb.PoincareBall(1.0)


def points(n: int = 200, d: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def test_the_library_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, horoball as hb; hb.neighbors.Index; assert 'faiss' not in sys.modules"
    told = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


def test_the_extra_is_named_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    index = Index(BALL).add(points())
    with pytest.raises(ImportError, match=r'pip install "horoball\[search\]"'):
        index.search(points(), 3)


def test_ball_coordinates_give_the_same_neighbours() -> None:
    z = points().double()
    ball = hb.PoincareBall(0.7)
    tangent = Index(ball).add(z).search(z, 4)
    x = ball.to_ball(z)
    for given in (x, x.numpy(), x.tolist()):
        shown = Index(ball, coordinates="ball").add(given).search(given, 4)
        torch.testing.assert_close(shown, tangent)


def test_points_on_the_rim_are_refused() -> None:
    for x in ([[1.0, 0.0]], [[0.0, 1.5]], [[1 - 1e-17, 0.0]]):
        with pytest.raises(ValueError, match="inside the ball"):
            Index(BALL, coordinates="ball").add(x)
    index = Index(BALL, coordinates="ball").add([[0.1, 0.2]])
    with pytest.raises(ValueError, match="inside the ball"):
        index.search([[1.0, 0.0]], 1)


def test_a_learnt_curvature_is_taken_as_it_is_now() -> None:
    ball = hb.PoincareBall(0.5, learnable=True)
    index = Index(ball).add(points())
    with torch.no_grad():
        ball.raw_c += 1
    distances, _ = index.search(points(5, seed=1), 2)
    torch.testing.assert_close(
        distances, true_neighbours(hb.PoincareBall(index.ball.c), points(), points(5, seed=1), 2)[0]
    )
    assert index.ball.c == pytest.approx(0.5)


@pytest.mark.parametrize("searched", [True, False])
def test_points_may_come_in_parts(searched: bool) -> None:
    z = points()
    index = Index(BALL)
    for part in (z[:50], z[50:50], 3 * z[50:51], z[51:]):  # nothing, and farther than before
        index.add(part)
        if searched:
            index.search(part if len(part) else z[:1], 5)
    whole = Index(BALL).add(torch.cat((z[:50], 3 * z[50:51], z[51:])))
    assert len(index) == 200
    for a, b in zip(index.search(z, 7), whole.search(z, 7), strict=True):
        assert torch.equal(a, b)


def test_points_that_are_far_out_come_late() -> None:
    for c in (0.0, 1.0):
        ball = hb.PoincareBall(c)
        z = torch.cat((1e-9 * points(50), 1e-4 * points(50), points(50), 10 * points(50)))
        index = Index(ball)
        for part in z.split(50):
            index.add(part).search(part, 3)
        assert torch.equal(index.search(z, 5)[1], true_neighbours(ball, z, z, 5)[1])


def test_what_was_given_may_be_written_to() -> None:
    z = points()
    index = Index(BALL).add(z)
    kept = z.clone()
    z.zero_()
    assert torch.equal(index.points, kept)


def test_float32_and_float64_points_mix() -> None:
    index = Index(BALL).add(points(10)).add(points(10, seed=1).double())
    assert index.points.dtype == torch.float64
    assert Index(BALL).add(points(10)).points.dtype == torch.float32


def test_one_query_and_none() -> None:
    index = Index(BALL).add(points())
    assert [tuple(found.shape) for found in index.search(points(1), 3)] == [(1, 3)] * 2
    assert [tuple(found.shape) for found in index.search(points(0), 3)] == [(0, 3)] * 2


def test_names_are_kept() -> None:
    names = [f"Ω{i}" for i in range(200)]
    index = Index(BALL).add(points()[:100], names[:100]).add(points()[100:], np.array(names[100:], object))
    ids = index.search(points()[:4], 2)[1]
    assert index.names(ids)[:, 0].tolist() == names[:4]
    assert index.names(7) == "Ω7"
    assert "named" in repr(index)
    numbered = Index(BALL).add(points(), np.arange(200) * 10)
    assert numbered.names(numbered.search(points()[:4], 1)[1]).tolist() == [[0], [10], [20], [30]]


@pytest.mark.parametrize(
    ("error", "message", "do"),
    [
        (ValueError, "The index is empty", lambda index: Index(BALL).search(points(), 1)),
        (ValueError, "k from 1 to the number of points, 200, got 201", lambda index: index.search(points(), 201)),
        (ValueError, "k from 1", lambda index: index.search(points(), 0)),
        (TypeError, "integer", lambda index: index.search(points(), 2.5)),
        (ValueError, r"shape \(n, 3\), got \(200, 4\)", lambda index: index.search(points(d=4), 1)),
        (ValueError, r"shape \(n, 3\), got \(200, 4\)", lambda index: index.add(points(d=4))),
        (ValueError, r"Give a single point as z\[None\]", lambda index: index.search(points()[0], 1)),
        (ValueError, r"shape \(n, d\)", lambda index: Index(BALL).add(torch.ones(3, 0))),
        (ValueError, "in row 1", lambda index: index.search([[0.0, 0, 0], [0, float("nan"), 0]], 1)),
        (ValueError, "in row 0", lambda index: index.add([[0.0, float("inf"), 0]])),
        (ValueError, "sqrt.c.* = 80 of the origin, got 100", lambda index: index.add([[100.0, 0, 0]])),
        (TypeError, "real numbers", lambda index: index.add(points() > 0)),
        (ValueError, "all have or none", lambda index: index.add(points(), list(range(200)))),
        (ValueError, "one name for each of 200", lambda index: Index(BALL).add(points(), ["a"])),
        (TypeError, "text or whole numbers", lambda index: Index(BALL).add(points(2), [0.5, 1.5])),
        (TypeError, "text or whole numbers", lambda index: Index(BALL).add(points(2), np.array(["a", 1], object))),
        (TypeError, "another kind", lambda index: Index(BALL).add(points(1), ["a"]).add(points(1), [1])),
        (ValueError, "no names", lambda index: index.names([0])),
        (IndexError, "id from 0 to 199, got 200", lambda index: index.ancestors(200)),
        (IndexError, "id from 0 to 199, got -1", lambda index: index.descendants(0, root=-1)),
        (ValueError, "angle", lambda index: index.ancestors(0, angle=91.0)),
        (ValueError, "at least 1", lambda index: index.ancestors(0, 0)),
        (ValueError, "'tangent' or 'ball'", lambda index: Index(BALL, coordinates="klein")),
        (ValueError, "recall", lambda index: Index(BALL, recall=0.0)),
        (ValueError, "seed", lambda index: Index(BALL, seed=-1)),
    ],
)
def test_what_cannot_be_is_refused(error: type[Exception], message: str, do: Any) -> None:
    index = Index(BALL).add(points())
    with pytest.raises(error, match=message):
        do(index)
    assert len(index) == 200


# --------------------------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [None, [f"n{i}é\n" * (i % 3) for i in range(200)], list(range(200, 0, -1))])
def test_an_index_comes_back_from_its_folder(names: list[Any] | None, tmp_path: Path) -> None:
    z = points().double()
    index = Index(hb.PoincareBall(0.3), coordinates="ball", seed=3).add(0.3 * z.tanh(), names)
    index.save(tmp_path / "new" / "folder")
    back = Index.load(tmp_path / "new" / "folder")
    assert repr(back) == repr(index)
    assert (back.coordinates, back.recall, back.seed, back.ball.c) == ("ball", 0.99, 3, 0.3)
    for a, b in zip(back.search(0.1 * z, 5), index.search(0.1 * z, 5), strict=True):
        assert torch.equal(a, b)
    if names is not None:
        assert back.names(range(200)).tolist() == names
    assert [file.name for file in (tmp_path / "new" / "folder").iterdir()] == ["index.safetensors"]


def test_an_empty_index_comes_back(tmp_path: Path) -> None:
    Index(BALL).save(tmp_path)
    back = Index.load(tmp_path).add(points())
    assert len(back) == 200


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Index, Path]:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("large")
    index = Index(BALL).add(prior(55_000, 3, BALL).float())
    index.save(folder)
    return index, folder


def test_cells_come_back_and_are_not_made_again(
    large: tuple[Index, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, folder = large
    monkeypatch.setattr("horoball.neighbors.index.calibrate", None)  # not callable
    back = Index.load(folder)
    for a, b in zip(back.search(index.points[:200], 10), index.search(index.points[:200], 10), strict=True):
        assert torch.equal(a, b)
    back.add(index.points[:10])
    back.save(tmp_path)
    assert len(Index.load(tmp_path)) == 55_010


def test_cells_take_points_that_come_late(large: tuple[Index, Path]) -> None:
    index = Index.load(large[1])
    made, new = index._engine, prior(100, 3, BALL)
    distances, ids = index.add(new).search(new, 1)
    assert index._engine is made
    assert torch.equal(ids[:, 0], torch.arange(55_000, 55_100))
    assert (distances == 0).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("points", None),
        ("points", torch.full((55_000, 3), float("nan"))),
        ("points", torch.ones(55_000)),
        ("cells.of", None),
        ("cells.of", torch.full((55_000,), 10**6, dtype=torch.int32)),
        ("cells.of", torch.full((55_000,), -1, dtype=torch.int32)),
        ("cells.of", torch.zeros(54_999, dtype=torch.int32)),
        ("cells.of", torch.zeros(55_000)),
        ("cells.centres", torch.ones(4, 3)),
        ("cells.centres", torch.full((938, 4), float("inf"))),
        ("names.numbers", torch.zeros(3, dtype=torch.int64)),
        ("c", -1.0),
        ("c", "one"),
        ("coordinates", "klein"),
        ("recall", None),
        ("seed", 0.5),
        ("unit", 0.0),
        ("unit", float("inf")),
        ("stretch", "x"),
        ("probes", [1]),
        ("probes", None),
        ("made", -5),
    ],
)
def test_a_file_that_was_not_written_so_is_refused(
    name: str, value: Any, large: tuple[Index, Path], tmp_path: Path
) -> None:
    tensors, state = load_checkpoint(large[1] / "index.safetensors")
    del state["format"]
    if name in tensors or "." in name:
        tensors = {key: tensor for key, tensor in tensors.items() if key != name}
        tensors |= {} if value is None else {name: value}
    else:
        said = state["index"]["cells"] if name in state["index"]["cells"] else state["index"]
        said[name] = value
    save_checkpoint(tmp_path / "index.safetensors", tensors, state)
    with pytest.raises(ValueError, match="is not a whole index of points"):
        Index.load(tmp_path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Index.load(tmp_path)
    save_checkpoint(tmp_path / "index.safetensors", {"w": torch.ones(2)}, {"about": {}})
    with pytest.raises(ValueError, match="lacks 'index'"):
        Index.load(tmp_path)
    (tmp_path / "index.safetensors").write_bytes(b"garbage")
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        Index.load(tmp_path)


def test_names_that_do_not_fill_their_bytes_are_refused(tmp_path: Path) -> None:
    Index(BALL).add(points(2), ["ab", "c"]).save(tmp_path)
    tensors, state = load_checkpoint(tmp_path / "index.safetensors")
    del state["format"]
    for ends in ([3, 2], [2, 4], [2]):
        save_checkpoint(tmp_path / "index.safetensors", tensors | {"names.ends": torch.tensor(ends)}, state)
        with pytest.raises(ValueError, match=r"is not a whole index of points: it.* name"):
            Index.load(tmp_path)


def test_names_beyond_64_bits_are_refused() -> None:
    with pytest.raises(ValueError, match=r"up to 2\*\*63 - 1, got 9223372036854775813\. Pass them as text"):
        as_names(np.array([2**63 + 5], np.uint64), 1)


def test_a_query_beyond_float32_is_refused() -> None:
    index = Index(hb.PoincareBall(0.0)).add(torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], dtype=torch.float64))
    assert index.search(torch.tensor([[1e30, 0.0]], dtype=torch.float64), k=3)[1].shape == (1, 3)
    with pytest.raises(ValueError, match="too far away for an index in float32"):
        index.search(torch.tensor([[1e40, 0.0]], dtype=torch.float64), k=3)
