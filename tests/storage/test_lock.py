from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from horoball.graphs import Graph
from horoball.graphs.fit import FREE_TRAINING
from horoball.graphs.run import train_graph
from horoball.storage.whole import LOCK, only_run
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.vae.train import train

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of Fabric, at import

HOLDER = """
import sys, time, pathlib
from horoball.storage.whole import only_run
with only_run(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[str]:
    """Another process, which has the folder."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    says = rf"Another run is in .*: process {holder.pid} on .*choose another folder"
    with pytest.raises(ValueError, match=says), only_run(tmp_path):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert (tmp_path / LOCK).exists()
    with only_run(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["of somebody else", "process 7", "process 7 on x\nand more"])
def test_a_file_that_is_no_lock_is_kept(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK).write_text(content)
    with pytest.raises(ValueError, match=r"run\.lock is no lock of a run.* Move it, or choose another folder"):
        only_run(tmp_path).__enter__()
    assert (tmp_path / LOCK).read_text() == content


@pytest.mark.parametrize("content", ["", "process 7 on a machine"])
def test_a_lock_that_was_left_is_removed(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK).write_text(content)
    with only_run(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_tables_and_graphs_are_refused_before_they_are_looked_at(
    tmp_path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, graph = ArrayTable(torch.randn(50, 3)), Graph.of([(0, 1), (1, 2)])
    monkeypatch.delattr(ArrayTable, "blocks")
    with pytest.raises(ValueError, match="Another run is in"):
        train(table, {}, TrainConfig(max_epochs=1), tmp_path)
    with pytest.raises(ValueError, match="Another run is in"):
        train_graph(graph, {"d": 2}, FREE_TRAINING.replace(max_epochs=1), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [LOCK]


def test_another_thread_is_refused_but_the_same_may_take_it_again(tmp_path: Path) -> None:
    said: list[str] = []

    def other() -> None:
        try:
            with only_run(tmp_path):
                said.append("taken")
        except ValueError as error:
            said.append(str(error))

    with only_run(tmp_path):
        with only_run(tmp_path / "." / ""):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert (tmp_path / LOCK).exists()
    assert len(said) == 1
    assert "Another run is in" in said[0]
    other()
    assert said[1:] == ["taken"]


def test_an_error_gives_the_folder_back(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="broken"), only_run(tmp_path / "new"):
        raise RuntimeError("broken")
    with only_run(tmp_path / "new"):
        pass
    assert list((tmp_path / "new").iterdir()) == []


def test_only_the_first_rank_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    with only_run(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_a_lock_that_went_away_with_its_run_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking, the run that had it ends: a lock on its file would keep nobody out."""
    import fcntl

    real = fcntl.flock

    def late(file: int, how: int) -> None:
        monkeypatch.undo()
        (tmp_path / LOCK).unlink()
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with only_run(tmp_path):
        file = os.open(tmp_path / LOCK, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(file)
