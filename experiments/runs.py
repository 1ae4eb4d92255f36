"""Runs of experiments, kept as one line of JSON each in `results/<study>.jsonl`, so that a study can be resumed.

A line has the run's setting, result, seconds, peak of memory in GiB, and versions. `python -m experiments.runs fold
FOLDER` adds the runs of another folder of results.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from importlib.metadata import version
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student

from horoball.storage.whole import write_whole

__all__ = [
    "RESULTS",
    "Setting",
    "arguments",
    "carry_out",
    "counted",
    "figure",
    "fold",
    "interval",
    "paired",
    "results",
    "slug",
]

RESULTS = Path(__file__).parent / "results"

Setting = dict[str, str | int | float]
Record = dict[str, Any]  # setting, result, seconds, peak, versions


def arguments(
    about: str | None, seeds: int, help_: str = "trainings of a cell", *, epochs: int | None = None
) -> argparse.Namespace:
    """The options of every experiment's command: `seeds` and `workers`, and `epochs` where there is a choice."""
    parser = argparse.ArgumentParser(description=about)
    if epochs is not None:
        parser.add_argument("--epochs", type=int, default=epochs, help="of a training")
    parser.add_argument("--seeds", type=int, default=seeds, help=help_)
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    return parser.parse_args()


def carry_out(study: str, settings: Iterable[Setting], run: Callable[..., dict[str, Any]], workers: int = 1) -> None:
    """Run the settings that have no result yet, in processes of one thread each.

    Args:
        study: Name of the file of results, without its ending.
        settings: Keyword arguments of `run`, one dictionary per run.
        run: A function at the top level of a module that returns a result JSON can hold.
        workers: Number of processes.
    """
    present = _by_slug(results(study))
    wanted = {slug(setting): setting for setting in settings}
    waiting = [setting for name, setting in wanted.items() if name not in present]
    began = time.monotonic()
    print(f"{study}: {len(waiting)} runs to do", flush=True)
    if workers == 1:
        torch.set_num_threads(1)
    # a process of its own for each run: the peak of its memory is of this run alone
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin, max_tasks_per_child=1) as pool:
        futures = {pool.submit(_one, study, setting, run): setting for setting in waiting}
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                left = (time.monotonic() - began) / done * (len(waiting) - done)
                print(f"  {slug(futures[future])}: {done} of {len(waiting)}, {left / 60:.1f} min left", flush=True)
        except KeyboardInterrupt:
            for process in active_children():  # which would go on with the next run
                process.kill()
            raise SystemExit("Stopped. Runs that were done are kept; the same command goes on.") from None


