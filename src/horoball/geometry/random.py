"""Random numbers, drawn from generators that are passed along.

Estimators, commands and training make a generator from their seed and hand it to whatever draws. torch's global
generator is neither read nor changed, so a seed holds in any number of threads. A function with `generator=None` draws
from the global one, as torch's own functions do.

A step's batch may be dealt out to several ranks, row i to rank i mod n. All ranks seed their generators alike, draw the
noise of the whole batch and keep that of their own rows: the run is then the run of one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.devices import has_float64

_share: ContextVar[tuple[int, int, int] | None] = ContextVar("share", default=None)
_global_generator = Lock()


def generator_for(seed: int) -> torch.Generator:
    """A new generator on the CPU, started from a seed.

    Example:
        >>> one, two = (torch.rand(2, generator=generator_for(0)) for _ in range(2))
        >>> torch.equal(one, two)
        True
    """
    return torch.Generator().manual_seed(seed % (1 << 63))


def seed_from(random_state: Any) -> int:
    """The seed that scikit-learn's `random_state` stands for.

    Args:
        random_state: A whole number is the seed itself, as the commands' `--seed` is. NumPy's `Generator` or
            `RandomState` is asked for one. None gives a new seed each time, and leaves NumPy's global generator alone.

    Raises:
        ValueError: It is none of these, or negative.

    Example:
        >>> seed_from(7), seed_from(np.random.default_rng(0)) == seed_from(np.random.default_rng(0))
        (7, True)
    """
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(1 << 31))
    if isinstance(random_state, np.random.RandomState) or random_state is np.random:
        return int(random_state.randint((1 << 31) - 1))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and int(random_state) >= 0:
        return int(random_state)
    raise ValueError(
        f"random_state is a whole number of at least 0, a generator of NumPy or None, got {random_state!r}."
    )


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Seed torch's global generator for a library that takes no other, one thread at a time; then put it back.

    Only for calls into such a library: numbers that other threads draw from the global generator meanwhile are not
    their own. GPUs are left alone.

    Example:
        >>> before = torch.get_rng_state()
        >>> with global_seed(0):
        ...     drawn = torch.rand(())
        >>> torch.equal(drawn, torch.rand((), generator=generator_for(0))), torch.equal(torch.get_rng_state(), before)
        (True, True)
    """
    with _global_generator, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would set the generators of GPUs as well
        yield


@contextmanager
def rank_noise(rank: int, ranks: int, rows: int) -> Iterator[None]:
    """Within this context noise is drawn for `rows` rows, of which every `ranks`-th is kept.

    Example:
        >>> shape = torch.Size((4, 2))
        >>> whole = standard_normal(shape, torch.float32, None, generator=generator_for(0))
        >>> with rank_noise(rank=1, ranks=2, rows=4):
        ...     part = standard_normal(torch.Size((2, 2)), torch.float32, None, generator=generator_for(0))
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


def standard_normal(
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device | None,
    row_axis: int = -2,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Standard normal numbers of a shape whose rows lie along `row_axis`.

    Args:
        shape: Shape of the result.
        dtype: Its dtype; float32 in place of float64 on a device that has none.
        device: Where the numbers are used. They are drawn where the generator is, and copied.
        row_axis: The axis of the rows, counted from the end.
        generator: Where they come from; torch's global generator if not given.

    Example:
        >>> standard_normal(torch.Size((3, 2)), torch.float64, None).dtype
        torch.float64
    """
    share = None if torch.compiler.is_compiling() else _share.get()
    if share is None or len(shape) < -row_axis:
        return _drawn(shape, dtype, device, generator)
    rank, ranks, rows = share
    whole = list(shape)
    whole[row_axis] = rows
    if ranks == 0:
        return _drawn(whole, dtype, device, generator).expand(shape)
    part = [slice(None)] * len(shape)
    part[row_axis] = slice(rank, None, ranks)
    return _drawn(whole, dtype, device, generator)[tuple(part)]


def _drawn(
    shape: list[int] | torch.Size, dtype: torch.dtype, device: torch.device | None, generator: torch.Generator | None
) -> Tensor:
    held = torch.float32 if device is not None and dtype == torch.float64 and not has_float64(device) else dtype
    if generator is None:  # not even named: torch has no sizes that are symbols where a generator may be given
        return torch.randn(shape, dtype=held, device=device)
    if device is None:
        return torch.randn(shape, dtype=held, generator=generator)
    # The same numbers on every device. A GPU fetches them by itself from pinned memory, and nobody waits.
    pinned = device.type == "cuda" and generator.device.type == "cpu"
    drawn = torch.randn(shape, dtype=dtype, device=generator.device, generator=generator, pin_memory=pinned)
    return drawn.to(held).to(device, non_blocking=True)
