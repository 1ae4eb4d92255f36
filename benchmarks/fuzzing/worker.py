"""One process that reads, and another that starts it anew when an input ends it."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from benchmarks.fuzzing.seeds import Files
from benchmarks.fuzzing.watch import Outcome, Watch, limit_memory

__all__ = ["Stretch", "outcomes"]

_PATIENCE = 20  # seconds without a word after which a worker is killed: its alarm did not reach it
_START = 300  # seconds for its imports


class Stretch(NamedTuple):
    """Inputs of one reader."""

    reader: str
    first: int
    last: int  # not included


def outcomes(
    stretches: Sequence[Stretch], seed: int, files: dict[str, list[Files]]
) -> Iterator[tuple[str, int, Outcome]]:
    """The outcome of each input: reader, number, what became of it."""
    context = multiprocessing.get_context("spawn")
    waiting = list(stretches)
    while waiting:
        ours, theirs = context.Pipe()
        with tempfile.TemporaryDirectory() as top:
            process = context.Process(target=_work, args=(theirs, waiting, seed, files, top))
            process.start()
            theirs.close()
            try:
                patience = _START
                while waiting:
                    reader, number, last = waiting[0]
                    outcome = _next(ours, process, patience)
                    patience = _PATIENCE
                    yield reader, number, outcome
                    waiting[0] = Stretch(reader, number + 1, last)
                    if number + 1 >= last:
                        waiting.pop(0)
                    if outcome.what.startswith("ends the process"):
                        break
            finally:
                process.kill()
                process.join()


def _next(ours: Connection, process: multiprocessing.process.BaseProcess, patience: int) -> Outcome:
    try:
        if ours.poll(patience):
            return Outcome(*ours.recv())
    except EOFError:
        process.join()
        return Outcome("finding", f"ends the process: exit code {process.exitcode}", 0.0)
    return Outcome("finding", f"ends the process: no word for {patience} s", float(patience))


def _work(theirs: Connection, stretches: Sequence[Stretch], seed: int, files: dict[str, list[Files]], top: str) -> None:
    """Read input after input in a folder of its own, from an empty working folder and home."""
    from benchmarks.fuzzing.readers import READERS

    for name in ("home", "here", "inputs"):
        (Path(top) / name).mkdir()
    os.environ["HOME"] = str(Path(top) / "home")
    os.chdir(Path(top) / "here")
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)  # HDF5 and Arrow write to it
    watch = Watch(Path(top) / "inputs")
    for reader, folders in files.items():  # so that all that is imported late is there
        for number, sound in enumerate(folders):
            folder = _written(Path(top) / "inputs" / f"sound{number}", sound)
            try:
                READERS[reader].load(folder)()
            except ValueError:  # of MNIST and the paper's graphs the checksums are not right
                continue
            finally:
                _removed(folder)
    limit_memory()
    for reader, first, last in stretches:
        for number in range(first, last):
            given = READERS[reader].given(seed, reader, number, files[reader])
            folder = _written(Path(top) / "inputs" / str(number), given)
            outcome = watch.judge(READERS[reader].load, folder)
            left = [str(file) for name in ("home", "here") for file in (Path(top) / name).iterdir()]
            if left:
                outcome = Outcome("finding", f"ends the process: it has left {left[0]}", outcome.seconds)
            theirs.send(tuple(outcome))
            _removed(folder)


def _written(folder: Path, files: Files) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def _removed(folder: Path) -> None:
    for top, folders, names in os.walk(folder, topdown=False):
        for name in names:
            (Path(top) / name).unlink()
        for name in folders:
            (Path(top) / name).rmdir()
    folder.rmdir()
