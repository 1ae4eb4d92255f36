"""A folder of a store has one run at a time, and that of a process that was killed is free."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import fsspec
import pytest

from horoball.storage import leases
from horoball.storage.leases import leased
from horoball.storage.stores import located, upload
from horoball.storage.whole import only_run, write_whole


def test_a_second_run_is_refused_and_told_of_the_first() -> None:
    folder = located("memory://leases/busy")
    with leased(folder), pytest.raises(ValueError, match=f"Another run is in {folder}: process {os.getpid()} on "):
        leased(folder).__enter__()
    assert not list(folder.iterdir())


def test_a_run_may_call_what_has_the_folder_too() -> None:
    folder = located("memory://leases/own")
    with only_run(folder), only_run(folder):
        assert len(list(folder.iterdir())) == 1
    assert not list(folder.iterdir())


def test_a_lease_of_another_machine_ends_a_minute_after_its_last_sign_of_life() -> None:
    folder = located("memory://leases/left")
    left = folder / "run.lock.0123456789abcdef"
    upload(left, b"process 1 on elsewhere of 0/pid:[1] since 5")
    with pytest.raises(ValueError, match="process 1 on elsewhere, which gave"):
        leased(folder).__enter__()
    fsspec.filesystem("memory").store[left.key].modified = datetime.now(UTC) - timedelta(seconds=leases.LASTS + 1)
    with leased(folder):
        assert not left.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc for processes")
def test_a_lease_of_a_killed_process_of_this_machine_ends_at_once() -> None:
    folder = located("memory://leases/killed")
    with subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=-1) as other:
        assert other.stdout is not None
        other.stdout.readline()
        said = leases._owner().replace(f"process {os.getpid()} ", f"process {other.pid} ")
        said = said.rpartition(" since ")[0] + f" since {leases._since(other.pid)}"
        upload(folder / "run.lock.0123456789abcdef", said.encode())
        with pytest.raises(ValueError, match=f"process {other.pid} "):
            leased(folder).__enter__()
        other.send_signal(signal.SIGKILL)
        other.wait()
    with leased(folder):
        assert len(list(folder.iterdir())) == 1


def test_a_process_that_stood_still_and_lost_its_folder_writes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "EVERY", 0.01)
    folder = located("memory://leases/lost")
    with leased(folder):
        (mine,) = folder.iterdir()
        mine.unlink()
        while folder not in leases._lost:
            pass
        with pytest.raises(ValueError, match="stood still"):
            write_whole(folder / "last.safetensors", b"old")
    assert not list(folder.iterdir())
    write_whole(folder / "last.safetensors", b"new")


def test_a_name_that_is_no_lease_is_left_alone() -> None:
    folder = located("memory://leases/other")
    upload(folder / "run.lock.txt", b"mine")
    with leased(folder):
        pass
    assert [path.name for path in folder.iterdir()] == ["run.lock.txt"]
