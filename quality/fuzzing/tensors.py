"""Changes to tensors that leave their safetensors file valid: other types, shapes, numbers and names."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

__all__ = ["Stored", "Tensor", "hostile_numbers", "stored"]

_NUMPY = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",  # numpy has no bfloat16: its bits
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "<i1",
    "U8": "<u1",
    "BOOL": "<u1",
}
_FLOATS = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e30, 1e10, -1.0, 0.0, 1e-30, 1e-45)
_INTS = (-1, 0, 1, 7, 255, 2**31 - 1, 2**40, 2**62, 2**63 - 1, -(2**63))
_NAMES = ("optimizer.0.more", "optimizer.99.exp_avg", "optimizer.x.step", "optimizer.0", "model.more", "x", "é", "")


@dataclass
class Tensor:
    """A tensor of a file: its type by safetensors' name, and its numbers."""

    dtype: str
    array: np.ndarray

    def cast(self, dtype: str) -> Tensor:
        """The same numbers in another type, as far as it holds them."""
        values = self.array
        if self.dtype == "BF16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(all="ignore"):
            if dtype == "BF16":
                bits = np.atleast_1d(values.astype(np.float32)).view(np.uint32) >> 16
                return Tensor(dtype, bits.astype(np.uint16).reshape(values.shape))
            if dtype == "BOOL":
                return Tensor(dtype, (values != 0).astype(np.uint8))
            return Tensor(dtype, values.astype(_NUMPY[dtype]))


@dataclass
class Stored:
    """What a safetensors file holds."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]

    @property
    def state(self) -> Any:
        """The JSON that horoball keeps in the header; a changed copy is put back with `with_state`."""
        return json.loads(self.metadata["horoball"])

    def with_state(self, state: Any) -> Stored:
        """The same tensors with other JSON in the header."""
        return Stored(self.tensors, self.metadata | {"horoball": json.dumps(state)})

    def bytes(self) -> bytes:
        """The file."""
        header: dict[str, Any] = {"__metadata__": self.metadata} if self.metadata else {}
        body = []
        end = 0
        for name, tensor in self.tensors.items():
            data = np.ascontiguousarray(tensor.array).tobytes()
            shape = list(tensor.array.shape)
            header[name] = {"dtype": tensor.dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
            end += len(data)
            body.append(data)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text + b"".join(body)


def stored(data: bytes) -> Stored | None:
    """Take a safetensors file apart; None if it is none, or was damaged before."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size])
        metadata, body = header.pop("__metadata__", {}), data[8 + size :]
        metadata["horoball"] += ""
        tensors = {}
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            array = np.frombuffer(body[start:end], _NUMPY[entry["dtype"]]).reshape(entry["shape"])
            tensors[name] = Tensor(entry["dtype"], array.copy())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return Stored(tensors, metadata)


