"""The page on reproduction says what the results say, and the command runs what the repository has."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments import __main__ as command
from experiments import render, runs

PAGE = "docs/reproduction.md"
SCRIPT = """
import pathlib, signal, time
from experiments import runs

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process is born deaf to it

def sleep(seconds):
    pathlib.Path(f"busy{seconds}").touch()
    time.sleep(seconds)

if __name__ == "__main__":
    runs.RESULTS = pathlib.Path("results")
    runs.carry_out("sleep", [{"seconds": 300}, {"seconds": 301}], sleep, workers=2)
"""
CHOSEN = {"0.0001", "0.9999", "0.00001", "1.4", "1.2", "0.3", "0.2", "0.1"}  # settings that the page itself explains


def test_no_figure_stands_outside_the_rendered_tables() -> None:
    text = (render.ROOT / PAGE).read_text()
    for name in render.TABLES:
        text = re.sub(f"<!-- {name} -->.*?<!-- /{name} -->", "", text, flags=re.DOTALL)
    assert set(re.findall(r"\d+\.\d+", text)) <= CHOSEN


def test_every_picture_of_the_page_is_there() -> None:
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", (render.ROOT / PAGE).read_text()):
        assert (render.ROOT / "docs" / picture).exists()


def test_the_command_prints_what_has_been_run() -> None:
    if not runs.results("table4"):
        pytest.skip("needs results of Table 4")
    done = _run("table4", "--seeds", "1", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "| AUC / AP, % |" in done.stdout


def test_the_command_lists_the_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    listed = capsys.readouterr().out
    for name in ("table1", "table2", "table3", "table4", "figure7", "figures", "beyond"):
        assert re.search(rf"^  {name} +\S", listed, re.MULTILINE), name
    for name in command.commands():
        path = render.ROOT / "experiments" / name
        assert "\ndef main(" in (path / "__main__.py" if path.is_dir() else path.with_suffix(".py")).read_text(), name


def test_an_experiment_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["table9"]) == 2
    assert capsys.readouterr().err.startswith("There is no experiment 'table9'. Experiments, each with its own --help:")


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_command_that_started_them(tmp_path: Path, kind: signal.Signals) -> None:
    process = _started(tmp_path)
    process.send_signal(kind)
    process.communicate(timeout=60)
    _nothing_is_left_of(process)


def test_ctrl_c_stops_all_processes_and_says_what_is_left(tmp_path: Path) -> None:
    process = _started(tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "the same command goes on" in said
    _nothing_is_left_of(process)


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    options = {"capture_output": True, "text": True, "check": False}
    return subprocess.run([sys.executable, "-m", "experiments", *words], cwd=render.ROOT, **options)


def _started(tmp_path: Path) -> subprocess.Popen[str]:
    """A command whose two workers are busy."""
    (tmp_path / "script.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(render.ROOT), str(render.ROOT / "src")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert "2 runs to do" in process.stdout.readline()
    for _ in range(600):
        if len(list(tmp_path.glob("busy*"))) == 2:
            return process
        time.sleep(0.1)
    raise AssertionError("No worker has begun.")


def _nothing_is_left_of(process: subprocess.Popen[str]) -> None:
    for _ in range(100):  # what watches over the processes' resources ends a little later
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("A process is left.")
