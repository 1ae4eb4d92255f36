"""Ctrl-C: one ends a command within seconds, whatever it is doing; a second one at once.

`python -m quality.drills.interrupts` sends many more, at random moments of every command's life.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from horoball.process import GRACE, PIPE_CLOSED, interrupted, stop_requested
from horoball.storage.checkpoint import load_checkpoint
from horoball.training.state import LAST
from quality.drills import interrupts
from quality.drills.stage import Stage

SLACK = 6.0  # seconds that a busy machine may take on top
PATIENCE = 300.0  # seconds after which a command hangs, where it does not matter how long it takes

BODIES = {  # what a command is doing, and what its last word is
    "it runs Python": ("while True: pass", ""),
    "it is in a long call to C": ("import hashlib; hashlib.pbkdf2_hmac('sha256', b'x', b'x', 2 * 10**9)", "Stopped."),
    "the exception is dropped": ("forever()", "Stopped."),
    "the exception becomes another": ("convert()", ""),
    "a checkpoint is written": ("with finishing(20): wait(GRACE + 1); print('kept', flush=True)", "kept"),
    "the shell has told it to ignore the signal": ("while True: pass", ""),
}
SCRIPT = """
import os, signal, sys, time
from horoball.process import GRACE, ended_in_time, exit_code, finishing, interrupted, stop_requested

def wait(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            time.sleep(0.01)
        except KeyboardInterrupt:
            pass

def wait_for(stop):
    while not stop():
        time.sleep(0.01)

def forever():
    wait(60)

def convert():
    try:
        time.sleep(60)
    except BaseException:
        raise AttributeError("partially initialized module") from None

with ended_in_time():
    try:
        print("ready", flush=True)
        BODY
    except BaseException as error:
        os._exit(exit_code() if interrupted() else 1)
if interrupted():
    os._exit(exit_code())
"""


def start(body: str, *, deaf: bool = False) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT.replace("BODY", body)]
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN if deaf else signal.default_int_handler)
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    return process


@pytest.mark.parametrize("name", BODIES)
def test_one_signal_ends_a_command_while(name: str) -> None:
    body, word = BODIES[name]
    with start(body, deaf="ignore" in name) as process:
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 130, said
    assert time.monotonic() - began < GRACE + 1 + SLACK
    assert said.strip().endswith(word)
    assert "Traceback" not in said


def test_a_second_signal_ends_a_command_at_once() -> None:
    with start("with finishing(60): wait(60)") as process:
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - began < SLACK


def test_two_signals_at_the_same_moment_are_one() -> None:
    """`timeout -s INT` sends one to the process and one to its group."""
    with start("with finishing(60): wait(1); print('kept', flush=True)") as process:
        for _ in range(2):
            process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert "kept" in said


def loop(error: Exception | None = None) -> None:
    with stop_requested() as stop:
        assert not stop()
        signal.raise_signal(signal.SIGINT)
        if error is not None:
            raise error


def test_a_signal_after_the_last_question_is_not_lost() -> None:
    with pytest.raises(KeyboardInterrupt):
        loop()
    assert not interrupted()  # which is for commands


def test_an_error_is_not_replaced_by_a_signal() -> None:
    with pytest.raises(ValueError, match="first"):
        loop(ValueError("first"))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("stage").resolve())


@pytest.mark.parametrize(("moment", "keeps"), [("reading", False), ("first-epoch", True), ("validation", True)])
def test_a_fit_stops_in_every_phase_and_keeps_what_it_has(moment: str, keeps: bool, stage: Stage) -> None:
    folder = stage.base / moment
    code, said = stage.play(moment, "INT", *stage.fit(folder), module="quality.drills.strike")
    assert code == 130, said
    assert said.splitlines()[-1].startswith("Stopped")
    assert (folder / LAST).exists() == keeps
    if keeps:
        assert load_checkpoint(folder / LAST)
        assert "--resume" in said
    assert not (folder / "run.lock").exists()


def skip_if_ignored(name: str) -> None:
    if signal.getsignal(signal.Signals[f"SIG{name}"]) == signal.SIG_IGN:
        pytest.skip("the tests were started with this signal ignored, as by nohup, and so are their processes")


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("HUP", 129)])
def test_a_fit_that_gets_another_signal_leaves_a_checkpoint_too(name: str, code: int, stage: Stage) -> None:
    skip_if_ignored(name)
    folder = stage.base / name
    with stage.start("first-epoch", name, *stage.fit(folder), module="quality.drills.strike") as process:
        ended, said = stage.end(process, PATIENCE)
    assert ended == code, said
    assert "--resume" in said
    assert load_checkpoint(folder / LAST)
    assert not (folder / "run.lock").exists()


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143), ("HUP", 129)])
def test_the_exit_code_of_a_loop_names_the_signal(name: str, code: int) -> None:
    skip_if_ignored(name)
    with start("with stop_requested() as stop: print('asked', flush=True); wait_for(stop)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.Signals[f"SIG{name}"])
        said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == code, said


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with stop_requested() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop()
    finally:
        signal.signal(signal.SIGHUP, previous)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["info --device cpu", "--help"])
def test_a_reader_that_has_ended_is_no_fault(command: str, unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # as in `horoball info | true`
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "horoball", *command.split()],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr) == (PIPE_CLOSED, "")


@pytest.mark.parametrize("after", [0.3, 1.5])
def test_a_command_that_is_still_being_imported_stops(after: float, stage: Stage, tmp_path: Path) -> None:
    found = interrupts.trial(stage.fit(tmp_path / "run"), after)
    assert found is not None
    assert found.code in interrupts.STOPPED, found
    assert found.took < interrupts.LIMIT + SLACK, found