def hostile_numbers(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change one or two tensors of a file that stays valid in itself."""
    file = stored(data)
    if file is None or not file.tensors:
        return data
    for _ in range(rng.choice((1, 1, 1, 2))):
        if file.tensors:
            rng.choice(_CHANGES)(rng, file, others)
    return file.bytes()


def _some(rng: Random, file: Stored) -> str:
    """The name of a tensor; one of the optimizer's half of the time, where there are any."""
    names = sorted(file.tensors)
    moments = [name for name in names if name.startswith("optimizer.")]
    return rng.choice(moments if moments and rng.random() < 0.5 else names)


def _type(rng: Random, file: Stored, others: Sequence[bytes]) -> None:
    """One tensor, or all floating ones, in another type."""
    dtype, name = rng.choice(sorted(_NUMPY)), _some(rng, file)
    whole = rng.random() < 0.3
    for each, tensor in file.tensors.items():
        if each == name or (whole and tensor.dtype.startswith("F")):
            file.tensors[each] = tensor.cast(dtype)


def _shape(rng: Random, file: Stored, others: Sequence[bytes]) -> None:
    """Other sizes, with numbers to fill them; for one tensor or all moments of the optimizer."""
    name = _some(rng, file)
    size, shape = file.tensors[name].array.size, file.tensors[name].array.shape
    sizes: list[tuple[int, ...]] = [(), (1,), (0,), (7, 7), (size,), (size, 1), (1, size), shape[::-1], (*shape, 1)]
    if shape:
        sizes += [(shape[0] + 1, *shape[1:]), (max(0, shape[0] - 1), *shape[1:]), (0, *shape[1:]), shape[1:]]
    chosen = rng.choice(sizes)
    whole = name.startswith("optimizer.") and rng.random() < 0.5
    for each in [each for each in file.tensors if whole and "exp_avg" in each] or [name]:
        tensor = file.tensors[each]
        file.tensors[each] = Tensor(tensor.dtype, np.resize(tensor.array, chosen))


def _number(rng: Random, file: Stored, others: Sequence[bytes]) -> None:
    """One number, or all of a tensor."""
    tensor = file.tensors[_some(rng, file)]
    if not tensor.array.size:
        return
    if tensor.dtype.startswith("F"):
        with np.errstate(all="ignore"):
            value = np.array(rng.choice(_FLOATS)).astype(tensor.array.dtype)
    else:
        near = (*_INTS, int(tensor.array.max()) + 1, int(tensor.array.min()) - 1, tensor.array.size)
        value = np.array(rng.choice(near) % 2**64, np.uint64).astype(tensor.array.dtype)
        if tensor.dtype == "BOOL":
            value = value & 1
    if rng.random() < 0.3:
        tensor.array[...] = value
    else:
        tensor.array.reshape(-1)[rng.randrange(tensor.array.size)] = value


def _drop(rng: Random, file: Stored, others: Sequence[bytes]) -> None:
    """One tensor, or all that begin alike, are not there."""
    name = _some(rng, file)
    start = name if rng.random() < 0.7 else name[: name.rfind(".") + 1] or name
    for each in [each for each in file.tensors if each.startswith(start)]:
        del file.tensors[each]


def _rename(rng: Random, file: Stored, others: Sequence[bytes]) -> None:
    """A tensor gets a name that nobody expects, or changes its name with another."""
    name = _some(rng, file)
    other = _some(rng, file) if rng.random() < 0.5 else rng.choice(_NAMES)
    here, there = file.tensors.pop(name), file.tensors.pop(other, None)
    file.tensors[other] = here
    if there is not None and other != name:
        file.tensors[name] = there


def _double(rng: Random, file: Stored, others: Sequence[bytes]) -> None:
    """A tensor is there under another name as well."""
    tensor = file.tensors[_some(rng, file)]
    other = _some(rng, file) if rng.random() < 0.5 else rng.choice(_NAMES)
    file.tensors[other] = Tensor(tensor.dtype, tensor.array.copy())


def _borrow(rng: Random, file: Stored, others: Sequence[bytes]) -> None:
    """A tensor of another file under the name that one has here."""
    other = stored(rng.choice(others)) if others else None
    if other is not None and other.tensors:
        name = _some(rng, file)
        file.tensors[name] = other.tensors.get(name) or other.tensors[_some(rng, other)]


def _grow(rng: Random, file: Stored, others: Sequence[bytes]) -> None:
    """Many rows, all tensors alike; of names one is long, as if arrays of fixed width were made of them."""
    rows = rng.choice((300, 5000))
    for name, tensor in list(file.tensors.items()):
        if tensor.array.ndim and not name.startswith(("cells.centers", "names.text")):
            file.tensors[name] = Tensor(tensor.dtype, np.resize(tensor.array, (rows, *tensor.array.shape[1:])))
    if "names.ends" in file.tensors:
        file.tensors["names.text"] = Tensor("U8", np.full(3 * rows, 97, np.uint8))
        file.tensors["names.ends"] = Tensor("I64", np.append(np.arange(rows - 1), 3 * rows))


_Change = Callable[[Random, Stored, Sequence[bytes]], None]
_CHANGES: tuple[_Change, ...] = (
    *(_type, _type, _shape, _shape, _shape, _number, _number, _number, _number),
    *(_drop, _rename, _double, _borrow, _borrow, _grow),
)
