"""Damaged files of every kind: each reader gives a value or a typed error that names the file, and nothing else."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from quality import fuzz
from quality.fuzzing.folders import Folder
from quality.fuzzing.readers import READERS, STRUCTURED
from quality.fuzzing.seeds import seeds
from quality.fuzzing.watch import Outcome, Watch, limit_memory
from quality.fuzzing.worker import Stretch, outcomes

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of Fabric, at import
    pytest.mark.filterwarnings("ignore::horoball.graphs.LeakWarning"),
]
INPUTS = 1000  # over the readers of single files
FOLDERS = ("run of a table", "run of a graph", "index", "resume, table", "resume, graph", "embedding folder")
EACH = 200  # of these
MUCH = 8  # files of each target that ask for much, which take longer


@pytest.fixture(scope="module")
def files() -> dict[str, list[Folder]]:
    return seeds()


def test_damaged_files_are_read_or_refused_by_name(files: dict[str, list[Folder]]) -> None:
    found, kinds = [], set()
    singles = [name for name in READERS if name not in FOLDERS]
    stretches = [*fuzz.spread(INPUTS, singles), *(Stretch(name, 0, EACH) for name in FOLDERS)]
    for reader, number, outcome in outcomes(stretches, 11, files):
        kinds.add((reader, outcome.kind))
        if outcome.kind == "finding":
            said = READERS[reader].given(11, reader, number, files[reader]).said
            found.append((reader, number, said, outcome.what))
    assert found == []
    assert {reader for reader, kind in kinds if kind == "refused"} == set(READERS)
    # The checksums of what is published are not those of the files here.
    assert {reader for reader, kind in kinds if kind == "read"} == set(READERS) - {"MNIST", "graph of the paper"}


def test_an_input_is_made_from_its_number_alone(files: dict[str, list[Folder]]) -> None:
    for name, reader in (READERS | STRUCTURED).items():
        first, again = ([reader.given(0, name, number, files[name]) for number in (3, 5)] for _ in range(2))
        assert first == again, name


def test_files_that_ask_for_much_are_read_or_refused_by_name(files: dict[str, list[Folder]]) -> None:
    found, kinds = [], set()
    for reader, number, outcome in outcomes([Stretch(name, 0, MUCH) for name in STRUCTURED], 0, files):
        kinds.add((reader, outcome.kind))
        if outcome.kind == "finding":
            found.append((reader, number, outcome.what))
    assert found == []
    assert {reader for reader, kind in kinds if kind == "refused"} == set(STRUCTURED)


def test_every_input_is_spread_over_all_readers() -> None:
    stretches = fuzz.spread(100_000, list(READERS))
    assert sum(stretch.last for stretch in stretches) == 100_000
    assert min(stretch.last for stretch in stretches) >= 1500


def test_one_input_can_be_made_again_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--reader", ".csv", "--number", "7"]) == 0
    assert "1 inputs" in capsys.readouterr().out


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "a key": (lambda: {}["key"], "KeyError"),
    "no name": (lambda: int("x"), "ValueError without the file"),
    "a file elsewhere": (lambda: Path("elsewhere").write_text("x"), "opens elsewhere for writing"),
    "a file taken away": (lambda: Path("/nowhere/x").unlink(missing_ok=True), "os.remove"),
    "a process": (lambda: subprocess.run([sys.executable, "-c", ""], check=True), "subprocess.Popen"),
    "a socket": (lambda: socket.socket().connect_ex(("127.0.0.1", 9)), "socket."),
    "code": (lambda: eval("1 + 1"), "runs code of <string>"),  # noqa: S307  what is looked for
    "a warning": (lambda: warnings.warn("careful", stacklevel=1), "warns: UserWarning: careful"),
    "a hang": (lambda: time.sleep(60), "over 0.5 s"),
    "memory": (lambda: bytearray(8 << 30), "MemoryError"),
}


def judged(ours: Connection, folder: Path) -> None:
    """What a watch says of readers that do these things, in a process of its own: it cannot be taken off."""
    os.chdir(folder.parent)
    watch = Watch(folder, seconds=0.5)
    limit_memory(1 << 30)
    for deed, _ in BAD.values():
        ours.send(tuple(watch.judge(lambda _, deed=deed: deed, folder)))
        ours.send(tuple(watch.judge(lambda _, deed=deed: (deed(), str)[1], folder)))
    os.abort()


def test_the_watch_sees_what_a_reader_must_not_do(tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    process = context.Process(target=judged, args=(ours, tmp_path / "inputs"))
    process.start()
    ours.close()
    said = [(Outcome(*theirs.recv()), Outcome(*theirs.recv())) for _ in BAD]
    with pytest.raises(EOFError):
        theirs.recv()
    process.join()
    assert process.exitcode == -6
    for (name, (_, says)), (use, load) in zip(BAD.items(), said, strict=True):
        assert load.kind == "finding", name
        assert says in load.what, name
        assert use.kind == ("read" if name == "no name" else "finding"), name
