"""Arrays and sparse matrices of NumPy files, which may be anybody's: nothing is unpickled, no size is believed."""

from __future__ import annotations

import math
import warnings
import zipfile
from typing import IO, Any

import numpy as np

from horoball.data.files.limits import check_held, check_nodes

__all__ = ["load_arrays", "sound_sparse"]


def load_arrays(file: IO[bytes]) -> np.ndarray | dict[str, np.ndarray] | Any:
    """The array of a .npy file, the arrays of a .npz file, or the scipy sparse matrix that it holds.

    Args:
        file: The file, which can be sought.

    Raises:
        ValueError: The file is none, holds pickled objects, or says that it holds more than it does.

    Example:
        >>> import io
        >>> out = io.BytesIO()
        >>> np.save(out, np.eye(2))
        >>> load_arrays(out).shape
        (2, 2)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers, by old writers and others
        return _loaded(file)


def _loaded(file: IO[bytes]) -> np.ndarray | dict[str, np.ndarray] | Any:
    file.seek(0)
    start, size = file.read(6), file.seek(0, 2)
    file.seek(0)
    if start.startswith(b"\x93NUMPY"):
        _check_header(file, size)
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)
    if not start.startswith(b"PK"):  # numpy would take it for a pickle, and advise to trust it
        raise ValueError("it does not begin as one")
    with zipfile.ZipFile(file) as archive:
        members = {info.filename: info for info in archive.infolist()}
        held = sum(info.file_size for info in archive.infolist())
        check_held(held, size, "its list of arrays")
        for info in members.values():
            with archive.open(info) as member:
                _check_header(member, info.file_size)
        if "format.npy" not in members:
            return {name.removesuffix(".npy"): _array(archive, info) for name, info in members.items()}
    import scipy.sparse

    file.seek(0)
    matrix = sound_sparse(scipy.sparse.load_npz(file))
    check_nodes(matrix.shape[0], held)
    return matrix


def sound_sparse(matrix: Any) -> Any:
    """The same matrix, if its indices lie within it: scipy's loops do not look, and write where they point to.

    Example:
        >>> import scipy.sparse
        >>> broken = scipy.sparse.csr_matrix((np.ones(1), [7], [0, 1]), shape=(1, 3))
        >>> sound_sparse(broken)
        Traceback (most recent call last):
        ...
        ValueError: indices must be < 3
    """
    if hasattr(matrix, "check_format"):  # of rows, columns or blocks; others are checked when they are made
        matrix.check_format(full_check=True)
    return matrix


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _check_header(file: IO[bytes], size: int) -> None:
    """Refuse an array whose header asks for more than a file of that size holds."""
    version = np.lib.format.read_magic(file)
    # The third version differs from the second in the encoding of the names of fields, which numbers have none of.
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, dtype = read(file)
    except Exception as error:  # it is parsed as a literal of Python, by which anything may be raised
        raise ValueError("its header cannot be read") from error
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which are not read; save a plain array of numbers")
    wanted = math.prod(shape) * dtype.itemsize
    if any(not 0 <= length <= size for length in shape) or wanted > size or not dtype.itemsize:
        raise ValueError(f"its header tells of shape {str(shape)[:80]} of {dtype.str[:20]}, which it does not hold")
