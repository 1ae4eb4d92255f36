"""Runs that can be stopped and gone on with: one JSON file each, with its settings, versions, seconds and result."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student

__all__ = ["RESULTS", "Setting", "arguments", "carry_out", "counted", "figure", "interval", "paired", "results", "slug"]

RESULTS = Path(__file__).parent / "results"

Setting = dict[str, str | int | float]


def arguments(about: str | None, seeds: int, help_: str = "trainings of a cell") -> argparse.Namespace:
    """What every experiment's command can be told: `seeds` and `workers`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seeds", type=int, default=seeds, help=help_)
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    return parser.parse_args()


def carry_out(study: str, settings: Iterable[Setting], run: Callable[..., dict[str, Any]], workers: int = 1) -> None:
    """Run what has not been run yet, in some processes of one thread each.

    Args:
        study: Name of the folder of results.
        settings: Keyword arguments of `run`, one dictionary a run.
        run: A function at the top of a module, from a setting to a result that JSON can hold.
        workers: Number of processes.
    """
    wanted = {_file(study, setting): setting for setting in settings}
    waiting = [setting for path, setting in wanted.items() if not path.exists()]
    began = time.monotonic()
    print(f"{study}: {len(waiting)} runs to do", flush=True)
    if workers == 1:
        torch.set_num_threads(1)
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
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


def _one(study: str, setting: Setting, run: Callable[..., dict[str, Any]]) -> None:
    if _file(study, setting).exists():  # by another command meanwhile
        return
    began = time.perf_counter()
    result = run(**setting)
    seconds = time.perf_counter() - began
    versions = {name: version(name) for name in ("horoball", "torch", "numpy")} | {"python": platform.python_version()}
    record = {"setting": setting, "result": result, "seconds": round(seconds, 2), "versions": versions}
    path = _file(study, setting)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1) + "\n")
    part.replace(path)


def results(study: str) -> list[dict[str, Any]]:
    """All runs of a study so far, as they stand on the disk."""
    return [json.loads(path.read_text()) for path in sorted((RESULTS / study).glob("*.json"))]


def interval(values: Iterable[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % interval by Student's law."""
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
    """A name for a setting, as its file has it.

    Example:
        >>> slug({"c": 1.0, "seed": 3})
        'c=1-seed=3'
    """
    return "-".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in setting.items()
    )


def _file(study: str, setting: Setting) -> Path:
    return RESULTS / study / f"{slug(setting)}.json"
