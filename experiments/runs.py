"""Runs that can be stopped and gone on with: one JSON file each, with its settings, versions, seconds and result."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student

__all__ = ["RESULTS", "Setting", "carry_out", "interval", "results"]

RESULTS = Path(__file__).parent / "results"

Setting = dict[str, str | int | float]


def carry_out(study: str, settings: Iterable[Setting], run: Callable[..., dict[str, Any]], workers: int = 1) -> None:
    """Run what has not been run yet, in some processes of one thread each.

    Args:
        study: Name of the folder of results.
        settings: Keyword arguments of `run`, one dictionary a run.
        run: A function at the top of a module, from a setting to a result that JSON can hold.
        workers: Number of processes.
    """
    waiting = [setting for setting in settings if not _file(study, setting).exists()]
    began = time.monotonic()
    print(f"{study}: {len(waiting)} runs to do", flush=True)
    if workers == 1:
        torch.set_num_threads(1)
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        futures = {pool.submit(_one, study, setting, run): setting for setting in waiting}
        for done, future in enumerate(as_completed(futures), 1):
            future.result()
            left = (time.monotonic() - began) / done * (len(waiting) - done)
            print(f"  {_slug(futures[future])}: {done} of {len(waiting)}, {left / 60:.1f} min left", flush=True)


def _one(study: str, setting: Setting, run: Callable[..., dict[str, Any]]) -> None:
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


def _slug(setting: Setting) -> str:
    return "-".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in setting.items()
    )


def _file(study: str, setting: Setting) -> Path:
    return RESULTS / study / f"{_slug(setting)}.json"
