"""The processes that train together, and what takes their steps.

Note [No compiler]: Fabric and the methods of torch's optimizers import torch's compiler, with sympy, which takes as
long as the fit of a small table. One process on the CPU needs neither: it has `Alone` and `Adam` of this module, which
do the same to the bit.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from horoball.devices import free_memory, resolved
from horoball.tables.scaling import Standardized
from horoball.tables.table import ArrayTable, Batch, Order, Table


@contextmanager
def engine(device: str = "cpu", precision: Any = "32-true", **hooks: Any) -> Iterator[Any]:
    """Fabric over torch.distributed: one process, or those that torchrun started; `Alone` where it does all there is.

    Args:
        device: Where it is computed, a name for `devices.resolved`; of several processes each has its own.
        precision: As Fabric has it: "32-true", or "bf16-mixed" for matrix products in bfloat16.
        hooks: `callbacks` and `loggers`, as Fabric takes them.
    """
    place = resolved(device)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
    if ranks == 1 and place.type == "cpu" and precision == "32-true" and not any(hooks.values()):
        yield Alone()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of pytree's LeafSpec, at import
        from lightning_fabric import Fabric
        from lightning_fabric.plugins.environments.lightning import LightningEnvironment
        from lightning_fabric.strategies.ddp import DDPStrategy
        from lightning_fabric.strategies.single_device import SingleDeviceStrategy
    if ranks == 1:
        # Without its own environment Fabric would look for a scheduler's, and refuse one task of several.
        # Without a strategy it would train on the CPU for a device that it has no strategy for.
        place = torch.device(place.type, 0) if place.type != "cpu" and place.index is None else place
        strategy: Any = SingleDeviceStrategy(device=place)
        options: dict[str, Any] = {"plugins": [LightningEnvironment()], "precision": precision}
        yield Fabric(accelerator=place.type, devices=1, strategy=strategy, **options, **hooks)
        return
    # Both spare copies at every step. Newer versions of torch have another name for the second.
    known = inspect.signature(torch.nn.parallel.DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    buffers_too: Any = {buffers: False}
    strategy = DDPStrategy(gradient_as_bucket_view=True, **buffers_too)
    nodes = max(1, ranks // local)
    options = {"num_nodes": nodes, "precision": precision}
    fabric = Fabric(accelerator=place.type, devices=local, strategy=strategy, **options, **hooks)
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


class Alone:
    """What training asks of Fabric, for one process on the CPU without callbacks and loggers; see Note [No compiler].

    Example:
        >>> with engine() as alone:
        ...     alone.world_size, alone.device
        (1, device(type='cpu'))
    """

    global_rank, world_size, device = 0, 1, torch.device("cpu")
    loggers: tuple[Any, ...] = ()

    def setup_module(self, module: nn.Module) -> nn.Module:
        """The module, on the CPU."""
        return module.to(self.device)

    def setup_optimizers(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """The optimizer as it is."""
        return optimizer

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss."""
        torch.autograd.backward(loss)

    def clip_gradients(self, module: nn.Module, _: Any, *, max_norm: float, error_if_nonfinite: bool) -> Tensor:
        """Make gradients shorter that are longer than the given norm."""
        return nn.utils.clip_grad_norm_(module.parameters(), max_norm, error_if_nonfinite=error_if_nonfinite)

    def to_device(self, inputs: Any) -> Any:
        """The inputs, which are there."""
        return inputs

    def call(self, event: str, **more: Any) -> None:
        """Nobody is called."""

    def log_dict(self, metrics: dict[str, float], step: int) -> None:
        """Nobody is told."""

    def barrier(self) -> None:
        """Nobody is waited for."""


class Adam(torch.optim.Adam):
    """Torch's Adam, its methods without what is around them; see Note [No compiler].

    Example:
        >>> weight = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = Adam([weight], lr=0.5, fused=True)
        >>> weight.grad = torch.ones(2)
        >>> optimizer.step(); weight.detach()
        tensor([0.5000, 0.5000])
    """

    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Adam.load_state_dict)
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


def release(wrapped: Any) -> None:
    """Let a module that Fabric has set up go of the other ranks, before they part.

    DDP's reducer holds the process group. If it were the last to do so, it would wait for the group's threads while
    keeping Python's lock, for which one of these threads may be waiting to give back a tensor: both would wait forever.
    """
    module = getattr(wrapped, "_forward_module", None)  # Fabric has no public way to it
    if isinstance(module, torch.nn.parallel.DistributedDataParallel):
        del module.reducer, module.logger


def summed(fabric: Any, numbers: list[float]) -> Callable[[], list[float]]:
    """Start to add numbers up over all ranks; the sums are asked for later, when they have come by themselves."""
    if fabric.world_size == 1:
        return lambda: numbers
    tensor = torch.tensor(numbers, dtype=torch.float64, device=fabric.device)
    work = torch.distributed.all_reduce(tensor, async_op=True)

    def sums() -> list[float]:
        work.wait()
        return tensor.tolist()

    return sums


_SHARE = 4  # of the memory that is free, the rows may take one part in so many


class ResidentTable:
    """The steps of a table in memory, picked on the device from rows that were moved once."""

    def __init__(self, table: Table, index: ArrayTable, device: torch.device) -> None:
        self.steps, self._index = index.steps, index
        self._x = torch.cat(list(table.blocks())).to(device)
        self._side = None if index.side is None else index.side.to(device)

    def batches(self, order: Order) -> Iterator[Batch]:
        """The batches of an epoch, from step order.start on."""
        index = torch.from_numpy(self._index.order(order)).to(self._x.device)  # once an epoch
        for step in range(order.start, self.steps(order)):
            step_rows = slice(step * order.batch_size, (step + 1) * order.batch_size)
            mine = index[step_rows][order.rank :: order.ranks]
            side = None if self._side is None else self._side[mine]
            yield Batch(self._x[mine], len(index[step_rows]), "by_rank", side)


def resident(source: Any, device: torch.device) -> Any:
    """The source kept on a device that is not the CPU, if it is a dense table in memory that leaves room there."""
    index = source.table if isinstance(source, Standardized) else source
    if device.type == "cpu" or not isinstance(index, ArrayTable) or index.is_sparse:
        return source
    numbers = index.rows * (source.width + (0 if index.side is None else index.side.shape[1]))
    return ResidentTable(source, index, device) if 4 * numbers * _SHARE <= free_memory(device) else source
