"""Batches of an engine become what the commands write of the same rows, with their keys."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.engines import Embedder, Placer
from tests.commands import done

# Spark and Ray use what they deprecate, and leave sockets to the garbage collector.
WITH_THEIR_WARNINGS = pytest.mark.filterwarnings("ignore")
KEYS = [f"k{i:04d}" for i in range(900)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, 4)) * 6
    rows = centers[np.arange(900) % 3] + rng.normal(size=(900, 4))
    table = pa.table({"key": KEYS} | dict(zip("abcd", rows.T, strict=True)))
    pq.write_table(table, folder / "rows.parquet", row_group_size=300)
    done(
        "fit", folder / "rows.parquet", "-o", folder / "run", "--id", "key", "--quiet", "--hidden", 8, "--max-epochs", 2
    )
    done("tree", folder / "run", folder / "rows.parquet", "-o", folder / "t.csv", "--draws", 0, "--levels", "3")
    done("embed", folder / "run", folder / "rows.parquet", "-o", folder / "z.parquet")
    done("place", folder / "run", folder / "rows.parquet", "-o", folder / "places.parquet")
    return folder


def same(found: pa.Table, wanted: pa.Table, *, bits: bool = True) -> None:
    found = found.sort_by("key")
    assert found.column_names == wanted.column_names
    for name in wanted.column_names:
        ours, theirs = (table.column(name).to_pylist() for table in (found, wanted))
        if bits or not pa.types.is_floating(wanted.schema.field(name).type):
            assert ours == theirs, name
        else:  # a batch of another size may be summed in another order
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_batches_are_what_the_commands_write(folder: Path) -> None:
    rows = pq.read_table(folder / "rows.parquet")
    for made, file in ((Embedder, "z"), (Placer, "places")):
        mapped = made(folder / "run", keep=["key"])
        same(mapped(rows), pq.read_table(folder / f"{file}.parquet"))
        again = pickle.loads(pickle.dumps(mapped))  # noqa: S301  as engines do
        parts = list(again.batches(rows.to_batches(max_chunksize=100)))
        same(pa.Table.from_batches(parts), pq.read_table(folder / f"{file}.parquet"), bits=False)


def test_the_columns_are_known_without_rows(folder: Path) -> None:
    rows = pq.read_table(folder / "rows.parquet")
    for made in (Embedder, Placer):
        mapped = made(str(folder / "run"), keep=["key"])
        assert mapped.schema(rows.schema).equals(mapped(rows).schema)
        assert mapped(rows.slice(0, 0)).num_rows == 0


def test_columns_that_cannot_be_kept_are_refused(folder: Path) -> None:
    rows = pq.read_table(folder / "rows.parquet")
    with pytest.raises(ValueError, match="no column 'id' to keep"):
        Embedder(folder / "run", keep=["id"])(rows)
    with pytest.raises(ValueError, match="'z0' to keep has the name of one that is made"):
        Embedder(folder / "run", keep=["z0"])(rows.append_column("z0", [KEYS]))


@WITH_THEIR_WARNINGS
def test_spark_maps_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark: Any = pytest.importorskip("pyspark.sql")
    types: Any = pytest.importorskip("pyspark.sql.pandas.types")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark = pyspark.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = spark.read.parquet(str(folder / "rows.parquet")).repartition(4)
        for made, file in ((Embedder, "z"), (Placer, "places")):
            mapped = made(folder / "run", keep=["key"])
            columns = types.from_arrow_schema(mapped.schema(types.to_arrow_schema(frame.schema)))
            found = frame.mapInArrow(mapped.batches, columns).toArrow()
            same(
                found.cast(pq.read_schema(folder / f"{file}.parquet")),
                pq.read_table(folder / f"{file}.parquet"),
                bits=False,
            )
    finally:
        spark.stop()


@WITH_THEIR_WARNINGS
def test_ray_maps_them_and_survives_a_killed_actor(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "300")  # of a crowded machine
    ray: Any = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    killed = tmp_path / "killed"

    class Dying(Embedder):
        """The first actor that has rows ends, as if its machine had."""

        def __call__(self, batch: Any) -> Any:
            if not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    # Two for the actors, and two for those who read and write.
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        for made, file in ((Dying, "z"), (Placer, "places")):
            rows = ray.data.read_parquet(str(folder / "rows.parquet"), override_num_blocks=6)
            mapped = rows.map_batches(
                made,
                fn_constructor_args=(str(folder / "run"), ["key"]),
                batch_format="pyarrow",
                batch_size=150,
                compute=ray.data.ActorPoolStrategy(size=2),
            )
            mapped.write_parquet(str(tmp_path / file))
            same(pq.read_table(tmp_path / file), pq.read_table(folder / f"{file}.parquet"), bits=False)
        assert killed.exists()
    finally:
        ray.shutdown()
