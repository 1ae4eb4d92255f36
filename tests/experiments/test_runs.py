"""Results are kept as lines of JSON: none is lost, doubled or changed, whoever writes and however it ends."""

from __future__ import annotations

import json
from multiprocessing import get_context
from pathlib import Path

import pytest

from experiments import runs

COMMITTED = sorted(runs.RESULTS.glob("*.jsonl"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def _square(x: int) -> dict[str, float]:
    return {"square": x * x + 0.1}


def _write(folder: Path, first: int) -> None:
    runs.RESULTS = folder
    for x in range(first, first + 10):
        runs._one("study", {"x": x}, _square)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_results_are_sorted_with_one_line_for_each_run(path: Path) -> None:
    lines = path.read_text().splitlines()
    slugs = [runs.slug(json.loads(line)["setting"]) for line in lines]
    assert slugs == sorted(set(slugs))
    assert lines == [json.dumps(json.loads(line)) for line in lines]


def test_results_hold_nothing_but_files_of_lines() -> None:
    assert COMMITTED
    assert {path.suffix for path in runs.RESULTS.rglob("*")} == {".jsonl"}


def test_numbers_are_read_back_as_they_were(folder: Path) -> None:
    numbers = [0.1 + 0.2, 1e-300, 100.13380432128906, 3, -0.0]
    runs._one("study", {"seed": 0}, lambda seed: {"numbers": numbers})
    (record,) = runs.results("study")
    assert repr(record["result"]["numbers"]) == repr(numbers)


def test_processes_that_write_at_once_lose_nothing(folder: Path) -> None:
    context = get_context("spawn")
    processes = [context.Process(target=_write, args=(folder, 5 * start)) for start in range(3)]  # they overlap
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert sorted(record["setting"]["x"] for record in runs.results("study")) == list(range(20))
    assert [path.name for path in folder.iterdir()] == ["study.jsonl"]


@pytest.mark.parametrize("cut", [1, 30, 60])
def test_an_unfinished_last_line_is_reported_and_run_again(folder: Path, cut: int) -> None:
    _write(folder, 0)
    path = folder / "study.jsonl"
    whole = path.read_text()
    path.write_text(whole[: whole.rindex("{", 0, whole.rindex('"setting"')) + cut])
    with pytest.warns(UserWarning, match="ignored line 10, which is incomplete"):
        assert len(runs.results("study")) == 9
    with pytest.warns(UserWarning, match="incomplete"):
        runs._one("study", {"x": 9}, _square)
    assert [record["result"] for record in runs.results("study")] == [_square(x) for x in range(10)]


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", '{"setting": {"x": 3}', '{"x": 3}', "[]", ""])
def test_a_damaged_line_is_refused_by_its_number(folder: Path, line: str) -> None:
    _write(folder, 0)
    path = folder / "study.jsonl"
    path.write_text(f"{line}\n{path.read_text()}")
    with pytest.raises(ValueError, match=r"study\.jsonl, line 1: expected the JSON of a run"):
        runs.results("study")
    with pytest.raises(ValueError, match="line 1"):
        runs._one("study", {"x": 11}, _square)


@pytest.mark.parametrize("form", ["lines", "files"])
def test_runs_of_another_folder_are_folded_in(folder: Path, form: str, tmp_path: Path) -> None:
    _write(folder, 5)
    there = runs.results("study")
    runs.RESULTS = tmp_path / "mine"  # set back by the fixture's monkeypatch
    _write(runs.RESULTS, 0)
    if form == "files":
        (folder / "study.jsonl").unlink()
        (folder / "study").mkdir()
        for record in there:
            name = runs.slug(record["setting"])
            (folder / "study" / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    assert runs.main(["fold", str(folder)]) == 0
    assert [record["result"] for record in runs.results("study")] == [
        _square(x) for x in sorted(range(15), key=lambda x: f"x={x}")
    ]
    text = (tmp_path / "mine" / "study.jsonl").read_text()
    assert runs.main(["fold", str(folder)]) == 0
    assert (tmp_path / "mine" / "study.jsonl").read_text() == text


def test_folding_keeps_a_result_that_differs_and_says_so(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(folder, 0)
    (tmp_path / "other" / "study").mkdir(parents=True)
    other = {"setting": {"x": 3}, "result": {"square": 9.0}}
    (tmp_path / "other" / "study" / "x=3.json").write_text(json.dumps(other))
    assert runs.main(["fold", str(tmp_path / "other")]) == 1
    assert "x=3: the result here is another one, and was kept" in capsys.readouterr().out
    assert runs.results("study")[3]["result"] == _square(3)


@pytest.mark.parametrize(("text", "said"), [(None, "found none"), ("{", "expected the JSON"), ("{}", "no setting")])
def test_folding_refuses_a_folder_without_runs(folder: Path, tmp_path: Path, text: str | None, said: str) -> None:
    (tmp_path / "other" / "study").mkdir(parents=True)
    if text is not None:
        (tmp_path / "other" / "study" / "x=1.json").write_text(text)
    with pytest.raises(ValueError, match=said):
        runs.fold(tmp_path / "other")
    assert not folder.exists()
