"""MNIST, from `HOROBALL_DATA` or downloaded with a checksum."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.data.files.parse_errors import parsing

__all__ = ["Images", "mnist"]

_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FILES = {  # MD5 of the file as it is published, and of its content
    "train-images-idx3-ubyte.gz": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte.gz": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte.gz": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte.gz": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
}


class Images(NamedTuple):
    """Gray values in [0, 1], one image a row, and their labels.

    Example:
        >>> Images(torch.zeros(1, 784), torch.zeros(1)).x.shape
        torch.Size([1, 784])
    """

    x: Tensor
    labels: Tensor


def mnist(train: bool = True) -> Images:
    """The MNIST digits: 60,000 images to train on, 10,000 to test, 784 gray values each.

    The files are looked for in the folder `mnist` of `HOROBALL_DATA`; without that variable they are downloaded to the
    user's cache, and their checksums compared.

    Args:
        train: Whether to give the training images or the test images.

    Example:
        >>> mnist(train=False).x.shape  # doctest: +SKIP
        torch.Size([10000, 784])
    """
    part = "train" if train else "t10k"
    pixels = _idx(f"{part}-images-idx3-ubyte.gz")
    labels = _idx(f"{part}-labels-idx1-ubyte.gz")
    x = torch.from_numpy(pixels.reshape(len(pixels), -1).astype(np.float32) / 255)
    return Images(x, torch.from_numpy(labels.astype(np.int64)))


def _idx(name: str) -> np.ndarray:
    """The array of an IDX file: two zero bytes, a type, the number of axes, their sizes, the numbers."""
    path = _file(name)
    with parsing(path), gzip.open(path) as stream:
        data = stream.read()
    if hashlib.md5(data, usedforsecurity=False).hexdigest() != _FILES[name][1]:
        raise ValueError(f"{name} is not the MNIST file of that name. Remove it, and it will be downloaded again.")
    axes = data[3]
    shape = np.frombuffer(data, ">i4", axes, 4)
    return np.frombuffer(data, np.uint8, int(shape.prod()), 4 + 4 * axes).reshape(shape)


def _file(name: str) -> Path:
    folder = os.environ.get("HOROBALL_DATA")
    if folder:
        path = Path(folder) / "mnist" / name
        if path.exists():
            return path
    import pooch

    return Path(pooch.retrieve(_URL + name, f"md5:{_FILES[name][0]}", name, pooch.os_cache("horoball") / "mnist"))
