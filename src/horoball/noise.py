"""Standard normal noise that does not depend on how a batch is shared among processes.

A step's batch may be dealt out to several ranks, row i to rank i mod n. All ranks seed their generators alike, draw the
noise of the whole batch and keep that of their own rows: the run is then the run of one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

__all__ = ["dealt", "seeded", "shared", "standard_normal"]

_share: ContextVar[tuple[int, int, int] | None] = ContextVar("share", default=None)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within this context random numbers of the CPU follow from the seed; outside, and on GPUs, nothing has changed.

    They come from torch's global generator: seeds hold in one thread at a time.

    Example:
        >>> with seeded(0):
        ...     one = torch.rand(())
        >>> with seeded(0):
        ...     print(torch.equal(torch.rand(()), one))
        True
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would set the generators of GPUs as well
        yield


@contextmanager
def dealt(rank: int, ranks: int, rows: int) -> Iterator[None]:
    """Within this context noise is drawn for `rows` rows, of which every `ranks`-th is kept.

    Example:
        >>> torch.manual_seed(0); whole = standard_normal(torch.Size((4, 2)), torch.float32, None)
        <torch._C.Generator object at ...>
        >>> with dealt(rank=1, ranks=2, rows=4):
        ...     _ = torch.manual_seed(0)
        ...     part = standard_normal(torch.Size((2, 2)), torch.float32, None)
        >>> torch.equal(part, whole[1::2])
        True
    """
    token = _share.set((rank, ranks, rows) if ranks > 1 else None)
    try:
        yield
    finally:
        _share.reset(token)


@contextmanager
def shared() -> Iterator[None]:
    """Within this context all rows get the same noise: what is made of a row does not depend on the others.

    Example:
        >>> with shared():
        ...     noise = standard_normal(torch.Size((4, 2)), torch.float32, None)
        >>> torch.equal(noise[0], noise[3])
        True
    """
    token = _share.set((0, 0, 1))
    try:
        yield
    finally:
        _share.reset(token)


def standard_normal(shape: torch.Size, dtype: torch.dtype, device: torch.device | None, row_axis: int = -2) -> Tensor:
    """Standard normal numbers of a shape whose rows lie along `row_axis`.

    Example:
        >>> standard_normal(torch.Size((3, 2)), torch.float64, None).dtype
        torch.float64
    """
    share = None if torch.compiler.is_compiling() else _share.get()
    if share is None or len(shape) < -row_axis:
        return torch.randn(shape, dtype=dtype, device=device)
    rank, ranks, rows = share
    whole = list(shape)
    whole[row_axis] = rows
    if ranks == 0:
        return torch.randn(whole, dtype=dtype, device=device).expand(shape)
    part = [slice(None)] * len(shape)
    part[row_axis] = slice(rank, None, ranks)
    return torch.randn(whole, dtype=dtype, device=device)[tuple(part)]
