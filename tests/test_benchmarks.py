import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from benchmarks import check, guard, likelihoods, page, trees
from benchmarks.table import Row, markdown, worst
from tests.late import late

accuracy, stability = late("benchmarks.accuracy"), late("benchmarks.stability")  # and geoopt with them


def test_quick_accuracy_run_stays_under_every_bar(capsys: pytest.CaptureFixture[str]) -> None:
    code = accuracy.main(["--quick"])
    assert code == 0, capsys.readouterr().out


def test_quick_likelihoods_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    likelihoods.main(["--quick"])
    head, _, row = capsys.readouterr().out.splitlines()
    assert head.count("|") == row.count("|") == 13


def test_the_cost_of_a_check_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    check.main(["--rows", "30", "--columns", "10"])
    assert [line.split("|")[1].strip() for line in capsys.readouterr().out.splitlines()[2:]] == [
        "numbers",
        "mixed, with gaps",
        "start of the program alone",
        "100 rows, first start",
    ]


def test_the_size_and_the_times_of_a_page_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not (os.environ.get("HOROBALL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")):
        pytest.skip("No Chromium was found. Install one, or name it in HOROBALL_CHROMIUM.")
    with ThreadPoolExecutor(1) as apart:  # from the loop in which other tests hold their browser
        apart.submit(page.main, ["--rows", "200", "--many", "400"]).result()
    measured = [float(line.split("|")[3]) for line in capsys.readouterr().out.splitlines()[2:]]
    assert len(measured) == 6
    assert all(number > 0 for number in measured)


def test_quick_stability_run_counts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code = stability.main(["--quick"])
    assert code == 0, capsys.readouterr().out


def test_full_stability_grid_has_over_two_thousand_settings() -> None:
    assert len(set(stability.grid(quick=False))) >= 2000


def test_a_row_without_a_number_misses_its_bar() -> None:
    nan = float("nan")
    assert not Row("x", "", torch.float64, nan, 1.0).passed
    assert not Row("x", "", torch.float64, worst([0.0, nan]), 1.0).passed
    assert Row("x", "", torch.float64, 0.5, 1.0).passed


def test_a_setting_that_raises_or_is_not_finite_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = stability.Setting(2, 1.0, 1.0, 1.0)
    assert stability.outcome("wrapped", setting, torch.float64)[0] == "finite"
    assert stability.outcome("wrapped", setting._replace(sigma=-1.0), torch.float64)[0] == "raises"
    monkeypatch.setattr(stability.PoincareBall, "exp", lambda ball, z, v: z + v * torch.inf)
    assert stability.outcome("wrapped", setting, torch.float64)[0] in ("NaN", "inf", "raises")


def test_tables_are_aligned() -> None:
    lines = markdown(["a", "b"], [["1", "222"]]).splitlines()
    assert lines == ["| a | b   |", "|---|-----|", "| 1 | 222 |"]


@pytest.mark.parametrize(("time", "code"), [(1.0, 0), (1.1, 0), (1.2, 1)])
def test_what_has_become_slower_fails(
    time: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = {name: lambda ratio=ratio: time * ratio for name, ratio in guard.REFERENCE.items()}
    assert set(guard.measured()) == set(measured)
    monkeypatch.setattr(guard, "measured", lambda: measured)
    assert guard.main([]) == code
    assert ("slower" in capsys.readouterr().out) == bool(code)


def test_a_busy_moment_is_not_a_slower_program(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([9.0, 1.0])
    monkeypatch.setattr(guard, "REFERENCE", {"x": 1.0})
    monkeypatch.setattr(guard, "measured", lambda: {"x": lambda: next(times)})
    assert guard.main([]) == 0


def test_levels_of_one_hot_columns_have_probabilities() -> None:
    import pandas as pd
    from torch.distributions import Normal

    from benchmarks.mixed import OneHot

    frame = pd.DataFrame({"a": ["u", "v", "w"], "b": [True, False, True], "n": [0, 1, 2]})
    normal = Normal(torch.randn(4, 1, 5, generator=torch.Generator().manual_seed(0)).double(), torch.ones(5).double())
    for name, kind in {"a": "category", "b": "binary", "n": "count"}.items():
        coding = OneHot(frame, {name: kind})
        rows = frame if kind != "count" else pd.DataFrame({"n": range(-30, 30)})
        rows = rows.drop_duplicates(name)
        mine = Normal(normal.loc[..., : len(coding.encode(rows).columns)], 1.0)
        log_p = coding.log_likelihood(torch.from_numpy(coding.encode(rows).to_numpy()), mine)
        torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(4).double())


def test_costs_of_trees_are_medians_beside_those_of_a_commit() -> None:
    runs = [
        {"source": source, "rows": 1000, "seconds": factor * seconds, "peak": 300.0, "above": 10.0 * factor}
        for source, factor in (("abc", 1.0), ("now", 1.5))
        for seconds in (2.0, 2.2, 9.0)
    ]
    assert trees.table("abc", runs).splitlines()[-1] == "| 1,000 | 3 | 2.2 | 3.3 | 1.50 | 300 | 300 | 10 | 15 |"


def test_inverse_simpson_indices_count_what_is_around() -> None:
    import numpy as np

    from benchmarks.cell_scores import lisi

    rng = np.random.default_rng(0)
    index, distance = rng.integers(0, 300, (300, 90)), np.sort(rng.random((300, 90)), 1)
    label = np.arange(300) % 3
    assert 2.5 < np.median(lisi(index, distance, label)) < 3.0
    np.testing.assert_allclose(lisi(index, distance, np.zeros(300)), 1.0)


def test_quick_lineages_are_kept_and_rendered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks import cell_lineages

    options = ["--quick", "--results", str(tmp_path / "cells.jsonl"), "--data", "splatter", "--methods"]
    assert cell_lineages.main([*options, "horoball, expression", "PAGA"]) == 0
    shown = capsys.readouterr().out
    assert "| splatter | 250 × 60" in shown
    assert cell_lineages.main([*options, "PAGA", "--render"]) == 0
    assert capsys.readouterr().out == shown
    assert cell_lineages.contradicts(frozenset({"A", "B"}), cell_lineages.splatter(200, 30, 0))
