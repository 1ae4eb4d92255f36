"""From a file to a map in one command, and what commands say first and last."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from horoball.vae.run import Run
from tests.commands import done, refused

FAST = ("--max-epochs", "2", "--hidden", "8", "--quiet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, rng = tmp_path_factory.mktemp("my data"), np.random.default_rng(0)
    kind = np.repeat([0, 1], 20)
    frame = pd.DataFrame(
        {"size": rng.normal(5 * kind, 1), "age": rng.normal(size=40), "color": np.array(["red", "blue"])[kind]}
    )
    frame.assign(name=[f"row {i}" for i in range(40)]).to_csv(made / "rows.csv", index=False)
    return made


@pytest.mark.filterwarnings("ignore:Training")
def test_a_map_needs_no_run_and_leaves_none(folder: Path, tmp_path: Path) -> None:
    told = done("view", folder / "rows.csv", "-o", tmp_path / "map.html", "--label", "color", "--id", "name", "--quiet")
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "row 39" in page
    assert '"name":"color"' in page
    assert [path.name for path in tmp_path.iterdir()] == ["map.html"]
    assert told.stderr.splitlines()[-1].endswith("map.html")


@pytest.mark.filterwarnings("ignore:Training")
def test_a_model_is_kept_where_it_is_asked_for(folder: Path, tmp_path: Path) -> None:
    told = done("view", folder / "rows.csv", "-o", tmp_path / "map.html", "--run", tmp_path / "run", "--quiet")
    assert Run.load(tmp_path / "run").record.rows == 40
    assert f"horoball tree {tmp_path / 'run'} '{folder / 'rows.csv'}' -o tree.html" in told.stderr
    again = done("view", tmp_path / "run", folder / "rows.csv", "-o", tmp_path / "again.html")
    assert again.stdout == ""
    assert "holds" in refused("view", folder / "rows.csv", "-o", tmp_path / "new.html", "--run", tmp_path / "run")


def test_options_of_data_alone_and_a_run_without_data_are_refused(folder: Path, tmp_path: Path) -> None:
    done("fit", folder / "rows.csv", "-o", tmp_path / "run", *FAST)
    page = tmp_path / "map.html"
    assert "for data alone" in refused("view", tmp_path / "run", folder / "rows.csv", "-o", page, "--label", "color")
    for command in ("view", "tree", "check"):
        output = [] if command == "check" else ["-o", page]
        assert "give the data after it" in refused(command, tmp_path / "run", *output)
    assert not page.exists()


def test_a_fit_says_its_columns_once_and_ends_with_the_next_command(folder: Path, tmp_path: Path) -> None:
    told = done("fit", folder / "rows.csv", "-o", tmp_path / "run", *FAST)
    assert (told.stdout + told.stderr).count("text with 2 different values") == 1
    assert "kinds" not in json.loads(told.stdout)
    assert "kinds" in json.loads(done("info", tmp_path / "run").stdout)
    following = told.stderr.splitlines()[-1]
    assert following == f"Next: horoball view {tmp_path / 'run'} '{folder / 'rows.csv'}' -o map.html"


def test_a_report_begins_with_the_check(folder: Path, tmp_path: Path) -> None:
    told = done(
        "report", folder / "rows.csv", "-o", tmp_path / "report.html", "--label", "color", "--seeds", "1", *FAST[:-1]
    ).stderr
    check = done("check", folder / "rows.csv", "--label", "color").stderr
    lines = [line for line in check.splitlines() if line.strip()][:-1]
    assert lines[0].startswith("40 rows of")
    at = [told.index(line) for line in lines]
    assert at == sorted(at)
    assert at[-1] < told.index("report.html")
    assert "Next:" not in told
