"""What commands write: never over what they read, over a file that is there only with --force, and never to a URL."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from horoball.vae.run import Run
from tests.commands import done, refused

FAST = ["--quiet", "--hidden", "8", "--max-epochs", "2", "--batch-size", "32"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outputs")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=["a", "b", "c", "d"])
    frame.assign(kind=[f"k{i % 3}" for i in range(60)]).to_csv(folder / "rows.csv", index=False)
    (folder / "edges.csv").write_text("a,b\n" + "".join(f"n{(i - 1) // 2},n{i}\n" for i in range(1, 20)))
    return folder


@pytest.fixture(scope="module")
def fitted(rows: Path) -> Path:
    done("fit", rows / "rows.csv", "-o", rows / "run", "--label", "kind", *FAST)
    return rows / "run"


@pytest.fixture(scope="module")
def graph(rows: Path) -> Path:
    done("graph", "fit", rows / "edges.csv", "-o", rows / "graph", "--quiet", "--max-epochs", "2")
    return rows / "graph"


@pytest.fixture
def mine(rows: Path, tmp_path: Path) -> Path:
    """A file of the user's, to be read and never to be replaced."""
    path = tmp_path / "mine.csv"
    path.write_bytes((rows / "rows.csv").read_bytes())
    return path


REPORT = ["--seeds", "2", "--max-epochs", "1", "--hidden", "8"]
# Name of the file that is written → the command, from the run, the data and the file.
WRITERS: dict[str, tuple[str, Callable[[Path, Path], list[object]]]] = {
    "embed": ("z.csv", lambda run, data: ["embed", run, data]),
    "impute": ("filled.csv", lambda run, data: ["impute", run, data]),
    "sample": ("drawn.csv", lambda run, data: ["sample", run, "-n", 5]),
    "view": ("map.html", lambda run, data: ["view", run, data]),
    "export": ("encoder.pt2", lambda run, data: ["export", run]),
    "tree, newick": ("tree.nwk", lambda run, data: ["tree", run, data, "--draws", 0]),
    "tree, table": ("groups.csv", lambda run, data: ["tree", run, data, "--draws", 0]),
    "tree, page": ("tree.html", lambda run, data: ["tree", run, data, "--draws", 0]),
    "report": ("report.html", lambda run, data: ["report", data, "--label", "kind", *REPORT]),
}
GRAPH_WRITERS: dict[str, tuple[str, Callable[[Path], list[object]]]] = {
    "embed": ("nodes.csv", lambda run: ["graph", "embed", run]),
    "view": ("map.html", lambda run: ["graph", "view", run]),
    "tree": ("tree.nwk", lambda run: ["graph", "tree", run, "--draws", 0]),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_there_is_replaced_with_force_alone(name: str, fitted: Path, mine: Path, tmp_path: Path) -> None:
    file, command = WRITERS[name]
    path = tmp_path / file
    path.write_text("precious")
    said = refused(*command(fitted, mine), "-o", path)
    assert "--force" in said
    assert path.name in said
    assert path.read_text() == "precious"
    done(*command(fitted, mine), "-o", path, "--force")
    assert path.read_bytes() != b"precious"


@pytest.mark.parametrize("name", GRAPH_WRITERS)
def test_so_is_one_of_a_graph(name: str, graph: Path, tmp_path: Path) -> None:
    file, command = GRAPH_WRITERS[name]
    path = tmp_path / file
    path.write_text("precious")
    assert "--force" in refused(*command(graph), "-o", path)
    assert path.read_text() == "precious"
    done(*command(graph), "-o", path, "--force")


def test_the_numbers_beside_a_report_are_a_file_too(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("precious")
    said = refused("report", mine, "--label", "kind", "-o", tmp_path / "report.html", *REPORT)
    assert "report.json" in said
    assert "--force" in said
    assert (tmp_path / "report.json").read_text() == "precious"
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("name", ["view", "tree, page", "report"])
def test_a_command_replaces_its_own_page_until_somebody_changes_it(
    name: str, fitted: Path, mine: Path, tmp_path: Path
) -> None:
    file, command = WRITERS[name]
    path = tmp_path / file
    done(*command(fitted, mine), "-o", path)
    done(*command(fitted, mine), "-o", path)
    path.write_text(path.read_text(encoding="utf-8").replace("</title>", " with a remark of mine</title>"))
    assert "--force" in refused(*command(fitted, mine), "-o", path)
    assert "with a remark of mine" in path.read_text(encoding="utf-8")


def test_a_page_of_another_command_is_no_page_of_this_one(fitted: Path, mine: Path, tmp_path: Path) -> None:
    done("tree", fitted, mine, "-o", tmp_path / "page.html", "--draws", 0)
    assert "--force" in refused("view", fitted, mine, "-o", tmp_path / "page.html")


def test_changed_numbers_of_a_report_are_kept(mine: Path, tmp_path: Path) -> None:
    done("report", mine, "--label", "kind", "-o", tmp_path / "report.html", *REPORT)
    (tmp_path / "report.json").write_text("{}")
    assert "--force" in refused("report", mine, "--label", "kind", "-o", tmp_path / "report.html", *REPORT)
    assert (tmp_path / "report.json").read_text() == "{}"


@pytest.mark.parametrize("way", ["the same path", "relative", "a link to it", "a link to its folder", "a second name"])
@pytest.mark.parametrize("command", ["embed", "impute"])
def test_what_is_read_is_never_written(
    way: str, command: str, fitted: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = mine.read_bytes()
    output = mine
    if way == "relative":
        (tmp_path / "inside").mkdir()
        monkeypatch.chdir(tmp_path / "inside")
        output = Path("../mine.csv")
    elif way == "a link to it":
        output = tmp_path / "link.csv"
        output.symlink_to(mine)
    elif way == "a link to its folder":
        (tmp_path / "folder").symlink_to(tmp_path)
        output = tmp_path / "folder" / "mine.csv"
    elif way == "a second name":
        output = tmp_path / "second.csv"
        os.link(mine, output)
    for force in ([], ["--force"]):
        said = refused(command, fitted, mine, "-o", output, *force)
        assert "read" in said
        assert mine.read_bytes() == before
    link = tmp_path / "given.csv"  # the input may be given by a link too
    link.symlink_to(mine)
    assert "read" in refused(command, fitted, link, "-o", mine, "--force")
    assert "read" in refused(command, fitted, mine.as_uri(), "-o", mine, "--force")
    assert mine.read_bytes() == before


def test_files_of_the_run_that_is_read_are_never_written(fitted: Path, mine: Path) -> None:
    before = (fitted / "metrics.jsonl").read_bytes()
    assert "read" in refused("sample", fitted, "-n", 5, "-o", fitted / "metrics.jsonl", "--force")
    assert (fitted / "metrics.jsonl").read_bytes() == before
    done("sample", fitted, "-n", 5, "-o", fitted / "drawn.csv")
    (fitted / "drawn.csv").unlink()


def test_names_that_are_read_are_never_written(fitted: Path, mine: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.html"
    names.write_text("".join(f"row {i}\n" for i in range(60)))
    assert "read" in refused("view", fitted, mine, "--names", names, "-o", names, "--force")


def test_a_folder_that_is_read_gets_no_further_parquet_files(fitted: Path, mine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    pd.read_csv(mine).to_parquet(folder / "0.parquet")
    for output in (folder / "z.parquet", folder / "0.parquet", folder, folder / "z"):
        assert "read" in refused("embed", fitted, folder, "-o", output, "--force")
    assert [file.name for file in folder.iterdir()] == ["0.parquet"]
    assert "read" in refused("embed", fitted, folder / "0.parquet", "-o", folder)
    done("embed", fitted, folder, "-o", folder / "z.csv")


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_is_not_there_is_told_before_any_work(
    name: str, fitted: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("work was begun")

    monkeypatch.setattr(Run, "load", work)
    monkeypatch.setattr("horoball.report.analysis.make_report", work)
    file, command = WRITERS[name]
    said = refused(*command(fitted, mine), "-o", tmp_path / "nodir" / file)
    assert "no folder" in said
    assert "nodir" in said


def test_so_is_one_that_cannot_become_a_folder(fitted: Path, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("work was begun")

    monkeypatch.setattr(Run, "load", work)
    monkeypatch.setattr(sys.modules["horoball.tables.read"], "read_columns", work)
    assert "not a folder" in refused("embed", fitted, mine, "-o", mine / "z")
    assert "not a folder" in refused("fit", mine, "-o", mine / "run", *FAST)
    assert "not a folder" in refused("graph", "fit", mine, "-o", mine / "run")


@pytest.mark.parametrize("name", ["metrics.jsonl", "best.safetensors", "graph.safetensors"])
def test_a_fit_leaves_a_strangers_files_alone(name: str, rows: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"loss": 1}\n')
    commands: list[list[object]] = [["fit", rows / "rows.csv", "--label", "kind", *FAST]]
    if name == "graph.safetensors":  # which the fit to a table does not write
        commands = []
    commands.append(["graph", "fit", rows / "edges.csv", "--quiet", "--max-epochs", "2"])
    for command in commands:
        for resume in ([], ["--resume"]):
            said = refused(*command, "-o", tmp_path, *resume)
            assert name in said
            assert "Choose another folder" in said
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == '{"loss": 1}\n'


def test_what_a_fit_that_was_killed_in_its_first_epoch_has_left_is_no_strangers(rows: Path, tmp_path: Path) -> None:
    done("fit", rows / "rows.csv", "-o", tmp_path / "run", "--label", "kind", *FAST[:-4], "--max-epochs", "1")
    for name in ("last.safetensors", "model.safetensors", "run.toml"):  # what is written later
        (tmp_path / "run" / name).unlink()
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == ["best.safetensors", "metrics.jsonl"]
    done("fit", rows / "rows.csv", "-o", tmp_path / "run", "--label", "kind", *FAST)


def test_the_best_weights_of_a_run_without_its_checkpoint_are_kept(rows: Path, tmp_path: Path) -> None:
    done("fit", rows / "rows.csv", "-o", tmp_path / "run", "--label", "kind", *FAST)
    for name in ("last.safetensors", "model.safetensors"):
        (tmp_path / "run" / name).unlink()
    assert "Choose another folder" in refused(
        "fit", rows / "rows.csv", "-o", tmp_path / "run", "--label", "kind", *FAST
    )


@pytest.mark.parametrize("command", ["view", "report"])
def test_a_page_takes_no_place_of_a_model(tmp_path: Path, fitted: Path, command: str) -> None:
    data, model = tmp_path / "x.csv", tmp_path / "model.safetensors"
    data.write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(30)))
    model.write_bytes(b"a model")
    words = ("view", fitted, data) if command == "view" else ("report", data)
    assert "a file that ends in .html, not 'model.safetensors'" in refused(*words, "-o", model, "--force")
    assert model.read_bytes() == b"a model"
