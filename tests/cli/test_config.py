"""Options in a file: a run writes what it was told, and the same options give the same model to the bit."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from horoball.storage.checkpoint import load_checkpoint
from tests.commands import done, run


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"]).assign(kind=["x", "y"] * 30)
    frame.to_csv(tmp_path / 'rows "é".csv', index=False)
    return tmp_path / 'rows "é".csv'


def same(one: Path, other: Path) -> bool:
    a, b = (load_checkpoint(folder / "model.safetensors")[0] for folder in (one, other))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_the_file_of_a_run_gives_the_same_bits(rows: Path, tmp_path: Path) -> None:
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    options = ["--label", "kind", "--dim", 3, "--c", 0.7, "--hidden", 8, "--max-epochs", 2, "--seed", 3, "--drop", "c"]
    done("fit", rows, "-o", first, "--quiet", "--kind", "numbers", *options)
    said = tomllib.loads((first / "run.toml").read_text(encoding="utf-8"))
    assert said == {
        "data": str(rows),
        "dim": 3,
        "c": "0.7",
        "hidden": 8,
        "max_epochs": 2,
        "seed": 3,
        "label": "kind",
        "drop": "c",
        "kind": "numbers",
    }
    done("fit", "--config", first / "run.toml", "-o", again, "--quiet")
    assert same(first, again)
    assert tomllib.loads((again / "run.toml").read_text(encoding="utf-8")) == said
    done("fit", "--config", first / "run.toml", "-o", other, "--seed", 4, "--quiet")
    assert not same(first, other)
    assert tomllib.loads((other / "run.toml").read_text(encoding="utf-8"))["seed"] == 4


def test_the_file_of_a_graph_gives_the_same_bits(tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("child,parent\n" + "".join(f"n{i},n{(i - 1) // 2}\n" for i in range(1, 12)))
    done("graph", "fit", edges, "-o", tmp_path / "first", "--directed", "--quiet", "--max-epochs", 2)
    done("graph", "fit", "--config", tmp_path / "first" / "run.toml", "-o", tmp_path / "again", "--quiet")
    assert same(tmp_path / "first", tmp_path / "again")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("colour = 3", "has the option 'colour'. Options there are"),
        ("dim = ", "is no file of options in TOML"),
        ("\xff", "is no file of options in TOML"),
        ('dim = "two"', "valid integer"),
        ("[fit]\ndim = 2", "has the option 'fit'"),
        ("output = 'x'", "has the option 'output'"),
    ],
)
def test_other_files_are_refused(text: str, says: str, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(text, encoding="latin1")
    result = run("fit", rows, "--config", tmp_path / "bad.toml", "-o", tmp_path / "run")
    assert result.exit_code == 2, result.output
    assert says in " ".join(result.stderr.replace("│", " ").split())
    assert not (tmp_path / "run").exists()
    gone = run("fit", rows, "--config", tmp_path / "none.toml", "-o", tmp_path / "run")
    assert gone.exit_code == 2


def test_a_path_that_is_no_text_is_left_to_the_command_line(rows: Path, tmp_path: Path) -> None:
    strange = tmp_path / b"r\xe9.csv".decode("utf-8", "surrogateescape")
    rows.rename(strange)
    done("fit", strange, "-o", tmp_path / "run", "--label", "kind", "--max-epochs", 1, "--hidden", 8, "--quiet")
    text = (tmp_path / "run" / "run.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["label"] == "kind"
    assert "# data is a path that is not text in UTF-8: give it on the command line" in text
