"""Runs and embeddings in a store, killed at random moments: nothing half-written is seen, and they are resumed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from horoball.storage.checkpoint import load_checkpoint
from horoball.storage.stores import located

KILLS = 20
URL = "s3://bucket/killed"


def command(*arguments: object) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "horoball", *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def whole(folder: str) -> int:
    """How many objects of a folder are there, each of which is whole."""
    seen = 0
    for path in located(folder).iterdir():
        if path.name.startswith("run.lock."):
            continue
        seen += 1
        if path.suffix == ".safetensors":
            load_checkpoint(path)
        elif path.suffix == ".parquet":
            assert pq.read_table(path.open_binary()).num_rows > 0
        elif path.name == "run.toml":  # of a run that ended before it was killed
            tomllib.loads(path.read_text())
        else:
            assert path.suffix in (".json", ".jsonl") or path.name == "_SUCCESS"
            for line in path.read_text().splitlines():
                json.loads(line)
    return seen


def names(folder: str) -> set[str]:
    return {path.name for path in located(folder).iterdir()}


def killed(folder: str, seconds: float, *arguments: object) -> int:
    """Kill a command at random moments, each time from where the last one was; then let it end.

    Returns how many were still at work when they were killed.
    """
    rng, alive = np.random.default_rng(0), 0
    for _ in range(KILLS):
        seen, before = whole(folder), names(folder)
        with command(*arguments) as process:
            # Python and torch take seconds to start: moments are counted from the first thing that a process writes.
            while process.poll() is None and names(folder) == before:
                time.sleep(0.02)
            time.sleep(float(rng.uniform(0, seconds)))
            alive += process.poll() is None
            process.kill()
        assert whole(folder) >= seen
    with command(*arguments) as process:
        _, said = process.communicate()
        assert process.returncode == 0, said
    return alive


@pytest.fixture
def rows(s3_server: None, tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20_000, 8)), columns=list("abcdefgh"))
    frame.to_csv(path, index=False)
    fsspec.filesystem("s3").pipe_file(f"{URL}/rows.csv", path.read_bytes())
    return path


def test_a_killed_run_is_resumed_and_ends_with_the_same_weights(rows: Path, tmp_path: Path) -> None:
    options = ["--quiet", "--hidden", 16, "--max-epochs", 40, "--batch-size", 256, "--distance-weight", 0]
    options += ["--patience", 100, "--validation", 0.1]
    with command("fit", rows, "-o", tmp_path / "run", *options) as process:
        assert process.wait() == 0
    alive = killed(f"{URL}/run", 6, "fit", f"{URL}/rows.csv", "-o", f"{URL}/run", "--resume", *options)
    assert alive >= KILLS // 2
    ours, theirs = (
        load_checkpoint(folder / "model.safetensors")[0] for folder in (located(f"{URL}/run"), tmp_path / "run")
    )
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert not [path for path in located(f"{URL}/run").iterdir() if "lock" in path.name]


@pytest.mark.parametrize("name", ["embed", "place"])
def test_killed_parts_are_completed(name: str, rows: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with command("fit", rows, "-o", run, "--quiet", "--hidden", 16, "--max-epochs", 1) as process:
        assert process.wait() == 0
    if name == "place":
        groups = ["--draws", 0, "--levels", "5,20", "-o", tmp_path / "groups.csv"]
        with command("tree", run, rows, *groups) as process:
            assert process.wait() == 0
    options, there = ["--quiet", "--file-rows", 100], f"{URL}/{name}"
    with command(name, run, rows, "-o", tmp_path / "parts", *options) as process:
        assert process.wait() == 0
    alive = killed(there, 0.15, name, run, f"{URL}/rows.csv", "-o", there, *options)
    assert alive == KILLS
    assert names(there) == names(str(tmp_path / "parts"))
    for file in names(there):
        assert located(f"{there}/{file}").read_bytes() == (tmp_path / "parts" / file).read_bytes()
