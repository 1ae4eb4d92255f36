"""The processes that train together, and how they are asked to stop."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["close", "engine", "stop_requested"]


def engine() -> Any:
    """Fabric over torch.distributed: one process, or those that torchrun started.

    Example:
        >>> engine().world_size
        1
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of pytree's LeafSpec, at import
        from lightning_fabric import Fabric
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
    options: dict[str, Any] = {"strategy": "ddp", "num_nodes": max(1, ranks // local)} if ranks > 1 else {}
    fabric = Fabric(accelerator="auto", devices=local, **options)
    if ranks > 1:
        fabric.launch()
    return fabric


def close(fabric: Any) -> None:
    """Wait for all ranks and part from them: a process that ends while still connected may abort.

    Example:
        >>> close(engine())
    """
    fabric.barrier()
    if fabric.world_size > 1 and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@contextmanager
def stop_requested() -> Iterator[Callable[[], bool]]:
    """A question that is answered yes once SIGINT or SIGTERM has come; elsewhere than in the main thread, never.

    Example:
        >>> with stop_requested() as stop:
        ...     stop()
        False
    """
    asked: list[int] = []
    previous: dict[signal.Signals, Any] = {}
    try:
        for kind in (signal.SIGINT, signal.SIGTERM):
            previous[kind] = signal.signal(kind, lambda number, _: asked.append(number))
    except ValueError:  # not the main thread
        pass
    try:
        yield lambda: bool(asked)
    finally:
        for kind, handler in previous.items():
            signal.signal(kind, handler)
