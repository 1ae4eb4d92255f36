"""The processes that train together."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from horoball.runtime.devices import resolved

__all__ = ["engine", "release", "summed"]


@contextmanager
def engine(device: str = "cpu", precision: Any = "32-true") -> Iterator[Any]:
    """Fabric over torch.distributed: one process, or those that torchrun started.

    Args:
        device: Where it is computed, a name for `runtime.devices.resolved`; of several processes each has its own.
        precision: As Fabric has it: "32-true", or "bf16-mixed" for matrix products in bfloat16.

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
        from lightning_fabric.strategies.single_device import SingleDeviceStrategy
    place = resolved(device)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
    if ranks == 1:
        # Without its own environment Fabric would look for a scheduler's, and refuse one task of several.
        # Without a strategy it would train on the CPU for a device that it has no strategy for.
        place = torch.device(place.type, 0) if place.type != "cpu" and place.index is None else place
        strategy: Any = SingleDeviceStrategy(device=place)
        options: dict[str, Any] = {"plugins": [LightningEnvironment()], "precision": precision}
        yield Fabric(accelerator=place.type, devices=1, strategy=strategy, **options)
        return
    # Both spare copies at every step. Newer versions of torch have another name for the second.
    known = inspect.signature(torch.nn.parallel.DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    buffers_too: Any = {buffers: False}
    strategy = DDPStrategy(gradient_as_bucket_view=True, **buffers_too)
    nodes = max(1, ranks // local)
    fabric = Fabric(accelerator=place.type, devices=local, num_nodes=nodes, strategy=strategy, precision=precision)
    fabric.launch()
    try:
        yield fabric
        fabric.barrier()  # what one rank has written, all may read
    except RuntimeError as error:
        # gloo's errors have no class of their own, but name its source file.
        if "gloo" not in str(error) and not isinstance(error, torch.distributed.DistBackendError):
            raise
        raise ConnectionError(
            "Another rank of this run is gone: it has ended, was killed, or cannot be reached. Start all ranks again "
            "with --resume; they resume from the last checkpoint."
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
