"""The report: what it says, and that it says no when it is no."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from horoball.cli import app
from horoball.datasets import branching_diffusion
from horoball.report.analysis import Difference, difference, make_report
from horoball.report.check import check
from horoball.report.page import report_page, write_report
from horoball.tables import ArrayTable
from horoball.training import TrainConfig

FAST = TrainConfig(max_epochs=2)
SMALL = {"hidden": (8,)}


def test_a_difference_is_paired() -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=8) * 100
    gap = difference(list(shared + 1 + 0.1 * rng.normal(size=8)), list(shared))
    assert gap.sign == 1
    assert gap.high - gap.low < 0.3  # what the pairs share, a hundred times as wide, is gone
    assert difference([1.0], [0.0]).sign == 0
    assert Difference(-1.0, -2.0, -0.5).sign == -1


def test_a_hierarchy_is_called_one_and_the_page_holds_everything(tmp_path: Path) -> None:
    tree = branching_diffusion(depth=5, seed=1)
    kind = np.where(np.asarray(tree.node) % 2, "<b>odd</b>", "even & so")
    report = make_report(ArrayTable(tree.x, labels=kind), FAST, name="<script>x</script>", model=SMALL, seeds=2)
    assert report.words[0].startswith("Yes: a branching tree")
    numbers = write_report(report, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;b&gt;odd&lt;/b&gt;" in page
    assert not re.search(r"(?:src|href)=", page)
    assert page.count("<svg") == 2
    kept = json.loads(numbers.read_text(encoding="utf-8"))
    assert kept["verdict"]["answer"] == "branching"
    assert kept["verdict"]["p"] <= 0.05
    assert report.verdict.sentence[:-1] in report.words[0].replace("Yes: a", "A")
    for line in kept["comparison"]:
        assert len(line["hyperbolic"]) == len(line["euclidean"]) == 2
        assert f"{np.mean(line['hyperbolic']):.3f}" in page


def test_a_cloud_is_told_no() -> None:
    x = torch.randn(300, 10, generator=torch.Generator().manual_seed(0))
    report = make_report(ArrayTable(x), FAST, model=SMALL, seeds=2)
    assert report.words[0].startswith("A hierarchy was not detected. No structure detected")
    assert "5-NN" not in report_page(report)  # there are no labels


def test_one_seed_says_nothing_about_chance() -> None:
    report = make_report(ArrayTable(torch.randn(60, 4)), FAST, model=SMALL, seeds=1)
    assert "two seeds or more" in report.words[1]


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 20 rows"):
        make_report(ArrayTable(torch.randn(10, 4)), FAST)


def test_from_the_command_line(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(80, 3))
    lines = ["a,b,c,kind", *(f"{r[0]},{r[1]},{r[2]},{'xy'[i % 2]}" for i, r in enumerate(x))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    options = ["--label", "kind", "--max-epochs", "1", "--hidden", "8", "--seeds", "2"]
    out = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(tmp_path / "rows.csv"), "-o", str(out), *options])
    assert result.exit_code == 0, result.output
    assert "A hierarchy was not detected. No structure detected" in result.stderr
    assert json.loads(out.with_suffix(".json").read_text())["distance_weight"] == 50  # what `horoball fit` uses
    assert out.exists()
    assert out.with_suffix(".json").exists()


def test_a_short_report_takes_the_verdict_of_the_check_and_few_rows() -> None:
    rng = np.random.default_rng(0)
    x = 20 * rng.normal(size=(4, 5)).repeat(400, 0) + rng.normal(size=(1600, 5))
    table, counts = ArrayTable(x, labels=np.arange(4).repeat(400)), []
    checked = check(table)
    model = {"hidden": (8,)}
    told = lambda *now: counts.append(now)  # noqa: E731
    report = make_report(table, TrainConfig(max_epochs=1), model=model, seeds=1, checked=checked, told=told)
    assert report.verdict is checked.verdict
    assert (report.judged, report.trained, report.rows) == ((300, 5), 1250, 1600)
    assert len(report.candidates.hyperbolic[0].embedding) == 1600  # both maps are of all rows
    assert report.labeled
    assert report.tree.names == ("0", "1", "2", "3")
    assert counts == [(1, 3), (2, 3), (3, 3)]
    page = report_page(report)
    assert "Of 300 rows and 5 columns." in page
    assert "each of 1,250 rows, a fifth of them held out" in page


def test_one_wide_column_does_not_hide_a_hierarchy() -> None:
    tree = branching_diffusion(depth=5)
    wide = 1e9 * torch.randn(len(tree.x), 1, generator=torch.Generator().manual_seed(0))
    report = make_report(ArrayTable(torch.cat((tree.x[:, :20], wide), 1)), FAST, model=SMALL, seeds=2)
    assert report.verdict.p <= 0.05
    assert report.verdict.groups >= 4


def test_missing_labels_are_named() -> None:
    kind = np.array([None, "a", "", "b"] * 20, dtype=object)
    report = make_report(ArrayTable(torch.randn(80, 3), labels=kind), FAST, model=SMALL, seeds=2)
    assert "(missing)" in report_page(report)


def test_a_line_is_not_judged() -> None:
    x = torch.linspace(0, 100, 60).unsqueeze(1) * torch.ones(1, 2)
    report = make_report(ArrayTable(x), FAST, model=SMALL, seeds=2)
    assert report.words[0].startswith("A hierarchy was not detected. No structure detected")
    assert "nan" not in report.words[0]


def test_unrelated_blobs_are_called_clusters() -> None:
    rng = np.random.default_rng(0)
    x = 20 * rng.normal(size=(6, 4)).repeat(30, 0) + rng.normal(size=(180, 4))
    report = make_report(ArrayTable(x), FAST, model=SMALL, seeds=2)
    assert report.words[0].startswith("A hierarchy was not detected. Clusters: ")
    assert "<td>Is it nested?</td><td>not detected</td>" in report_page(report)


@pytest.mark.parametrize(("count", "numbered"), [(6, 0), (64, 128)])
def test_many_labels_are_shown_as_well_as_few(count: int, numbered: int) -> None:
    labels = np.array([f"kind {i % count:03}" for i in range(300)])
    page = report_page(make_report(ArrayTable(torch.randn(300, 3), labels=labels), FAST, model=SMALL, seeds=2))
    assert page.count("class='key'") == count
    numbers = re.findall(r"<g class='numbers'>(.*?)</g>", page)
    assert sum(part.count("<text") for part in numbers) == numbered
    assert len(set(re.findall(r"<i style='background:(#\w{6})'", page))) == count


def test_the_rarest_of_very_many_labels_are_gray() -> None:
    labels = np.array([f"kind {i % 150:03}" for i in range(300)])
    page = report_page(make_report(ArrayTable(torch.randn(300, 3), labels=labels), FAST, model=SMALL, seeds=2))
    assert page.count("class='key'") == 100
    assert "50 rarer labels are gray" in page


def test_the_tree_of_the_labels_is_drawn_with_its_support() -> None:
    data = branching_diffusion(depth=3)
    labels = np.array([f"<kind {node}>" for node in data.node])
    report = make_report(ArrayTable(data.x, labels=labels), FAST, model=SMALL, seeds=2)
    page = report_page(report)
    assert report.labeled
    assert report.tree.leaves == 15
    assert "The tree of the labels" in page
    assert "&lt;kind 14&gt;" in page
    assert "<kind" not in page
    assert report.as_dict()["tree"] == report.tree.to_newick()


def test_the_tree_of_rows_is_told_in_words() -> None:
    report = make_report(ArrayTable(torch.randn(60, 6)), FAST, model=SMALL, seeds=2)
    assert not report.labeled
    assert "The tree of the rows" in report_page(report)
    assert " of 58 branches have a support above chance" in report_page(report)
