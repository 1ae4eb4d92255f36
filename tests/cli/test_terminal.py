"""Text from files cannot act on a terminal, whichever command prints it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from horoball.cli import console
from horoball.cli.console import json_line, printable
from tests.commands import run

EVIL = "\x1b]0;owned\x07[red]x[bold]:smile:\u202e\u200b\x9b31m\x7f"
FAST = ["--quiet", "--hidden", "8", "--max-epochs", "1", "--batch-size", "32"]
SEEN = "[red]x[bold]:smile:"


def acts(text: str) -> list[str]:
    """Characters of an output that a terminal acts on or does not show."""
    return [char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char != "\n"]


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, a graph and their runs, in which all that can have a name has that one."""
    folder = tmp_path_factory.mktemp("evil") / EVIL
    folder.mkdir()
    quoted = '"' + EVIL + '"'
    rows = "".join(f"{i % 7}.5,{i % 5}.25,k{i % 3}{EVIL}\n" for i in range(60))
    (folder / "rows.csv").write_text(f"{quoted}a,{quoted}b,{quoted}label\n" + rows, encoding="utf-8")
    (folder / "edges.csv").write_text(
        "from,to\n" + "".join(f"{EVIL}{i},{EVIL}{i // 2}\n" for i in range(1, 30)), encoding="utf-8"
    )
    return folder


def fitted(folder: Path) -> Path:
    if not (folder / "run").exists():
        result = run("fit", folder / "rows.csv", "-o", folder / "run", "--label", f"{EVIL}label", *FAST)
        assert result.exit_code == 0, result.output
        assert not acts(result.output)
    return folder / "run"


def fitted_graph(folder: Path) -> Path:
    if not (folder / "graph").exists():
        result = run("graph", "fit", folder / "edges.csv", "-o", folder / "graph", *FAST[:5])
        assert result.exit_code == 0, result.output
        assert not acts(result.output)
    return folder / "graph"


COMMANDS: dict[str, Callable[[Path], list[object]]] = {
    "fit, unknown label": lambda at: ["fit", at / "rows.csv", "-o", at / "new", "--label", "none", *FAST],
    "fit, text in a column": lambda at: ["fit", at / "rows.csv", "-o", at / "new", *FAST],
    "fit, no file": lambda at: ["fit", at / f"none{EVIL}.csv", "-o", at / "new"],
    "info": lambda at: ["info", fitted(at)],
    "info, no run": lambda at: ["info", at],
    "embed": lambda at: ["embed", fitted(at), at / "rows.csv", "-o", at / "z.parquet"],
    "embed, other columns": lambda at: ["embed", fitted(at), at / "edges.csv", "-o", at / "z.parquet"],
    "embed, ending": lambda at: ["embed", fitted(at), at / "rows.csv", "-o", at / f"z.{EVIL}"],
    "evaluate": lambda at: ["evaluate", fitted(at), at / "rows.csv", "--samples", 2],
    "sample": lambda at: ["sample", fitted(at), "-n", 2, "-o", at / "new.csv"],
    "view": lambda at: ["view", fitted(at), at / "rows.csv", "-o", at / "map.html"],
    "view, unknown column": lambda at: ["view", fitted(at), at / "rows.csv", "-o", at / "m.html", "--column", EVIL],
    "export, ending": lambda at: ["export", fitted(at), "-o", at / "encoder.txt"],
    "report, ending": lambda at: ["report", at / "rows.csv", "-o", at / "report.json"],
    "graph info": lambda at: ["graph", "info", fitted_graph(at)],
    "graph embed": lambda at: ["graph", "embed", fitted_graph(at), "-o", at / "nodes.csv"],
    "graph view": lambda at: ["graph", "view", fitted_graph(at), "-o", at / "graph.html"],
    "graph evaluate": lambda at: ["graph", "evaluate", fitted_graph(at)],
    "an unknown command": lambda at: [EVIL],
    "an unknown option": lambda at: ["info", fitted(at), f"--{EVIL}"],
    "one argument too many": lambda at: ["info", fitted(at), EVIL],
}


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_prints_what_a_terminal_acts_on(
    name: str, terminal: bool, evil: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = COMMANDS[name](evil)
    monkeypatch.setattr(console, "at_terminal", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "1000")
    result = run(*command)
    assert isinstance(result.exception, SystemExit | None), repr(result.exception)
    assert result.output.strip()
    assert not acts(result.output), result.output
    if "info" in name and "no run" not in name:
        assert SEEN in result.stdout
    if not terminal and result.stdout.startswith("{"):
        assert json.loads(result.stdout).get("run", EVIL).count(EVIL)  # escaped, and not lost


@pytest.mark.parametrize("char", [*"\x00\x1b\n\r\t\x7f\x85\x9b\u200b\u200d\u2028"])
@pytest.mark.parametrize("more", ["\u202e", "\u2066", "\ufeff", "\xad", "\udc80", "\U000e0041"])
def test_every_unseen_character_is_shown_and_every_other_is_kept(char: str, more: str) -> None:
    text = f"é{char}漢{more}🙂[link=x]"
    assert not acts(printable(text))
    assert "\n" not in printable(text)
    assert [part in printable(text) for part in ("é", "漢", "🙂[link=x]")] == [True] * 3
    assert not acts(json_line({text: text}))
    assert json.loads(json_line({text: text})) == {text: text}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_does_not_have_are_null(value: float) -> None:
    found: Any = json.loads(json_line({"a": value, "b": {"c": [value, 1.5, 2]}}))
    assert found == {"a": None, "b": {"c": [None, 1.5, 2]}}


def told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, quiet: bool = False) -> list[str]:
    """What a bar says in a pipe of four steps that take twenty seconds each."""
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))  # no other thread's
    monkeypatch.setattr(console, "console", Console(stderr=True, force_terminal=False))
    with console.bar("Rows", "Nothing is left.", quiet=quiet) as tell:
        for done in range(1000, 5000, 1000):
            tell(done, 4000)
    return capsys.readouterr().err.splitlines()


def test_a_pipe_gets_a_line_every_half_minute_with_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(capsys, monkeypatch) == ["Rows: 2,000 of 4,000, 40 s left"]


def test_a_quiet_bar_says_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(capsys, monkeypatch, quiet=True) == []


def test_a_stopped_bar_says_what_is_left() -> None:
    with (
        pytest.raises(KeyboardInterrupt, match=r"Stopped\. Complete files stay\."),
        console.bar("Rows", "Complete files stay."),
    ):
        raise KeyboardInterrupt
