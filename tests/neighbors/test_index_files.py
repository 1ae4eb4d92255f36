"""What an index keeps in its folder, and which folders it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import horoball as hb
from horoball.neighbors import Index
from horoball.storage.checkpoint import load_checkpoint, save_checkpoint
from tests.neighbors.clouds import points, prior, true_neighbors
from tests.tracing import tracing_apart

BALL = hb.PoincareBall(1.0)


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


LARGE = 4_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Index, Path]:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("large")
    index = Index(BALL, exact_up_to=LARGE // 2).add(prior(LARGE, 3, BALL).float())
    index.save(folder)
    assert index._engine is not None
    assert index._engine.partitions is not None
    return index, folder


def test_partitions_come_back_and_are_not_made_again(
    large: tuple[Index, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, folder = large
    monkeypatch.setattr("horoball.neighbors.index.calibrate", None)  # not callable
    back = Index.load(folder)
    assert (back.exact_up_to, back._probes) == (LARGE // 2, index._probes)
    for a, b in zip(back.search(index.points[:200], 10), index.search(index.points[:200], 10), strict=True):
        assert torch.equal(a, b)
    back.add(index.points[:10])
    back.save(tmp_path)
    assert len(Index.load(tmp_path)) == LARGE + 10


def test_partitions_take_points_that_come_late(large: tuple[Index, Path]) -> None:
    index = Index.load(large[1])
    made, new = index._engine, prior(100, 3, BALL)
    distances, ids = index.add(new).search(new, 1)
    assert index._engine is made
    assert torch.equal(ids[:, 0], torch.arange(LARGE, LARGE + 100))
    assert (distances == 0).all()


def test_an_index_that_does_without_partitions_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(hb.PoincareBall(0.0), exact_up_to=1000).add(points(1500, 40))  # in so many dimensions none are near
    index.save(tmp_path)
    assert index._engine is not None
    assert index._engine.partitions is None
    monkeypatch.setattr("horoball.neighbors.index.calibrate", None)
    back = Index.load(tmp_path).add(points(100, 40, seed=1))
    assert torch.equal(back.search(points(20, 40), 5)[1], true_neighbors(back.ball, back.points, points(20, 40), 5)[1])


def test_partitions_of_version_0_1_are_made_anew(large: tuple[Index, Path], tmp_path: Path) -> None:
    tensors, state = load_checkpoint(large[1] / "index.safetensors")
    about = {name: value for name, value in state["index"].items() if name not in ("partitions", "exact_up_to")}
    old = {"width": 1.0, "curved": False, "stretch": 1.0, "unit": 1.0, "made": LARGE, "made_for": 5.0, "probes": [1, 1]}
    renamed = {name.replace("partitions.", "cells."): tensor for name, tensor in tensors.items()}
    save_checkpoint(tmp_path / "index.safetensors", renamed, {"index": about | {"cells": old}})
    index = Index.load(tmp_path)
    assert index._engine is None
    assert torch.equal(index.search(index.points[:50], 1)[1][:, 0], torch.arange(50))


BAD_NUMBERS = [0, -1, -1e-30, float("nan"), float("inf"), -float("inf"), 1e-400, 10**400, "1", None, True, [1], {}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("points", None),
        ("points", torch.full((LARGE, 3), float("nan"))),
        ("points", torch.full((LARGE, 3), float("inf"))),
        ("points", torch.full((LARGE, 3), 1e30)),
        ("points", torch.ones(LARGE)),
        ("points", torch.ones(LARGE, 2)),
        ("points", torch.ones(LARGE, 3, dtype=torch.int64)),
        ("points", torch.ones(LARGE, 3, dtype=torch.float16)),
        ("points", torch.ones(LARGE, 3, dtype=torch.complex64)),
        ("partitions.of", None),
        ("partitions.of", torch.full((LARGE,), 10**6, dtype=torch.int32)),
        ("partitions.of", torch.full((LARGE,), -1, dtype=torch.int32)),
        ("partitions.of", torch.zeros(LARGE - 1, dtype=torch.int32)),
        ("partitions.of", torch.zeros(LARGE)),
        ("partitions.centers", None),
        ("partitions.centers", torch.ones(4, 3)),
        ("partitions.centers", torch.ones(253)),
        ("partitions.centers", torch.ones(253, 4, dtype=torch.float64)),
        ("partitions.centers", torch.full((253, 4), float("inf"))),
        ("partitions.centers", torch.full((253, 4), 1e38)),
        ("partitions.centers", torch.ones(0, 4)),
        ("names.numbers", torch.zeros(3, dtype=torch.int64)),
        ("names.numbers", torch.zeros(LARGE)),
        ("c", -1.0),
        ("c", "one"),
        ("c", float("nan")),
        ("coordinates", "klein"),
        ("recall", None),
        ("recall", float("nan")),
        ("seed", 0.5),
        ("exact_up_to", 0),
        ("exact_up_to", "many"),
        ("curved", 1),
        ("curved", None),
        ("made", LARGE + 1),
        ("own", 10**9),
        ("few", 10**9),
        ("many", 10**9),
        ("many", 2.5),
        ("share", 1.5),
        ("partitions", []),
        ("partitions", None),
        ("flat", {"made": 0}),
        ("flat", 7),
        *(
            (name, value)
            for name in ("width", "stretch", "made", "own", "few", "many", "share")
            for value in BAD_NUMBERS
        ),
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
        said = state["index"]["partitions"] if name in state["index"]["partitions"] else state["index"]
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


def test_the_unit_of_a_file_is_not_believed(large: tuple[Index, Path], tmp_path: Path) -> None:
    """A unit of 1e-30 made all products infinite, and the search went on without an end."""
    tensors, state = load_checkpoint(large[1] / "index.safetensors")
    for unit in (1e-30, 1e30, -1.0, float("nan")):
        said = state["index"] | {"partitions": state["index"]["partitions"] | {"unit": unit, "made_for": unit}}
        save_checkpoint(tmp_path / "index.safetensors", tensors, {"index": said})
        ids = Index.load(tmp_path).search(large[0].points[:20], 3)[1]
        assert torch.equal(ids, large[0].search(large[0].points[:20], 3)[1])


def lengths_of_names(folder: Path, n: int) -> list[int]:
    index = Index.load(folder)
    names = index.names(np.arange(n))
    index.save(folder)
    return list(map(len, names))


def test_stored_names_take_memory_by_the_size_of_the_file(tmp_path: Path) -> None:
    """One name of 300 kB beside 40,000 empty ones took 45 GiB."""
    n, long = 40_000, 300_000
    Index(BALL).add(points(n, 1)).save(tmp_path)
    path = tmp_path / "index.safetensors"
    tensors, state = load_checkpoint(path)
    tensors |= {"names.text": torch.full((long,), 97, dtype=torch.uint8), "names.ends": torch.full((n,), long)}
    save_checkpoint(path, tensors, {"index": state["index"]})
    with tracing_apart() as traced:
        lengths, peak = traced(lengths_of_names, tmp_path, n)
    assert lengths == [long, *[0] * (n - 1)]
    assert peak < 20 * path.stat().st_size
