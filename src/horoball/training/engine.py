"""The processes that train together, and how they are asked to stop."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["engine", "release", "stop_requested", "summed"]


@contextmanager
def engine() -> Iterator[Any]:
    """Fabric over torch.distributed: one process, or those that torchrun started. On the CPU: rows stay there too.

    Example:
        >>> with engine() as fabric:
        ...     fabric.world_size
        1
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of pytree's LeafSpec, at import
        from lightning_fabric import Fabric
        from lightning_fabric.plugins.environments.lightning import LightningEnvironment
        from lightning_fabric.strategies.ddp import DDPStrategy
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
    if ranks == 1:
        # Without its own environment Fabric would look for a scheduler's, and refuse one task of several.
        yield Fabric(accelerator="cpu", devices=1, plugins=[LightningEnvironment()])
        return
    strategy = DDPStrategy(gradient_as_bucket_view=True, broadcast_buffers=False)  # spares copies at every step
    fabric = Fabric(accelerator="cpu", devices=local, num_nodes=max(1, ranks // local), strategy=strategy)
    fabric.launch()
    try:
        yield fabric
        fabric.barrier()  # what one rank has written, all may read
    except RuntimeError as error:
        if "gloo" not in str(error):  # whose errors have no class of their own, but name its source file
            raise
        raise ConnectionError(
            "Another rank of this run is gone: it has ended, was killed, or cannot be reached. Start all ranks again "
            "with --resume; they go on from the last checkpoint."
        ) from None
    finally:
        torch.distributed.destroy_process_group()  # a process that ends while still connected may abort


def release(wrapped: Any) -> None:
    """Let a module that Fabric has set up go of the other ranks, before they part.

    DDP's reducer holds the process group. If it were the last to do so, it would wait for the group's threads while
    keeping Python's lock, for which one of these threads may be waiting to give back a tensor: both would wait forever.

    Example:
        >>> with engine() as fabric:
        ...     release(fabric.setup(torch.nn.Linear(1, 1)))
    """
    module = wrapped._forward_module  # Fabric has no public way to it
    if isinstance(module, torch.nn.parallel.DistributedDataParallel):
        del module.reducer, module.logger


def summed(fabric: Any, numbers: list[float]) -> Callable[[], list[float]]:
    """Start to add numbers up over all ranks; the sums are asked for later, when they have come by themselves.

    Example:
        >>> with engine() as fabric:
        ...     sums = summed(fabric, [1.0, 2.0])
        ...     sums()
        [1.0, 2.0]
    """
    if fabric.world_size == 1:
        return lambda: numbers
    tensor = torch.tensor(numbers, dtype=torch.float64, device=fabric.device)
    work = torch.distributed.all_reduce(tensor, async_op=True)

    def sums() -> list[float]:
        work.wait()
        return tensor.tolist()

    return sums


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
