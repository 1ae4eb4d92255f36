"""The quick ones of `python -m quality.drills`, each with commands in processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quality.drills import __main__ as drills
from quality.drills.outcome import Outcome, Skipped, refused
from quality.drills.stage import Stage, same_run

QUICK = ["full-fit", "read-only-fit", "kill-checkpoint", "damaged-values", "twice"]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    made = Stage(tmp_path_factory.mktemp("stage").resolve())
    assert made.alone.is_dir()
    return made


@pytest.mark.parametrize("name", QUICK)
def test_nothing_is_lost_and_one_line_says_what_happened(name: str, stage: Stage) -> None:
    outcome = drills.play(name, stage)
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    assert outcome.ok, outcome


def only(drill: Callable[[Stage], Outcome], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(drills, "DRILLS", {"it": drill})
    return drills.main([])


def test_a_drill_that_goes_wrong_is_seen_by_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert only(lambda _: Outcome("it", "broken", "Error", {"same bits": True, "resumed": False}), monkeypatch) == 1
    assert "same bits; NOT resumed | NO" in capsys.readouterr().out
    assert only(lambda _: Outcome("it", "nothing was looked at"), monkeypatch) == 1
    assert only(lambda _: Outcome("it", "broken", "Error", {"same bits": True}), monkeypatch) == 0


def test_a_drill_that_cannot_be_played_is_counted_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def needs_root(_: Stage) -> Outcome:
        """A disk is full."""
        raise Skipped("needs root")

    assert only(needs_root, monkeypatch) == 0
    said = capsys.readouterr().out
    assert "| A disk is full." in said
    assert "skipped: needs root" in said
    assert "0 of 1 drills are ok, 0 are not, 1 were skipped" in said


def test_an_unknown_drill_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        drills.main(["flood"])
    assert "There is no drill 'flood'. Drills: full-fit" in capsys.readouterr().err


def test_a_refusal_is_one_line_with_the_words_and_no_traceback() -> None:
    assert all(refused(1, "Error: x.parquet is damaged", "x.parquet").values())
    assert not any(refused(1, "Error: something is damaged", "x.parquet").values())
    assert not any(refused(1, "Traceback\nError: x.parquet", "x.parquet").values())
    assert not any(refused(0, "Error: x.parquet", "x.parquet").values())


def test_runs_are_the_same_if_all_their_bytes_are(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for name in ("best.safetensors", "last.safetensors", "metrics.jsonl", "model.safetensors"):
            (tmp_path / folder / name).write_text(name)
    a, b = tmp_path / "a", tmp_path / "b"
    assert same_run(a, b) == {"same bits": True, "nothing left over": True}
    (b / "metrics.jsonl").write_text("other")
    (b / "last.safetensors.1.part").write_text("half")
    assert same_run(a, b) == {"same bits": False, "nothing left over": False}
    (b / "model.safetensors").unlink()
    assert not same_run(a, b)["same bits"]
