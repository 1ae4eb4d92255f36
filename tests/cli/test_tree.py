"""`horoball tree` and `horoball graph tree`: a run in, a tree out, in every format."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from horoball.cli import app
from horoball.datasets import branching_diffusion
from horoball.trees import tree_from_json

runner = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    data = branching_diffusion(depth=3, features=20)
    frame = pd.DataFrame(data.x.numpy(), columns=[f"gene {i}" for i in range(20)])
    frame["name"] = [f"cell {i}" for i in range(len(frame))]
    frame["kind"] = [f"kind {node}" for node in data.node]
    frame.to_csv(folder / "cells.csv", index=False)
    options = ["-o", str(folder / "run"), "--label", "kind", "--id", "name", "--max-epochs", "3", "--quiet"]
    result = runner.invoke(app, ["fit", str(folder / "cells.csv"), *options])
    assert result.exit_code == 0, result.output
    return folder


def made(folder: Path, name: str, *options: str, data: str = "cells.csv") -> tuple[Path, dict[str, object]]:
    path = folder / name
    arguments = ["tree", str(folder / "run"), str(folder / data), "-o", str(path), "--draws", "5", *options]
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "␊" not in result.output  # a line is a line, and not a character of a name
    told = next(json.loads(line) for line in result.output.splitlines() if line.startswith("{"))
    return path, told


def test_a_table_of_groups_has_the_rows_names_and_levels(folder: Path) -> None:
    path, told = made(folder, "groups.csv", "--levels", "3,12")
    table = pd.read_csv(path)
    named, coarse, called, fine, named_fine = list(table.columns[1:])
    assert [table.columns[0], named] == ["name", "leaf"]
    for level, names, most in ((coarse, called, 3), (fine, named_fine, 12)):  # a level has as many as there are
        assert names == level.replace("groups", "names")
        assert 1 < table[level].nunique() == int(level.split("_")[1]) <= most
        assert table.groupby(level)[names].nunique().eq(1).all()
    assert table[coarse].nunique() < table[fine].nunique()
    assert "gene" in table[called].dropna().iloc[0]  # the columns that set it apart
    assert table["name"].tolist() == table["leaf"].tolist() == [f"cell {i}" for i in range(75)]
    assert told["leaves"] == told["rows"] == 75
    assert told["branches"] == 73


def test_groups_are_named_by_texts_and_new_rows_find_theirs(folder: Path) -> None:
    frame = pd.read_csv(folder / "cells.csv")
    words = frame["kind"].map(lambda kind: chr(ord("a") + int(kind.split()[1])) * 3)
    frame.assign(title="cell of " + words).to_csv(folder / "titled.csv", index=False)
    made(folder, "named.csv", "--levels", "3", "--text", "title", data="titled.csv")
    named = pd.read_csv(folder / "named.csv")["names_3"].dropna()
    assert set(", ".join(named).split(", ")) <= set(words)  # all have "cell", which says nothing
    out = folder / "places.csv"
    arguments = ["place", str(folder / "run"), str(folder / "cells.csv"), "-o", str(out), "--coverage", "0.8"]
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    table = pd.read_csv(out)
    told = " ".join(result.output.split())
    at_root = int(table["place"].isna().sum())
    assert f"{75 - at_root} of them placed in a group and {at_root} at the root" in told
    assert "with a probability of at least 0.8" in told
    assert list(table.columns) == ["name", "level_1", "probability_1", "typical", "place"]
    assert set(table["level_1"]) <= set(pd.read_csv(folder / "named.csv")["names_3"].dropna())
    assert table["probability_1"].between(0, 1).all()
    assert table["place"].dropna().eq(table["level_1"][table["place"].notna()]).all()
    result = runner.invoke(app, ["tree", *arguments[1:3], "-o", str(folder / "x.csv"), "--text", "no", "--draws", "0"])
    assert result.exit_code == 1
    assert "has no column 'no'" in " ".join(result.output.split())


@pytest.mark.filterwarnings("default")  # which are errors in tests; a person sees them
def test_places_are_chosen_by_coverage_and_still_by_a_threshold(folder: Path) -> None:
    made(folder, "chosen_from.csv", "--levels", "3,6")
    out = folder / "chosen.csv"
    place = ["place", str(folder / "run"), str(folder / "cells.csv"), "-o", str(out), "--force"]
    result = runner.invoke(app, [*place, "--threshold", "0.2"])
    assert result.exit_code == 0, result.output
    assert result.output.count("threshold is deprecated") == 1
    table = pd.read_csv(out)
    assert table["place"].isna().equals(table["probability_1"] < 0.2)
    deep = {}
    for coverage in ("0.5", "0.9", "0.99"):  # 15 rows are held out: 0.99 is more than they can promise
        result = runner.invoke(app, [*place, "--coverage", coverage])
        assert result.exit_code == 0, result.output
        deep[coverage] = pd.read_csv(out)["place"].notna().sum()
        assert ("All rows are placed at the root" in " ".join(result.output.split())) == (coverage == "0.99")
    assert deep["0.5"] >= deep["0.9"] >= deep["0.99"] == 0
    assert deep["0.5"] > 0
    both = runner.invoke(app, [*place, "--coverage", "0.9", "--threshold", "0.5"])
    assert both.exit_code == 1
    assert "Give --coverage alone" in " ".join(both.output.split())


def test_rows_are_placed_only_where_there_are_groups(folder: Path, tmp_path: Path) -> None:
    fit = ["fit", str(folder / "cells.csv"), "-o", str(tmp_path / "run"), "--label", "kind", "--id", "name"]
    assert runner.invoke(app, [*fit, "--max-epochs", "1", "--quiet"]).exit_code == 0
    place = ["place", str(tmp_path / "run"), str(folder / "cells.csv"), "-o", str(tmp_path / "places.csv")]
    result = runner.invoke(app, place)
    assert result.exit_code == 1
    assert "holds no groups to place rows in" in " ".join(result.output.split())
    made(folder, "groups.csv", "--levels", "3", "--force")
    (tmp_path / "run" / "places.safetensors").write_bytes((folder / "run" / "places.safetensors").read_bytes())
    assert "belongs to another model" in " ".join(runner.invoke(app, place).output.split())


def test_labels_can_be_the_leaves(folder: Path) -> None:
    path, told = made(folder, "kinds.json", "--by-label", "--root", "kind 0")
    found = tree_from_json(path.read_text())
    assert found.leaves == told["leaves"] == 15
    assert found.names[0] == "kind 0"
    assert found.method == "gromov"


def test_newick_is_collapsed_below_a_support(folder: Path) -> None:
    whole, _ = made(folder, "whole.nwk")
    collapsed, _ = made(folder, "collapsed.nwk", "--support", "0.9")
    assert whole.read_text().count("(") == 74
    assert collapsed.read_text().count("(") < 74


def test_a_page_shows_the_tree_beside_the_map(folder: Path) -> None:
    path, _ = made(folder, "tree.html")
    assert "cell 74" in path.read_text()
    assert "level 1" not in path.read_text()


def test_one_tree_goes_into_several_files(folder: Path) -> None:
    path, _ = made(folder, "both.csv", "-o", str(folder / "both.html"), "--levels", "2,3")
    page = (folder / "both.html").read_text()
    meta = json.loads(page.split('id="meta">')[1].split("</script>")[0])
    coarse = meta["columns"][meta["levels"][0]]
    assert set(coarse["categories"]) - {"in no group"} == set(pd.read_csv(path)["names_2"].dropna())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "tree.txt"], "ends in .nwk"),
        (["-o", "groups.csv", "--levels", "many"], "such as 5,20"),
        (["-o", "tree.nwk", "--root", "nowhere"], "no leaf 'nowhere'"),
        (["-o", "tree.nwk", "--method", "ward"], "auto, gromov, average"),
        (["-o", "tree.nwk", "--source", "raw"], "auto, columns, weighted, latent"),
    ],
)
def test_mistakes_are_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["tree", str(folder / "run"), str(folder / "cells.csv"), "--draws", "2", *options])
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
    assert not list(tmp_path.iterdir())


def test_the_nodes_of_a_graph_have_a_tree(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("child,parent\n" + "".join(f"n{i},n{(i - 1) // 2}\n" for i in range(1, 31)))
    run, out = str(tmp_path / "run"), tmp_path / "nodes.csv"
    fit = ["graph", "fit", str(tmp_path / "edges.csv"), "-o", run, "--dim", "5", "--max-epochs", "5", "--quiet"]
    result = runner.invoke(app, fit)
    assert result.exit_code == 0, result.output
    result = runner.invoke(app, ["graph", "tree", run, "-o", str(out), "--draws", "3", "--levels", "2"])
    assert result.exit_code == 0, result.output
    assert sorted(pd.read_csv(out)["node"]) == sorted(f"n{i}" for i in range(31))
    result = runner.invoke(app, ["graph", "tree", run, "-o", str(tmp_path / "tree.html"), "--draws", "3"])
    assert result.exit_code == 0, result.output
