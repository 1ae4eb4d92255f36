"""Names of points or nodes as tensors that a file holds."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["names_from_tensors", "names_to_tensors"]


def names_to_tensors(names: np.ndarray | None) -> dict[str, Tensor]:
    """Names as tensors: numbers, or the bytes of UTF-8 and where each name ends.

    Example:
        >>> names_to_tensors(np.array(["ab", "c"]))["names.ends"]
        tensor([2, 3])
    """
    if names is None:
        return {}
    if names.dtype.kind == "i":
        return {"names.numbers": torch.from_numpy(names)}
    encoded = [name.encode("utf-8", "surrogatepass") for name in names.tolist()]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    text = np.frombuffer(b"".join(encoded), np.uint8).copy()
    return {"names.text": torch.from_numpy(text), "names.ends": torch.from_numpy(ends)}


def names_from_tensors(tensors: dict[str, Tensor], n: int) -> np.ndarray | None:
    """The names that `names_to_tensors` wrote; refuses what it cannot have written.

    Text comes as Python strings in an array of objects, so that it takes about as much memory as in the file. In one of
    fixed width a single long name would make all others as long.

    Example:
        >>> names_from_tensors(names_to_tensors(np.array(["ab", "c"])), 2)
        array(['ab', 'c'], dtype=object)
    """
    if "names.numbers" in tensors:
        numbers = tensors["names.numbers"]
        if numbers.dtype != torch.int64 or numbers.shape != (n,):
            raise ValueError(f"it does not have a number for each of {n} points.")
        return numbers.numpy()
    if "names.text" not in tensors:
        return None
    text, ends = tensors["names.text"], tensors["names.ends"]
    if text.dtype != torch.uint8 or ends.dtype != torch.int64 or text.dim() != 1 or ends.shape != (n,):
        raise ValueError(f"it does not have a name for each of {n} points.")
    edges = np.concatenate(([0], ends.numpy()))
    if (np.diff(edges) < 0).any() or edges[-1] != len(text):
        raise ValueError("its names do not follow each other.")
    raw = text.numpy().tobytes()
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return np.fromiter((raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairs), object, n)
