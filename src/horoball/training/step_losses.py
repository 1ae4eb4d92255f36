"""The losses of the last steps, which a GPU has computed and the host has not seen.

To look at a loss is to wait for it. On a CPU it is there at once, and a step whose loss is not finite is not taken.
Another device is asked every few steps; meanwhile a flag there keeps Adam from taking such a step, so that the weights
stay as they were before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from horoball.training.engine import summed

__all__ = ["StepLoss", "StepLosses"]

_EVERY = 16  # steps between looks at a device that is not the CPU


class StepLoss(NamedTuple):
    """What one step came to.

    Example:
        >>> StepLoss(1, None, [1.0], [1.0]).mine
        [1.0]
    """

    number: int  # of the step in its epoch, from 1 on
    batch: Any  # a `Step`
    sums: list[float]  # of the objective's terms, over all ranks
    mine: list[float]  # the same of this rank


class StepLosses:
    """Losses by step, until they are read.

    Args:
        fabric: The engine.

    Example:
        >>> from horoball.training.engine import engine
        >>> with engine() as fabric:
        ...     losses = StepLosses(fabric)
        ...     losses.add(1, None, torch.tensor([2.0, 1.0]))
        ...     (step,), stopping = losses.read(stop=False)()
        >>> step.sums, stopping
        ([2.0, 1.0], False)
    """

    def __init__(self, fabric: Any) -> None:
        self.fabric, self.at_once = fabric, fabric.device.type == "cpu"
        self._held: list[tuple[int, Any, Tensor]] = []

    def add(self, number: int, batch: Any, losses: Tensor) -> None:
        """Keep the losses of a step."""
        self._held.append((number, batch, losses.detach()))

    @property
    def due(self) -> bool:
        """Whether it is time to read; ranks that have taken as many steps agree."""
        return self.at_once or len(self._held) >= _EVERY

    def read(self, *, stop: bool) -> Callable[[], tuple[list[StepLoss], bool]]:
        """Start to read all that is held; the call gives the steps, and whether any rank wants to stop.

        All ranks learn the same sums and so stop at the same step, on a signal or on a loss that is not finite; none is
        left waiting for another. The sums travel while the gradients are computed.
        """
        held, self._held = self._held, []
        mine = torch.stack([losses for *_, losses in held]).tolist() if held else []
        over_ranks = summed(self.fabric, [*(value for values in mine for value in values), float(stop)])

        def steps() -> tuple[list[StepLoss], bool]:
            *sums, stopping = over_ranks()
            terms = len(sums) // max(1, len(held))
            parts = [sums[i * terms : (i + 1) * terms] for i in range(len(held))]
            own = zip(held, parts, mine, strict=True)
            return [StepLoss(number, batch, sums, mine) for (number, batch, _), sums, mine in own], bool(stopping)

        return steps

    def guard(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        """Keep a step from being taken if its loss is not finite, without looking at it."""
        if not self.at_once:
            optimizer.found_inf = (~loss.detach().isfinite()).float()  # type: ignore[attr-defined]
