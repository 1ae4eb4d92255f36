"""One process that reads, and another that starts it anew when an input ends it."""

from __future__ import annotations

import functools
import importlib.metadata
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from quality.fuzzing.folders import Entry, Folder, Given
from quality.fuzzing.watch import Outcome, Watch, limit_memory

__all__ = ["Stretch", "outcomes"]

_PATIENCE = 60  # seconds without a word after which a worker is killed: its alarm did not reach it
_MEMORY = "/dev/shm"  # noqa: S108  where writers need not wait for a disk
_START = 300  # seconds for its imports


class Stretch(NamedTuple):
    """Inputs of one reader."""

    reader: str
    first: int
    last: int  # not included


def outcomes(
    stretches: Sequence[Stretch], seed: int | None, files: dict[str, list[Folder]]
) -> Iterator[tuple[str, int, Outcome]]:
    """The outcome of each input: reader, number, what became of it.

    Args:
        stretches: Which inputs.
        seed: What they are made from; without it, they are the files themselves, of which the first is sound.
        files: Sound files of each reader.
    """
    context = multiprocessing.get_context("spawn")
    waiting = list(stretches)
    while waiting:
        ours, theirs = context.Pipe()
        with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as top:
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


def _work(
    theirs: Connection, stretches: Sequence[Stretch], seed: int | None, files: dict[str, list[Folder]], top: str
) -> None:
    """Read input after input in a folder of its own, from an empty working folder and home."""
    from horoball.process import max_memory
    from quality.fuzzing.readers import READERS, STRUCTURED

    readers = READERS | STRUCTURED
    for name in ("home", "here", "inputs", "outside"):
        (Path(top) / name).mkdir()
    os.environ |= {"HOME": str(Path(top) / "home"), "TERM": "dumb", "COLUMNS": "200"}
    os.chdir(Path(top) / "here")
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)  # HDF5 and Arrow write to it
    # Fabric looks through all packages for callbacks whenever training begins, which takes longer than a step.
    vars(importlib.metadata)["entry_points"] = functools.cache(importlib.metadata.entry_points)
    outside = Outside(Path(top) / "outside")
    watch = Watch(Path(top) / "inputs")
    for reader in dict.fromkeys(stretch.reader for stretch in stretches):  # so that all that is imported late is there
        for number, sound in enumerate(files[reader] if seed is not None else files[reader][:1]):
            folder = outside.written(Path(top) / "inputs" / f"sound{number}", sound)
            try:
                readers[reader].load(folder)()
            except ValueError:  # of MNIST and the paper's graphs the checksums are not right
                continue
            finally:
                shutil.rmtree(folder)
    limit_memory()
    for reader, first, last in stretches:
        for number in range(first, last):
            if seed is None:
                given = Given(files[reader][number], "")
            else:
                given = readers[reader].given(seed, reader, number, files[reader])
            folder = outside.written(Path(top) / "inputs" / str(number), given.files)
            try:
                with max_memory(readers[reader].memory) if readers[reader].memory else nullcontext():
                    outcome = watch.judge(readers[reader].load, folder, readers[reader].writes)
            except BaseException as error:  # of the watch itself
                theirs.send(("finding", f"ends the process: {error!r:.200}", 0.0))
                raise
            if given.foreign and outcome.kind == "read":
                outcome = Outcome("finding", f"takes {given.foreign} of another run", outcome.seconds)
            if changed := outside.changed():
                outcome = Outcome("finding", f"follows a link and changes {changed}", outcome.seconds)
            left = [str(file) for name in ("home", "here") for file in (Path(top) / name).iterdir()]
            if left:
                outcome = Outcome("finding", f"ends the process: it has left {left[0]}", outcome.seconds)
            theirs.send(tuple(outcome))
            shutil.rmtree(folder)


class Outside:
    """Files that no input's reader may change, to which links lead."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before: dict[str, bytes] = {}

    def written(self, folder: Path, files: Folder) -> Path:
        """Write an input; `outside/` files beside it, where its links lead."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        (self._folder / "canary").write_bytes(b"must stay as it is\n")
        folder.mkdir()
        for name, entry in files.items():
            place = self._folder / name.removeprefix("outside/") if name.startswith("outside/") else folder / name
            self._write(place.with_name(place.name.format(pid=os.getpid())), entry)
        self._before = self._held()
        return folder

    def changed(self) -> str:
        """The name of a file outside that is not as it was."""
        after = self._held()
        return next((name for name in self._before.keys() | after if self._before.get(name) != after.get(name)), "")

    def _held(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self._folder.iterdir()}

    def _write(self, path: Path, entry: Entry) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, bytes):
            path.write_bytes(entry)
        elif entry.kind == "link":
            path.symlink_to(entry.target.format(outside=self._folder))
        elif entry.kind == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir()
