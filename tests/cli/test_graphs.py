"""`horoball graph fit`, `evaluate`, `embed` and `info`."""

from __future__ import annotations

import csv
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from click.testing import Result

from horoball.datasets import random_tree
from horoball.graphs import degree_deficit, link_scores
from horoball.graphs.run import GraphRun
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.vae.train import train
from tests import commands

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of Fabric, at import
FAST = ["--quiet", "--hidden", "8", "--max-epochs", "2"]
TREE = random_tree(60, seed=0).edges.tolist()


def done(*arguments: object) -> Result:
    return commands.done("graph", *arguments)


def refused(*arguments: object) -> str:
    return commands.refused("graph", *arguments)


@pytest.fixture(autouse=True)
def _a_process_of_its_own() -> Iterator[None]:
    """Commands seed the global generator, and log to the terminal that they have."""
    with torch.random.fork_rng(devices=[]):
        yield
    logging.getLogger("horoball").handlers.clear()


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "tree.csv"
    path.write_text("parent,child\n" + "".join(f"nœud {i},nœud {j}\n" for i, j in TREE))
    return path


@pytest.fixture(scope="module")
def fitted(edges: Path) -> Path:
    """A finished run; tests read it and leave it as it is."""
    folder = edges.parent / "run"
    done("fit", edges, "-o", folder, *FAST, "--test", 0.1, "--dim", 3)
    return folder


def test_a_fit_leaves_a_run_and_says_what_it_is(edges: Path, tmp_path: Path) -> None:
    result = done("fit", edges, "-o", tmp_path / "run", *FAST, "--edges", "fermi_dirac", "--c", "learn")
    told = json.loads(result.stdout)
    assert (told["nodes"], told["edges"], told["posterior"], told["d"]) == (60, 59, "wrapped", 2)
    assert [told[name] for name in ("encoder", "edge likelihood", "pairs", "epochs")] == [
        "free",
        "fermi_dirac",
        "all",
        2,
    ]
    assert json.loads(done("info", tmp_path / "run").stdout) == told
    names = {"model.safetensors", "last.safetensors", "metrics.jsonl", "graph.safetensors", "run.toml"}
    assert {file.name for file in (tmp_path / "run").iterdir()} == names
    again = done("fit", edges, "-o", tmp_path / "again", *FAST, "--edges", "fermi_dirac", "--c", "learn")
    assert json.loads(again.stdout) | {"run": ""} == told | {"run": ""}
    first, second = (GraphRun.load(tmp_path / name) for name in ("run", "again"))
    assert torch.equal(first.embed(), second.embed())  # the same command, the same model


def test_names_reach_the_table(fitted: Path, tmp_path: Path) -> None:
    result = done("embed", fitted, "-o", tmp_path / "nodes.parquet")
    assert "60 nodes, 3 coordinates" in result.stderr
    table = pq.read_table(tmp_path / "nodes.parquet")
    assert table.column_names == ["node", "z0", "z1", "z2"]
    assert sorted(table["node"].to_pylist()) == sorted(f"nœud {i}" for i in range(60))
    kept = GraphRun.load(fitted)
    assert table["node"].to_pylist() == kept.graph.names.tolist()  # type: ignore[union-attr]
    z = torch.tensor([table[f"z{i}"].to_pylist() for i in range(3)], dtype=torch.float64).T
    assert torch.equal(z, kept.embed())
    assert [path.name for path in tmp_path.iterdir()] == ["nodes.parquet"]


def test_nodes_are_written_as_csv_and_as_lines_of_json(fitted: Path, tmp_path: Path) -> None:
    for ending in ("parquet", "csv", "jsonl"):
        done("embed", fitted, "-o", tmp_path / f"nodes.{ending}")
    expected = pq.read_table(tmp_path / "nodes.parquet").to_pylist()
    assert [json.loads(line) for line in (tmp_path / "nodes.jsonl").read_text().splitlines()] == expected
    with (tmp_path / "nodes.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [{name: row["node"] if name == "node" else float(row[name]) for name in row} for row in rows] == expected
    assert "ends in .parquet" in refused("embed", fitted, "-o", tmp_path / "nodes.txt")


def test_a_map_of_a_graph_has_its_names_and_edges(fitted: Path, tmp_path: Path) -> None:
    assert "kB: " in done("view", fitted, "-o", tmp_path / "map.html").stderr
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "nœud 59" in page
    assert "degree" in page
    assert [path.name for path in tmp_path.iterdir()] == ["map.html"]


def test_a_map_of_a_euclidean_graph_is_a_plane(edges: Path, tmp_path: Path) -> None:
    done("fit", edges, "-o", tmp_path / "run", *FAST, "--c", 0)
    done("view", tmp_path / "run", "-o", tmp_path / "map.html")
    assert '"c":0.0' in (tmp_path / "map.html").read_text(encoding="utf-8").replace(" ", "")


def test_nodes_without_names_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "tree.txt").write_text("# a path\n0 1\n1 2\n2 3\n")
    done("fit", tmp_path / "tree.txt", "-o", tmp_path / "run", *FAST)
    done("embed", tmp_path / "run", "-o", tmp_path / "nodes.parquet")
    assert pq.read_table(tmp_path / "nodes.parquet")["node"].to_pylist() == [0, 1, 2, 3]


