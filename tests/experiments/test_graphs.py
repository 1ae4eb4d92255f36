"""Short runs of the graph experiments, and tables that say what the results say."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from experiments import reconstruction, render, runs, sampled_pairs, table4, wordnet
from experiments.wordnet_data import wordnet_folder

needs_data = pytest.mark.skipif("HOROBALL_DATA" not in os.environ, reason="needs the paper's graphs in HOROBALL_DATA")


@needs_data
@pytest.mark.parametrize("model", ["N", "P", "rules"])
def test_a_short_run_of_table_4(model: str) -> None:
    found = table4.run("phylogenetic", model, 0, epochs=2)
    scores = found["shortest path"] if model == "rules" else found
    assert 0 < scores["auc"] < 1
    assert 0 < scores["ap"] <= 1


@needs_data
def test_a_short_run_of_reconstruction() -> None:
    found = reconstruction.run("phylogenetic", "P", 2, 0, epochs=2)
    assert 0 < found["map"] <= 1
    assert found["mean_rank"] >= 1
    assert math.isfinite(found["distortion"])


@needs_data
def test_a_short_run_with_sampled_pairs_is_the_same_on_two_ranks() -> None:
    one, two = (sampled_pairs.run_on_ranks(ranks, seed=0, epochs=2) for ranks in (1, 2))
    assert 0 < one["auc"] < 1
    assert two == pytest.approx(one, rel=1e-4)


def test_a_table_of_sampled_pairs_compares_the_same_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    for setting in sampled_pairs.settings(2)[:3]:  # the second split with all pairs alone
        runs._one(sampled_pairs.STUDY, setting, _scores)
    lines = sampled_pairs.table().splitlines()
    assert lines[2].endswith("| 50.50 ± 6.35 | 60.00 ± 0.00 |")
    assert lines[3].endswith("| 60.00 | 60.00 |")
    assert lines[4].endswith("| +10.00 | +0.00 |")
    assert all(line.endswith("| not run | not run |") for line in lines[5:])


def _scores(seed: int, non_edges: int, **others: object) -> dict[str, float]:
    return {"auc": 0.5 + seed / 100 + non_edges / 100, "ap": 0.6}


def test_a_short_run_of_wordnet() -> None:
    try:
        wordnet_folder()
    except FileNotFoundError:
        pytest.skip("needs Debian's wordnet-base")
    for encoder, edges in (("free", "fermi_dirac"), ("gcn", "tanh")):
        found = wordnet.run("mammals", encoder, edges, "P", 0, epochs=2)
        assert 0 < found["map"] < 1
        assert found["mean_rank"] > 1


def test_a_run_is_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    runs._one("study", {"x": 1, "y": 0.5}, _doubled)
    (record,) = runs.results("study")
    assert record["result"] == {"doubled": 2.5}
    assert record["setting"] == {"x": 1, "y": 0.5}
    runs.carry_out("study", [{"x": 1, "y": 0.5}], _refuse)


def _doubled(x: int, y: float) -> dict[str, float]:
    return {"doubled": 2 * x + y}


def _refuse(x: int, y: float) -> dict[str, float]:
    raise AssertionError


def test_intervals_are_students() -> None:
    mean, half = runs.interval([1.0, 2.0, 3.0])
    assert mean == 2
    assert half == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)


@pytest.mark.parametrize("page", render.PAGES)
def test_the_tables_on_the_pages_are_those_of_the_results(page: str) -> None:
    assert render.rendered(page) == (render.ROOT / page).read_text()
