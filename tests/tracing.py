"""Memory of a call, traced in a process of its own."""

from __future__ import annotations

import gc
import multiprocessing
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

__all__ = ["Traced", "tracing_apart"]


class Traced(NamedTuple):
    """What a call gave back, or raised, and the most memory that Python and numpy held for it at a time."""

    outcome: Any
    peak: int


def _traced(call: Callable[..., Any], *arguments: Any) -> Traced:
    if not tracemalloc.is_tracing():
        gc.collect()
        gc.freeze()  # what is imported by now is never garbage, and is not looked through at every call
        tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    try:
        outcome = call(*arguments)
    except Exception as error:  # the test says which one it should be
        outcome = error
    return Traced(outcome, tracemalloc.get_traced_memory()[1] - before)


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        import_module(name)


@contextmanager
def tracing_apart(*names: str) -> Iterator[Callable[..., Traced]]:
    """Calls of functions of a module, with what can be pickled, in one process that traces until it ends.

    Modules with these names are imported before, since an import that is traced takes three times as long.

    Python up to 3.12.8 may crash as `tracemalloc.stop()` meets a thread that allocates (python/cpython#128679), and
    readers have such threads; a process that only ever starts to trace does not.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _import, (names,)) as pool:
        yield lambda call, *arguments: pool.submit(_traced, call, *arguments).result()