def test_held_out_edges_are_told_beside_simple_rules_and_the_leak_in_one_line(edges: Path, tmp_path: Path) -> None:
    result = done("fit", edges, "-o", tmp_path / "run", *FAST, "--test", 0.1)
    warned = [line for line in result.stderr.splitlines() if "Warning" in line]
    assert len(warned) == 1
    assert warned[0].startswith("Warning: The split left ")
    assert "Compare with the baselines" in warned[0]
    assert ".py" not in result.stderr
    told = json.loads(done("evaluate", tmp_path / "run").stdout)
    rows = {name: value for name, value in told.items() if isinstance(value, dict)}
    assert "this model" in rows
    assert len(rows) >= 7
    for value in rows.values():
        assert 0 <= value["AUC"] <= 1
        assert 0 <= value["AP"] <= 1
    assert {"mean average precision", "mean rank", "distortion of path lengths", "nodes ranked"} <= set(told)
    kept = GraphRun.load(tmp_path / "run")  # 5 of 59 edges were held out, and the rule is told so
    auc, ap = link_scores(degree_deficit(kept.graph, kept.held_out.pairs, hidden=5 / 59), kept.held_out.is_edge)
    assert rows["degree-deficit product"] == {"AUC": auc, "AP": ap}


def test_without_held_out_edges_there_is_no_auc(edges: Path, tmp_path: Path) -> None:
    result = done("fit", edges, "-o", tmp_path / "run", *FAST)
    assert "Warning" not in result.stderr
    assert not [name for name in json.loads(done("evaluate", tmp_path / "run").stdout) if name == "this model"]


def test_a_folder_with_a_run_is_not_written_over(edges: Path, fitted: Path) -> None:
    before = {path.name: path.read_bytes() for path in fitted.iterdir()}
    assert "already holds a run. Choose another folder, or resume it with --resume" in refused(
        "fit", edges, "-o", fitted, *FAST
    )
    assert {path.name: path.read_bytes() for path in fitted.iterdir()} == before


def test_a_run_is_gone_on_with(edges: Path, tmp_path: Path) -> None:
    folder, longer = tmp_path / "run", ["--quiet", "--max-epochs", "5"]
    done("fit", edges, "-o", folder, *FAST, "--resume")  # nothing to go on with: it starts
    first = GraphRun.load(folder)
    done("fit", edges, "-o", folder, *FAST, "--resume")  # nothing left to do
    assert torch.equal(GraphRun.load(folder).embed(), first.embed())
    done("fit", edges, "-o", folder, *FAST, *longer, "--resume")
    whole = GraphRun.load(folder)
    assert whole.history[:2] == first.history
    assert len(whole.history) == 5
    other = tmp_path / "other.csv"
    other.write_text("".join(edges.read_text().splitlines(keepends=True)[:-1]))
    assert "is of another graph. Resume with" in refused("fit", other, "-o", folder, *FAST, *longer, "--resume")
    assert torch.equal(GraphRun.load(folder).embed(), whole.embed())


