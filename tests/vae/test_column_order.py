"""Columns are found by name: the estimator and the command give the same coordinates, or refuse in the same words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import horoball as hb
from tests.commands import done, refused
from tests.late import late

pl = late("polars")

FAST = ["--quiet", "--hidden", "8", "--max-epochs", "2", "--batch-size", "32"]
FRAMES: list[Callable[[pd.DataFrame], Any]] = [
    pd.DataFrame,
    pl.from_pandas,
    lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
]


def numbers() -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)) + 5, columns=["a", "b", "c"])


def numbered() -> pd.DataFrame:
    """Names that an array's columns are given, too."""
    return numbers().rename(columns={"a": "x0", "b": "x1", "c": "x2"})


def mixed() -> pd.DataFrame:
    frame = numbers().assign(kind=[f"k{i % 3}" for i in range(60)])
    frame.loc[5, "b"] = np.nan
    return frame


def skipping() -> pd.DataFrame:
    frame = numbers()
    return frame.assign(note=[f"text of row {row}" for row in range(len(frame))])


TABLES = [numbers, numbered, mixed, skipping]


def other(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows, with columns in another order and others among them."""
    turned = frame[frame.columns[::-1]].copy()
    turned.insert(1, "day", "Monday")
    return turned.assign(weight=1.5)


@pytest.fixture(scope="module", params=TABLES, ids=lambda table: table.__name__)
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Path]:
    """A table, and the folder of a run that was fitted to its file."""
    folder, frame = tmp_path_factory.mktemp("run"), request.param()
    frame.to_csv(folder / "rows.csv", index=False)
    done("fit", folder / "rows.csv", "-o", folder / "run", *FAST)
    return frame, folder


def embedded(folder: Path, frame: pd.DataFrame, ending: str) -> np.ndarray:
    """Coordinates by the command."""
    source, output = folder / f"other{ending}", folder / "z.parquet"
    frame.to_csv(source, index=False) if ending == ".csv" else frame.to_parquet(source, index=False)
    done("embed", folder / "run", source, "-o", output, "--force")
    return pd.read_parquet(output)[["z0", "z1"]].to_numpy()


@pytest.mark.filterwarnings("error::UserWarning")
def test_columns_in_another_order_and_among_others_give_the_same_coordinates(fitted: tuple[pd.DataFrame, Path]) -> None:
    frame, folder = fitted
    expected = embedded(folder, frame, ".csv")
    for ending in (".csv", ".parquet"):
        np.testing.assert_array_equal(embedded(folder, other(frame), ending), expected)
    loaded = hb.PoincareVAE.load(folder / "run")
    for as_frame in FRAMES:
        for rows in (frame, other(frame)):
            np.testing.assert_array_equal(loaded.transform(as_frame(rows)), expected)
    run = loaded.run_
    np.testing.assert_array_equal(np.concatenate([z.numpy() for z in run.embed(run.read(other(frame)))]), expected)


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("as_frame", FRAMES)
def test_every_method_finds_columns_by_name(table: Callable[[], pd.DataFrame], as_frame: Any) -> None:
    frame = table()
    model = hb.PoincareVAE(max_epochs=1, hidden=(8,), random_state=0).fit(as_frame(frame))
    for method in (model.transform, model.posterior_scale, lambda rows: model.score_samples(rows, samples=3)):
        np.testing.assert_array_equal(method(as_frame(other(frame))), method(as_frame(frame)))
    model.partial_fit(as_frame(other(frame)))
    assert model.tree(as_frame(other(frame)), draws=0).leaves == 60


def test_missing_columns_are_refused_in_the_same_words(fitted: tuple[pd.DataFrame, Path]) -> None:
    frame, folder = fitted
    names = list(frame.columns[:2])
    fewer = other(frame).drop(columns=names)
    fewer.to_csv(folder / "fewer.csv", index=False)
    told = refused("embed", folder / "run", folder / "fewer.csv", "-o", folder / "z.csv")
    said = f" lacks 2 of the model's {4 if 'kind' in frame else 3} columns: {', '.join(names)}. Give all columns"
    assert said in told
    loaded = hb.PoincareVAE.load(folder / "run")
    for as_frame in FRAMES:
        with pytest.raises(ValueError, match="Give all columns of the fit; others may be there too, in any order"):
            loaded.transform(as_frame(fewer))


def test_missing_columns_are_named() -> None:
    model = hb.PoincareVAE(max_epochs=1, hidden=(8,)).fit(numbers())
    with pytest.raises(ValueError, match=r"The data frame lacks 1 of the model's 3 columns: b\."):
        model.transform(numbers()[["c", "a"]])


def test_columns_that_stand_twice_are_refused() -> None:
    model = hb.PoincareVAE(max_epochs=1, hidden=(8,)).fit(numbers())
    twice = pd.concat([numbers(), numbers()[["b"]]], axis=1)
    with pytest.raises(ValueError, match=r"columns of the same name: b\. Rename them"):
        model.transform(twice)


def test_an_array_has_the_columns_of_the_fit_in_their_order() -> None:
    model = hb.PoincareVAE(max_epochs=1, hidden=(8,), random_state=0).fit(numbers())
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        z = model.transform(numbers().to_numpy())
    np.testing.assert_array_equal(z, model.transform(numbers()))
