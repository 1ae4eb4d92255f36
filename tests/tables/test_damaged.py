"""read: files that are damaged, or made to do damage, are refused in one sentence that names them."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from horoball.datasets import mnist
from horoball.tables import read
from horoball.tables.limits import parsing
from tests.late import late

anndata = late("anndata")
h5py = late("h5py")

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
CSR = scipy.sparse.csr_matrix(X)
MOST = 600  # characters that an error may have


def npy(shape: str, kind: str = "<f8", body: bytes = bytes(48)) -> bytes:
    """An array with a header of ours."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


def saved(array: object) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def sparse(**changes: object) -> bytes:
    """A saved scipy matrix with some of its arrays changed, or dropped where they are None."""
    parts = {
        "indices": CSR.indices,
        "indptr": CSR.indptr,
        "format": "csr",
        "shape": CSR.shape,
        "data": CSR.data,
    } | changes
    return npz(**{name: saved(np.asarray(part)) for name, part in parts.items() if part is not None})


def parquet(columns: dict[str, object]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


DAMAGED = {
    "bytes in a name": ("x.csv", b"a,\xff\xfe\n1,2\n", "text that is not UTF-8"),
    "beyond float32": ("x.csv", b"a,b\n1,1e300\n", r"x.csv has 1e\+300 in row 0, column 'b'"),
    "a long name": ("x.csv", b"a," + b"b" * 5000 + b"\n1,inf\n", "infinite value in row 0, column 'bbb"),
    "a short header": ("x.npy", npy("(2, 3)")[:40], "its header cannot be read"),
    "an open header": ("x.npy", npy("(2, "), "its header cannot be read"),
    "a long header": ("x.npy", npy("9" * 6000), "its header cannot be read"),
    "terabytes": (
        "x.npy",
        npy("(2, 1099511627776)"),
        r"tells of shape \(2, 1099511627776\)",
    ),
    "no rows of many columns": ("x.npy", npy("(0, 1099511627776)"), "tells of shape"),
    "beyond 64 bits": ("x.npy", npy("(18446744073709551616, 0)"), "tells of shape"),
    "a negative size": ("x.npy", npy("(-1, 3)"), "tells of shape"),
    "an odd escape": ("x.npy", npy(r"(2, 3), '\:': 1"), "its header cannot be read"),
    "NaN that signals": ("x.npy", npy("(1, 1)", "<f8", b"\x01" + bytes(5) + b"\xf0\x7f"), "missing or infinite"),
    "elements of no bytes": ("x.npy", npy("(2, 3)", "|V0"), "does not hold"),
    "float64 beyond float32": ("x.npy", saved(np.array([[1e300]])), r"x.npy has 1e\+300 in row 0, column 'x0'"),
    "a part that is lacking": ("x.npz", sparse(indices=None), "it lacks .*indices"),
    "a column that is not there": ("x.npz", sparse(indices=np.array([0, 2, 7])), "indices must be < 3"),
    "a column before the first": ("x.npz", sparse(indices=np.array([0, -2, 1])), "indices must be >= 0"),
    "too many columns": ("x.npz", sparse(shape=(2, 2**40)), "at most 16,777,216 columns"),
    "a shape that is none": ("x.npz", sparse(shape=7), "is not a readable"),
    "no format": ("x.npz", sparse(format="abc"), "is not a readable"),
    "an array that is cut": ("x.npz", npz(x=saved(X)[:-4]), "does not hold|expected"),
    "float64 in Parquet": ("x.parquet", parquet({"a": [1e300]}), "number beyond 3.4e38"),
    "names of several lines": ("x.parquet", parquet({"a\nb": ["u"], "b": [1.0]}), r"Column 'a\\nb'"),
    "no cells": ("x.h5ad", b"\x89HDF\r\n\x1a\n" + bytes(500), "is not a readable .h5ad file"),
}


def refused(path: Path, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        list(read(path, kind="numbers").blocks())
    assert type(caught.value) is ValueError
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < MOST


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    name, data, says = DAMAGED[case]
    (tmp_path / name).write_bytes(data)
    refused(tmp_path / name, says)


def test_the_sound_files_that_were_damaged_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(sparse())
    (tmp_path / "x.npy").write_bytes(npy("(2, 3)", body=X.tobytes()))
    for name in ("x.npz", "x.npy"):
        np.testing.assert_array_equal(next(read(tmp_path / name, kind="numbers").blocks()), X)


@pytest.mark.parametrize("kept", [4, 100, 400])
def test_a_parquet_file_of_changed_bytes_is_refused(kept: int, tmp_path: Path) -> None:
    data = parquet({"a": np.arange(50.0)})
    (tmp_path / "x.parquet").write_bytes(data[:kept] + b"\xff" * 40 + data[kept + 40 :])
    refused(tmp_path / "x.parquet", "x.parquet")


def test_a_row_group_of_less_than_no_rows_is_refused(tmp_path: Path) -> None:
    """Numbers of a footer are varints: 2n for n, and 2n − 1 for −n."""
    data, said = parquet({"a": np.arange(50.0)}), []
    for place in (place for place in range(len(data) // 2, len(data)) if data[place] == 100):
        (tmp_path / "x.parquet").write_bytes(data[:place] + b"\x63" + data[place + 1 :])
        try:  # some of these bytes are of other numbers
            list(read(tmp_path / "x.parquet", kind="numbers").blocks())
        except ValueError as error:
            said.append(str(error))
    assert all("x.parquet" in message for message in said)
    assert any("less than no rows" in message for message in said)


def put(path: str, value: object) -> Callable[[h5py.File], None]:
    """Another dataset in the place of one."""

    def change(file: h5py.File) -> None:
        attributes = dict(file[path].attrs)
        del file[path]
        file[path] = value
        file[path].attrs.update(attributes)

    return change


CELLS: dict[str, tuple[str, Callable[[h5py.File], None], str]] = {
    "a gene that is not there": ("csr", put("X/indices", np.array([0, 2, 7])), "indices must be < 3"),
    "a cell that is not there": ("csc", put("X/indices", np.array([0, 1, 9])), "indices must be < 2"),
    "pointers that go back": ("csr", put("X/indptr", np.array([0, 3, 2])), "row pointers of its matrix"),
    "pointers beyond the numbers": (
        "csr",
        put("X/indptr", np.array([0, 2, 900])),
        "other numbers than its row pointers",
    ),
    "pointers that are fractions": ("csr", put("X/indptr", np.array([0.0, 2.0, 3.0])), "no whole numbers"),
    "pointers of columns that are text": (
        "csc",
        put("X/indptr", np.array([b"a", b"b", b"c", b"d"])),
        "no whole numbers",
    ),
    "a matrix of another size": ("dense", put("X", np.ones((2, 5), np.float32)), "names 2 cells and 3 genes"),
    "a matrix of three axes": ("dense", put("X", np.ones((2, 3, 1), np.float32)), "x.h5ad"),
    "one number": ("dense", put("X", 7.0), "x.h5ad"),
    "no obs": ("dense", lambda file: file.pop("obs"), "it lacks"),
    "an unknown encoding": ("csr", lambda file: file["obs"].attrs.update({"encoding-type": "x"}), "No read method"),
}


@pytest.mark.filterwarnings("ignore::anndata.OldFormatWarning")
@pytest.mark.parametrize("case", CELLS)
def test_damaged_cells_are_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    kind, change, says = CELLS[case]
    make = {"csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix, "dense": np.asarray}[kind]
    path = tmp_path / "x.h5ad"
    anndata.AnnData(make(X.astype(np.float32))).write_h5ad(path)
    np.testing.assert_array_equal(next(read(path, kind="numbers").blocks()), X)
    with h5py.File(path, "r+") as file:
        change(file)
    refused(path, says)


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip", gzip.compress(bytes(99))[:-9], gzip.compress(bytes(99))[:-8] + bytes(8)],
    ids=["empty", "plain", "cut", "changed"],  # gzip writes the time into its head
)
def test_images_that_are_cut_or_changed_are_refused_by_name(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(data)
    monkeypatch.setenv("HOROBALL_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte\.gz is not"):
        mnist(train=False)


def test_what_no_machine_has_the_memory_for_is_said_to_be_that() -> None:
    with (
        pytest.raises(ValueError, match=r"x\.mtx asks for more memory than there is: Unable to allocate"),
        parsing("x.mtx"),
    ):
        np.empty(2**56)


@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError, ConnectionError, ImportError, KeyboardInterrupt])
def test_what_is_not_the_fault_of_a_file_passes(error: type[BaseException]) -> None:
    with pytest.raises(error), parsing("x.csv"):
        raise error