def test_pairs_are_drawn_when_asked(edges: Path, tmp_path: Path) -> None:
    result = done("fit", edges, "-o", tmp_path / "run", *FAST, "--non-edges", 4, "--batch-size", 20)
    assert json.loads(result.stdout)["pairs"] == "4 random pairs for every edge"
    assert "an unbiased estimate" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: it has no edges"),
        ("a,b\n", "has no edges below its header line"),
        ("a,b\nx,x\n", "has no edges between different nodes (1 node)"),
        ("a\nx\ny\n", "line 1: expected two node ids, got 1 column"),
        ("a,b\nx,y\nz,\n", "line 3: a node id is missing"),
    ],
    ids=["empty", "header", "one node", "one column", "missing end"],
)
def test_files_that_hold_no_graph_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(text)
    assert message in refused("fit", path, "-o", tmp_path / "run", *FAST)
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "nowhere.csv" in refused("fit", tmp_path / "nowhere.csv", "-o", tmp_path / "run", *FAST)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--c", "round"], "--c is a number or 'learn' or 'auto', got 'round'"),
        (["--c", "-1"], "c must be at least 0 and at most 1000, got -1.0"),
        (["--dim", "0"], "dim must be at least 1"),
        (["--non-edges", "some"], "--non-edges is a whole number, 'all' or 'auto', got 'some'"),
        (["--non-edges", "0"], "non_edges must be at least 1"),
        (["--non-edges", "inf"], "got 'inf'"),
        (["--non-edges", "2.5"], "got '2.5'"),
        (["--test", "1.5"], "test must be at least 0 and below 1, got 1.5"),
        (["--test", "0.001"], "too few to hold out"),
        (["--max-epochs", "0"], "max_epochs must be at least 1"),
        (["--batch-size", "0"], "batch_size must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(edges: Path, tmp_path: Path, options: list[str], message: str) -> None:
    assert message in refused("fit", edges, "-o", tmp_path / "run", *FAST, *options)


def test_what_is_no_run_is_refused(fitted: Path, tmp_path: Path) -> None:
    for command in (["evaluate", tmp_path], ["embed", tmp_path, "-o", tmp_path / "nodes.parquet"]):
        assert "holds no model of a graph" in refused(*command)
    assert "ends in .parquet" in refused("embed", fitted, "-o", tmp_path / "nodes.xlsx")
    assert not list(tmp_path.iterdir())


def test_the_run_of_a_table_is_refused_and_its_commands_are_named(edges: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(ArrayTable(torch.randn(60, 3)), {"hidden": (4,)}, TrainConfig(max_epochs=1), folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for command in (["evaluate", folder], ["embed", folder, "-o", tmp_path / "nodes.parquet"]):
        assert "holds the model of a table, not of a graph. Use `horoball embed`" in refused(*command)
    assert "resume it with `horoball fit --resume`" in refused("fit", edges, "-o", folder, *FAST, "--resume")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "command",
    [
        ["info", "RUN"],
        ["sample", "RUN", "-o", "new.parquet"],
        ["evaluate", "RUN", "DATA"],
        ["embed", "RUN", "DATA", "-o", "rows.parquet"],
        ["view", "RUN", "DATA", "-o", "map.html"],
        ["fit", "DATA", "-o", "RUN", "--resume", "--quiet", "--max-epochs", "1"],
    ],
    ids=lambda command: command[0],
)
def test_commands_for_tables_refuse_the_run_of_a_graph(
    fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("a,b\n" + "".join(f"{i},{-i % 7}.5\n" for i in range(60)))
    before = {path.name: path.read_bytes() for path in fitted.iterdir()}
    told = commands.refused(*({"RUN": fitted, "DATA": "rows.csv"}.get(word, word) for word in command))
    assert f"{fitted} holds the " in told
    assert "`horoball graph " in told
    assert {path.name: path.read_bytes() for path in fitted.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_help_does_not_wait_for_torch() -> None:
    told_at_the_end = "atexit.register(lambda: print('torch' in sys.modules))"
    code = f"import atexit, sys; from horoball.cli import app; {told_at_the_end}; app()"
    for arguments in (["--help"], ["graph", "--help"], ["graph", "fit", "--help"]):
        environment = os.environ | {"COLUMNS": "120"}
        command = [sys.executable, "-c", code, *arguments]
        told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        assert told.splitlines()[-1] == "False"
        assert "graph" in told


def test_a_taxonomy_is_asked_by_name(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("cat,animal\ndog,animal\nlion,cat\n")
    run = tmp_path / "run"
    done("fit", tmp_path / "edges.csv", "-o", run, "--directed", "--quiet", "--max-epochs", "100")
    answers = {
        name: json.loads(done(*words).stdout)
        for name, words in {
            "parents": ("parents", run, "lion"),
            "ancestors": ("ancestors", run, "lion"),
            "descendants": ("descendants", run, "animal"),
            "is-a": ("is-a", run, "lion", "animal"),
        }.items()
    }
    assert list(answers["parents"]) == ["cat"]
    assert list(answers["ancestors"]) == ["cat", "animal"]
    assert set(answers["descendants"]) == {"cat", "dog", "lion"}
    assert answers["is-a"]["probability"] > 0.9
    assert json.loads(done("evaluate", run).stdout)["mean average precision"] == 1.0
    assert "no node 'bird'" in refused("parents", run, "bird")


def test_what_is_known_of_the_nodes_is_read_by_their_names(edges: Path, tmp_path: Path) -> None:
    order = list(reversed(range(60)))
    (tmp_path / "ages.csv").write_text("name,age\n" + "".join(f"nœud {i},{i}\n" for i in order))
    known = ["--features", tmp_path / "ages.csv", "--id", "name"]
    done("fit", edges, "-o", tmp_path / "run", *known, *FAST)
    graph = GraphRun.load(tmp_path / "run").graph
    assert graph.features is not None
    assert graph.names is not None
    assert graph.features[:, 0].tolist() == [float(name.split()[1]) for name in graph.names]
    (tmp_path / "ages.csv").write_text("name,age\n" + "".join(f"other {i},{i}\n" for i in order))
    assert "no row for the node 'nœud 0'" in refused("fit", edges, "-o", tmp_path / "other", *known, *FAST)
    (tmp_path / "ages.csv").write_text("name,age\nnœud 0,1\n")
    assert "each of the 60 nodes, got a table of 1" in refused("fit", edges, "-o", tmp_path / "other", *known, *FAST)