def _begin() -> None:
    """Start a worker: one thread for its work, and one that ends it with the process that gives it work."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _one(study: str, setting: Setting, run: Callable[..., dict[str, Any]]) -> None:
    if slug(setting) in _by_slug(results(study)):  # another command was faster
        return
    began = time.perf_counter()
    result = run(**setting)
    seconds = time.perf_counter() - began
    versions = {name: version(name) for name in ("horoball", "torch", "numpy")} | {"python": platform.python_version()}
    own = {"seconds": round(seconds, 2), "peak": round(getrusage(RUSAGE_SELF).ru_maxrss / 2**20, 2)}
    _add(study, [{"setting": setting, "result": result, **own, "versions": versions}])


def results(study: str) -> list[Record]:
    """All runs of a study so far, in the order of their slugs.

    An unfinished last line, as an interrupted copy leaves it, is ignored with a warning.

    Raises:
        ValueError: Another line is not the JSON of a run.
    """
    path = RESULTS / f"{study}.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(_parsed(line))
        except ValueError:
            if line.endswith("\n"):
                raise ValueError(f"{path}, line {number}: expected the JSON of a run, got {line[:60]!r}.") from None
            warnings.warn(f"{path}: ignored line {number}, which is incomplete.", stacklevel=2)
    return sorted(records, key=lambda record: slug(record["setting"]))


def fold(folder: Path) -> int:
    """Add the runs in another folder of results, `<study>.jsonl` or `<study>/<run>.json`, to the results here.

    A run that is here already is kept as it is.

    Args:
        folder: The other folder, which is not changed.

    Returns:
        The number of runs whose result here is another one.
    """
    studies: dict[str, list[Record]] = {}
    for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*/*.json")]):
        study = path.stem if path.suffix == ".jsonl" else path.parent.name
        texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        try:
            studies.setdefault(study, []).extend(map(_parsed, texts))
        except ValueError as error:
            raise ValueError(f"{path}: expected the JSON of a run. {error}") from None
    if not studies:
        raise ValueError(f"{folder}: expected files <study>.jsonl or <study>/<run>.json, found none.")
    differing = 0
    for study, records in studies.items():
        present = _by_slug(_add(study, records))
        different = [name for name, record in _by_slug(records).items() if record["result"] != present[name]["result"]]
        print(f"{study}: {len(records)} runs read, {len(present)} in all", flush=True)
        for name in different:
            print(f"  {name}: the result here is another one, and was kept")
        differing += len(different)
    return differing


def _add(study: str, records: list[Record]) -> list[Record]:
    """Write a study's file with more runs, sorted, and return all of them; a run that is there already stays."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with _alone(RESULTS):
        together = _by_slug(records) | _by_slug(results(study))
        ordered = [together[name] for name in sorted(together)]
        text = "".join(json.dumps(record) + "\n" for record in ordered)
        write_whole(RESULTS / f"{study}.jsonl", text, alone=False)
    return ordered


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process is adding results to a folder; a lock ends with the process that has it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _parsed(text: str) -> Record:
    record = json.loads(text)
    if not isinstance(record, dict) or not {"setting", "result"} <= record.keys():
        raise ValueError("It has no setting and result.")
    return record


def _by_slug(records: Iterable[Record]) -> dict[str, Record]:
    return {slug(record["setting"]): record for record in records}


def interval(values: Iterable[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % interval by Student's t distribution."""
    x = np.asarray(list(values), float)
    if len(x) < 2:
        return float(x.mean()) if len(x) else float("nan"), float("nan")
    return float(x.mean()), float(student.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))


def figure(by_seed: Mapping[int, float], digits: int = 1, sign: str = "") -> str:
    """A mean over seeds with its interval, as a table shows it; "not run" without any, no interval for a single one.

    Example:
        >>> figure({0: 1.0, 1: 2.0, 2: 3.0}), figure({0: 2.0}), figure({})
        ('2.0 ± 2.5', '2.0', 'not run')
    """
    values = list(by_seed.values())
    mean, half = interval(values)
    if not values:
        return "not run"
    shown = f"{mean:{sign}.{digits}f}" + (f" ± {half:.{digits}f}" if len(values) > 1 else "")
    return shown.replace("-", "−")


def counted(by_seed: Mapping[int, float], digits: int = 1, sign: str = "") -> str:
    """The same with the number of runs.

    Example:
        >>> counted({0: 1.0, 1: 2.0, 2: 3.0}), counted({})
        ('2.0 ± 2.5 (3)', 'not run')
    """
    return figure(by_seed, digits, sign) + (f" ({len(by_seed)})" if by_seed else "")


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """Differences first − second of the seeds that both have.

    Example:
        >>> paired({0: 3.0, 1: 5.0}, {1: 4.0, 2: 1.0})
        {1: 1.0}
    """
    return {seed: first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())}


def slug(setting: Setting) -> str:
    """A setting in one word, which identifies a run.

    Example:
        >>> slug({"c": 1.0, "seed": 3})
        'c=1-seed=3'
    """
    return "-".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in setting.items()
    )


def main(words: Sequence[str] | None = None) -> int:
    """Fold another folder of results in; 1 if a run there has another result than here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["fold"])
    parser.add_argument("folder", type=Path, help="<study>.jsonl or <study>/<run>.json inside; it is not changed")
    return 1 if fold(parser.parse_args(words).folder) else 0


if __name__ == "__main__":
    sys.exit(main())
