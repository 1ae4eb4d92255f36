"""Places that are kept with a run: what a stranger's file holds is placed with, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from horoball import PoincareVAE
from horoball.storage.checkpoint import load_checkpoint, save_checkpoint
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.training.state import PLACES
from horoball.trees import Placer
from horoball.vae.files import drift_of, embed_folder, place_file, place_folder
from horoball.vae.run import Run
from horoball.vae.train import train
from horoball.vae.tree import load_places, save_places, table_points

Change = Callable[[dict[str, torch.Tensor], dict[str, Any]], object]

FITTED = (0.1, 0.1, 1.0, 0.0, 1.0, 0.0)


@pytest.fixture(scope="module")
def run() -> Run:
    rows = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    return train(ArrayTable(rows), {"hidden": (4,)}, TrainConfig(max_epochs=1))


def point(value: float) -> Callable[[dict[str, torch.Tensor], dict[str, Any]], None]:
    def change(tensors: dict[str, torch.Tensor], _: dict[str, Any]) -> None:
        tensors["points"][1, 2] = value

    return change


def fitted(place: int, value: float) -> Callable[[dict[str, torch.Tensor], dict[str, Any]], None]:
    return lambda _, state: state["fitted"].__setitem__(place, value)


def level(value: int) -> Callable[[dict[str, torch.Tensor], dict[str, Any]], None]:
    def change(tensors: dict[str, torch.Tensor], _: dict[str, Any]) -> None:
        tensors["levels"][0, 0] = value

    return change


HOSTILE = {
    "a large number": (point(3e38), "up to 1e.18"),
    "a number whose square is infinite": (point(-2e19), "up to 1e.18"),
    "NaN": (point(float("nan")), "not finite"),
    "no temperature": (fitted(1, 1e-300), "outside"),
    "no sharpness": (fitted(0, 1e-300), "outside"),
    "an endless slope": (fitted(2, 1e308), "outside"),
    "an endless offset": (fitted(5, -1e308), "outside"),
    "a group below none": (level(-7), "groups"),
    "a group of many": (level(2**62), "groups"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_places_that_would_give_no_probabilities_are_refused(case: str, run: Run, tmp_path: Path) -> None:
    change, says = HOSTILE[case]
    points = np.random.default_rng(0).normal(size=(4, 6))
    save_places(Placer(points, [[0], [0], [1], [1]], FITTED), run, tmp_path)
    tensors, state = load_checkpoint(tmp_path / PLACES)
    change(tensors, state)
    save_checkpoint(tmp_path / PLACES, tensors, state)
    with pytest.raises(ValueError, match=says) as caught:
        load_places(tmp_path, run)
    assert PLACES in str(caught.value)


def test_rows_that_are_too_large_to_be_placed_are_refused_by_number() -> None:
    placer = Placer(np.eye(4, 6), [[0], [0], [1], [1]], FITTED, held=np.zeros(9))
    assert np.isfinite(placer.place(1e17 * np.eye(2, 6)).probability).all()
    with pytest.raises(ValueError, match="row 1 is larger"):
        placer.place(np.eye(2, 6) * [[1.0], [3e38]])


def test_thousands_of_groups_of_one_branch_take_little_memory() -> None:
    """Which paths share a branch was a matrix of paths × paths: 20,000 rows of half a megabyte took gigabytes."""
    n = 20_000
    levels = np.stack([np.zeros(n, np.int64), np.arange(n)], 1)
    placer = Placer(np.random.default_rng(0).normal(size=(n, 2)), levels, FITTED, held=np.zeros(9))
    assert sum(len(first) + len(branch) for first, branch in placer._branches) == 3 * n + 1
    placed = placer.place(placer.points[:3])
    np.testing.assert_array_equal(placed.path[:, 1], [0, 1, 2])
    assert np.isfinite(placed.probability).all()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    x = np.kron(np.eye(3), np.ones((40, 5))) + 0.4 * np.random.default_rng(0).normal(size=(120, 15))
    model = PoincareVAE(max_epochs=3, hidden=(16,), random_state=0).fit(x)
    model.taxonomy(x, [3], draws=5)
    folder = tmp_path_factory.mktemp("places")
    model.save(folder)
    return folder, x


def changed(folder: Path, new: Path, change: Change) -> Path:
    """A copy of a model whose stored groups are changed."""
    for file in folder.iterdir():
        if file.is_file():
            (new / file.name).write_bytes(file.read_bytes())
    tensors, state = load_checkpoint(folder / PLACES)
    change(tensors, state)
    save_checkpoint(
        new / PLACES, tensors, {name: state[name] for name in ("fitted", "names", "model", "run") if name in state}
    )
    return new


def test_a_loaded_model_places_rows_as_before(saved: tuple[Path, np.ndarray]) -> None:
    folder, x = saved
    first, again = PoincareVAE.load(folder), PoincareVAE.load(folder)
    assert len(first.places_.held) == 24
    assert np.isfinite(first.places_.limits).all()
    placed = first.place(x, coverage=0.9)
    assert placed.confidence is not None
    assert np.array_equal(placed.confidence, again.place(x, coverage=0.9).confidence)
    assert placed.depth().mean() > 0.8
    with pytest.warns(UserWarning, match="far outside of the rows of the fit"):
        far = first.place(x + 30, coverage=0.9)
    assert far.deepest() == [None] * 120


def test_groups_of_an_earlier_version_get_held_out_rows_when_they_are_read(
    saved: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    folder, x = saved

    def old(tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        del tensors["held"], tensors["limits"], state["model"]
        state["run"] = ""  # of a model that no command had fitted

    model = PoincareVAE.load(changed(folder, tmp_path, old))
    assert len(model.places_.held) == 96 // 5
    assert model.place(x, coverage=0.9).depth().mean() > 0.8


def test_groups_are_as_many_as_all_rows_of_the_fit_may_have(run: Run, tmp_path: Path) -> None:
    """Where many groups are small, fewer rows than groups are left when some are held out."""
    x = np.random.default_rng(0).normal(size=(24, 6))
    placer = Placer.fit(x, np.maximum(np.arange(24) - 4, 0)[:, None])
    assert placer.levels.max() >= len(placer.levels)
    save_places(placer, run, tmp_path)
    assert np.array_equal(load_places(tmp_path, run).levels, placer.levels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors, state: tensors.update(held=tensors["held"] + 1.5), "not probabilities"),
        (lambda tensors, state: tensors.update(held=tensors["held"] * torch.nan), "not probabilities"),
        (lambda tensors, state: tensors.update(held=tensors["held"].float()), "not probabilities"),
        (lambda tensors, state: tensors.update(held=tensors["held"][None]), "held-out rows of shape"),
        (lambda tensors, state: tensors.update(limits=tensors["limits"] * torch.nan), "limits are not numbers"),
        (lambda tensors, state: tensors.update(limits=tensors["limits"][:1]), "limits of shape"),
        (lambda tensors, state: tensors.pop("limits"), "limits"),
        (lambda tensors, state: tensors.update(typical=tensors["typical"] * torch.inf), "typical rows are not finite"),
        (lambda tensors, state: tensors.update(typical=tensors["typical"][:3]), "typical rows are not finite"),
    ],
)
def test_what_is_no_coverage_is_refused(
    saved: tuple[Path, np.ndarray], tmp_path: Path, change: Change, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PoincareVAE.load(changed(saved[0], tmp_path, change))


def test_places_in_shards_are_those_of_one_file(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([-1 + rng.normal(size=(60, 6)) / 3, 1 + rng.normal(size=(60, 6)) / 3]).astype(np.float32)
    placer = Placer.fit(table_points(run, ArrayTable(x)), np.repeat([0, 1], 60)[:, None], names=[["low", "high"]])
    new = ArrayTable(rng.permutation(x))
    one, folder = tmp_path / "one.parquet", tmp_path / "many"
    assert place_file(run, placer, new, one)[0] == 120
    whole = pq.read_table(one)
    assert whole["row"].to_pylist() == list(range(120))
    for rank, rows in ((1, 50), (0, 70), (1, 0)):  # the last finds all of its files there
        assert place_folder(run, placer, new, folder, rows=50, rank=rank, ranks=2) == rows
    assert pq.read_table(folder).equals(whole)
    shares = [drift_of(placer, folder, rank, 2) for rank in range(2)]
    assert [drift.rows for drift in shares] == [70, 50]
    assert sum(drift.unfit for drift in shares) == place_file(run, placer, new, tmp_path / "again.csv")[2]
    with pytest.raises(ValueError, match="holds places in other groups, or of another coverage"):
        place_folder(run, placer, new, folder, 0.8, rows=50)
    with pytest.raises(ValueError, match="of other rows"):
        place_folder(run, placer, new, folder, rows=40)
    with pytest.raises(ValueError, match="no _embedding"):
        embed_folder(run, new, folder, rows=50)
    empty = tmp_path / "none.csv"
    assert place_file(run, placer, ArrayTable(x[:0]), empty) == (0, 0, 0)
    assert empty.read_text().splitlines() == ['"row","level_1","probability_1","typical","place"']
