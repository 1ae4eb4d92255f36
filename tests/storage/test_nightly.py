"""The script of the page on scale keeps a model up to date in a store, night after night."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.vae.run import Run
from tests.commands import run
from tests.late import late

nightly = late("examples.nightly")

FAST = ["--id", "key", "--levels", "3", "--hidden", "8", "--max-epochs", "2"]
MODELS = "s3://bucket/models"


def rows(night: str, centers: np.ndarray, seed: int) -> str:
    """Two files of rows in the store."""
    rng = np.random.default_rng(seed)
    for part in range(2):
        x = centers.repeat(100, 0) + rng.normal(size=(300, 6))
        keys = [f"{night}-{part}-{i}" for i in range(300)]
        content = io.BytesIO()
        pq.write_table(pa.table({"key": keys} | dict(zip("abcdef", x.T, strict=True))), content)
        fsspec.filesystem("s3").pipe(f"bucket/rows/{night}/{part}.parquet", content.getvalue())
    return f"s3://bucket/rows/{night}"


def night(capsys: pytest.CaptureFixture[str], name: str, url: str) -> tuple[int, dict[str, Any]]:
    code = nightly.main([url, MODELS, "-o", f"s3://bucket/places/{name}", *FAST])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def in_this_process(*words: object) -> dict[str, Any]:
    result = run(*words)
    if result.exit_code:
        raise SystemExit(result.exit_code)
    return dict(json.loads(result.stdout.splitlines()[-1]))


def test_nights_place_rows_and_make_a_model_anew_when_many_do_not_fit(
    s3_server: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("examples.nightly.horoball", in_this_process)
    store = fsspec.filesystem("s3")
    store.pipe("bucket/x", b"")  # of a bucket that is new
    centers = np.random.default_rng(0).normal(size=(3, 6)) * 8
    code, first = night(capsys, "one", rows("one", centers, 1))
    assert code == 0
    assert first["anew"]
    assert first["rows"] == 600
    # The model is called by the fingerprint of its rows, which the run knows too.
    assert first["run"] == f"{MODELS}/{Run.load(Path(first['run'])).record.data}"

    code, same = night(capsys, "two", rows("two", centers, 2))
    assert (code, same["anew"], same["run"]) == (0, False, first["run"])
    assert same["p"] > 0.01
    places = pq.read_table(store.open(f"{same['output'].removeprefix('s3://')}/part-00000.parquet"))
    assert places["key"].to_pylist() == [f"two-{part}-{i}" for part in range(2) for i in range(300)]

    moved = rows("three", centers + 6, 3)
    code, third = night(capsys, "three", moved)
    assert (code, third["anew"]) == (0, True)
    assert third["run"] != first["run"]
    assert third["compared"]["new"] < 0.2 < third["compared"]["old"]
    assert third["unfit"] < 0.1 * 600
    code, again = night(capsys, "three", moved)  # as if it had been stopped at the end
    assert (code, again["run"], again["anew"]) == (0, third["run"], False)
    assert json.loads(store.cat("bucket/models/current.json")) == {"run": third["run"], "before": first["run"]}

    # As a scheduler runs it.
    ended = subprocess.run(
        [sys.executable, "-m", "examples.nightly", moved, MODELS, "-o", "s3://bucket/places/three", *FAST],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert json.loads(ended.stdout.splitlines()[-1]) == again
    with pytest.raises(SystemExit) as failed:
        night(capsys, "none", "s3://bucket/rows/none")
    assert failed.value.code == 1


def test_a_model_that_is_no_better_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows").mkdir()
    x = np.random.default_rng(0).normal(size=(100, 2))
    pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1]}), tmp_path / "rows" / "0.parquet")
    (tmp_path / "current.json").write_text(json.dumps({"run": "old"}))
    asked: list[object] = []

    def answered(*words: object) -> dict[str, Any]:
        asked.append(words[0])
        return {"rows": 100, "unfit": 30, "p": 1e-6, "anew": True, "output": "x"}

    monkeypatch.setattr("examples.nightly.horoball", answered)
    code = nightly.main([str(tmp_path / "rows"), str(tmp_path), "-o", str(tmp_path / "places"), "--repo", "me/m"])
    told = json.loads(capsys.readouterr().out)
    assert code == nightly.NOT_BETTER == 3
    assert told["run"] == "old"
    assert not told["better"]
    assert asked == ["place", "fit", "tree", "place", "place"]
    assert json.loads((tmp_path / "current.json").read_text()) == {"run": "old"}


def test_rows_of_a_sample_are_at_equal_steps(tmp_path: Path) -> None:
    for part in range(3):
        pq.write_table(pa.table({"a": range(part * 100, part * 100 + 100)}), tmp_path / f"{part}.parquet")
    train, held = nightly.sample(str(tmp_path), 50)
    assert held["a"].to_pylist() == list(range(0, 300, 60))
    assert sorted(train["a"].to_pylist() + held["a"].to_pylist()) == list(range(0, 300, 6))
