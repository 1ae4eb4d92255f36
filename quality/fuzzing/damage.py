"""Damage to bytes of any kind: bits, bytes, cuts, joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

__all__ = ["DAMAGES", "Damage", "damaged"]

Damage = Callable[[Random, bytes, Sequence[bytes]], bytes]

_NUMBERS = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**63 - 1,
    2**63,
    2**64 - 1,
]


def _place(rng: Random, data: bytes | bytearray) -> int:
    """Anywhere, but half of the time near an end, where formats keep what they say of themselves."""
    n = len(data)
    if n and rng.random() < 0.5:
        near = min(n, 1 + int(rng.expovariate(1 / 64)))
        return near - 1 if rng.random() < 0.5 else n - near
    return rng.randrange(n + 1)


def _flip(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        if out:
            place = min(_place(rng, out), len(out) - 1)
            out[place] ^= 1 << rng.randrange(8)
    return bytes(out)


def _overwrite(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    size = rng.choice((1, 2, 4, 8))
    number = (rng.choice(_NUMBERS) % (1 << (8 * size))).to_bytes(size, rng.choice(("little", "big")))
    place = _place(rng, data)
    return data[:place] + number + data[place + size :]


def _insert(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    place = _place(rng, data)
    return data[:place] + rng.randbytes(rng.choice((1, 1, 2, 4, 64))) + data[place:]


def _delete(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    place = _place(rng, data)
    return data[:place] + data[place + rng.choice((1, 1, 2, 4, 64)) :]


def _cut(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    place = _place(rng, data)
    return data[:place] if rng.random() < 0.8 else data[place:]


def _splice(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others) if others else data
    return data[: _place(rng, data)] + other[_place(rng, other) :]


def _repeat(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start = _place(rng, data)
    block = data[start : start + rng.choice((1, 8, 64, 512))]
    return data[:start] + block * rng.choice((2, 3, 100)) + data[start + len(block) :]


def _zeros(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, size = _place(rng, data), rng.choice((1, 16, 256))
    return data[:start] + bytes(len(data[start : start + size])) + data[start + size :]


DAMAGES: tuple[Damage, ...] = (_flip, _flip, _overwrite, _overwrite, _insert, _delete, _cut, _splice, _repeat, _zeros)


def damaged(rng: Random, data: bytes, others: Sequence[bytes], kinds: Sequence[Damage] = DAMAGES) -> bytes:
    """Damage of one kind, sometimes of several.

    Args:
        rng: Where chance comes from.
        data: A file.
        others: Files that parts may come from.
        kinds: What may be done.
    """
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(kinds)(rng, data, others)
    return data
