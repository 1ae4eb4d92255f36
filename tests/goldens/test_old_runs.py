"""Runs of version 0.1 are read, and put the same rows at the same places; `old_runs.py` has how they were made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from horoball import PoincareVAE
from tests.commands import done
from tests.goldens.old_runs import FOLDER, KINDS, named, places

SAID: dict[str, Any] = json.loads((FOLDER / "places.json").read_text(encoding="utf-8"))
FIRST = FOLDER.with_name("run-0.1-format-1")  # of a table, by the first code of 0.1
# The same weights in float32, whose sums may be in another order; some kernels have other formulas by now.
RTOL, ATOL = 1e-4, 1e-5


def test_every_kind_is_there() -> None:
    assert SAID.keys() == KINDS.keys() == {path.name for path in FOLDER.iterdir() if path.is_dir()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_version_0_1_puts_rows_where_it_did(kind: str) -> None:
    np.testing.assert_allclose(np.array(places(FOLDER / kind)), np.array(SAID[kind]), rtol=RTOL, atol=ATOL)


def test_commands_take_a_run_of_version_0_1(tmp_path: Path) -> None:
    named().to_csv(tmp_path / "x.csv", index=False)
    assert "riemannian" in done("info", FOLDER / "command").output
    done("embed", FOLDER / "command", tmp_path / "x.csv", "-o", tmp_path / "z.csv")
    found = np.genfromtxt(tmp_path / "z.csv", delimiter=",", names=True)
    z = np.stack([found["z0"], found["z1"]], 1)
    np.testing.assert_allclose(z, np.array(SAID["command"]), rtol=RTOL, atol=ATOL)


@pytest.mark.filterwarnings("default:The run in .* was left by horoball 0.1.0")
def test_training_of_version_0_1_goes_on(tmp_path: Path) -> None:
    named().to_csv(tmp_path / "rows.csv", index=False)
    shutil.copytree(FOLDER / "command", tmp_path / "run")
    options = ("--max-epochs", 3, "--hidden", 4, "--batch-size", 16, "--seed", 7)
    told = done("fit", tmp_path / "rows.csv", "-o", tmp_path / "run", *options, "--resume").output
    assert "was left by horoball 0.1.0 and goes on with" in told
    epochs = [json.loads(line)["epoch"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert epochs == [1, 2, 3]


def test_a_run_in_the_first_format_is_refused_by_its_version() -> None:
    said = r"has checkpoint format 1 and was written by horoball 0\.1\.0; .* reads format 2\. Use the version"
    with pytest.raises(ValueError, match=said):
        PoincareVAE.load(FIRST)
