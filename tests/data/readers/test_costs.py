"""Small files that ask for much: refused at once, for the price of what they hold."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import anndata
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from horoball.data import read, read_graph
from horoball.data.readers.mixed import read_columns
from horoball.data.tables.table import Table
from tests.tracing import Traced, tracing_apart

SMALL = 200_000  # bytes of any of these files
MEMORY = 300 << 20  # bytes that reading one may take
BANNER = b"%%MatrixMarket matrix "
CELLS = 40
LINES = b"1 2\n" * (1 << 18)


def npy(shape: str, kind: str = "<f8") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(48)


def overlapping() -> bytes:
    """An archive whose members share the same compressed bytes, so that each costs a few bytes of a list."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        array = io.BytesIO()
        np.save(array, np.zeros((1, 1 << 20)))
        archive.writestr("a.npy", array.getvalue())
        entry = archive.infolist()[0]
        for number in range(1000):
            again = zipfile.ZipInfo(f"a{number}.npy")
            for name in ("CRC", "compress_size", "file_size", "header_offset", "compress_type"):
                setattr(again, name, getattr(entry, name))
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
    return out.getvalue()


def sparse(shape: tuple[int, int]) -> bytes:
    out = io.BytesIO()
    scipy.sparse.save_npz(out, scipy.sparse.coo_matrix(([1.0], ([0], [1])), shape=shape))
    return out.getvalue()


def parquet(rows: int) -> bytes:
    """A file whose footer tells of many rows; numbers of a footer are varints of 2n."""
    out = io.BytesIO()
    pq.write_table(pa.table({"a": np.arange(50.0), "b": np.arange(50.0)}), out, write_statistics=False)
    data = out.getvalue()

    def varint(n: int) -> bytes:
        return bytes([n % 128 + 128]) + varint(n // 128) if n > 127 else bytes([n])

    length = struct.unpack("<I", data[-8:-4])[0]
    footer = data[-8 - length : -8].replace(varint(100), varint(2 * rows))
    return data[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1"


def cells(change: Callable[[h5py.File], None]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        anndata.AnnData(np.eye(CELLS, dtype=np.float32)).write_h5ad(path)
        with h5py.File(path, "r+") as file:
            change(file)

    return write


def nested(where: str, depth: int) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        group = file[where]
        for _ in range(depth):
            group = group.create_group("a", track_order=None)

    return change


def doubling(file: h5py.File) -> None:
    """A column of groups of which each holds the next one twice: 2⁴⁰ paths."""
    last = file["obs"].create_group("c")
    file["obs"].attrs["column-order"] = np.array(["c"], object)
    for _ in range(40):
        last.attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})
        last = last.create_group("a")
        last.parent["b"] = last
    last.attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})


def unwritten(name: str, shape: tuple[int, ...]) -> Callable[[h5py.File], None]:
    """A dataset of which no number is stored."""

    def change(file: h5py.File) -> None:
        kept = dict(file[name].attrs)
        del file[name]
        file.create_dataset(name, shape, np.float32, chunks=tuple(min(n, 1000) for n in shape)).attrs.update(kept)

    return change


def heap(number: int, size: int) -> Callable[[Path], None]:
    """Text in a heap whose first object, or what it has free if the number is 0, has another size."""

    def write(path: Path) -> None:
        anndata.AnnData(np.eye(CELLS, dtype=np.float32)).write_h5ad(path)
        data = bytearray(path.read_bytes())
        struct.pack_into("<H6xQ", data, data.index(b"GCOL") + 16, number, size)
        path.write_bytes(data)

    return write


def rows(path: Path) -> object:
    table = read(path)
    assert isinstance(table, Table)
    return sum(len(block) for block in table.blocks())


COSTLY: dict[str, tuple[str, bytes | Callable[[Path], None], Callable[[Path], object], str]] = {
    "matrix market, many entries": (
        "x.mtx",
        BANNER + b"coordinate real general\n1000 1000 500000000\n",
        read_graph,
        "500,000,000 entries",
    ),
    "matrix market, many nodes": (
        "x.mtx",
        BANNER + b"coordinate pattern general\n1000000000 1000000000 1\n1 2\n",
        read_graph,
        "nearly all of them empty",
    ),
    "matrix market, dense": ("x.mtx", BANNER + b"array real general\n30000 30000\n1\n", read_graph, "entries"),
    "matrix market, half": ("x.mtx", BANNER + b"array real symmetric\n30000 30000\n1\n", read_graph, "entries"),
    "npy": ("x.npy", npy("(1000000, 1000)"), rows, "tells of shape"),
    "npy of pairs": ("x.npy", npy("(1000000000, 2)", "<i8"), read_graph, "tells of shape"),
    "npz": ("x.npz", overlapping(), rows, "does not hold"),
    "npz of pairs": ("x.npz", overlapping(), read_graph, "does not hold"),
    "sparse rows": ("x.npz", sparse((10**9, 3)), rows, "nearly all of them empty"),
    "sparse nodes": ("x.npz", sparse((10**9, 10**9)), read_graph, "nearly all of them empty"),
    "parquet, 10**12 rows": ("x.parquet", parquet(10**12), rows, r"1,000,000,000,000 rows|damaged"),
    "parquet, 2**62 rows": ("x.parquet", parquet(2**62), rows, r"rows|damaged"),
    "parquet, edges": ("x.parquet", parquet(10**12), read_graph, r"1,000,000,000,000 rows|damaged"),
    "csv, many names": ("x.csv", b"," * (1 << 17) + b"\n", rows, "same name"),
    "csv, one long line": ("x.csv", b"a" * (1 << 17), rows, "not a table|no rows"),
    "gzip": ("x.txt.gz", gzip.compress(bytes(1 << 26)), read_graph, "does not hold|zero byte"),
    "bzip2": ("x.txt.bz2", bz2.compress(LINES) * 100, read_graph, "does not hold"),
    "xz": ("x.txt.xz", lzma.compress(LINES, preset=0) * 100, read_graph, "does not hold"),
    "cells, nested groups": ("x.h5ad", cells(nested("uns", 150)), rows, "more than 32 deep"),
    "cells, a nested column": ("x.h5ad", cells(nested("obs", 20)), rows, "groups within groups"),
    "cells, doubling groups": ("x.h5ad", cells(doubling), rows, "more than 32 deep|groups within groups"),
    "cells, no numbers": ("x.h5ad", cells(unwritten("X", (CELLS, 10**8))), rows, "does not hold"),
    "cells, text on the spot": ("x.h5ad", heap(0, 0), rows, "a heap of its text is damaged"),
    "cells, text of no length": ("x.h5ad", heap(0, 8), rows, "a heap of its text is damaged"),
    "cells, text that goes back": ("x.h5ad", heap(1, 2**64 - 16), rows, "a heap of its text is damaged"),
    "cells, text beyond its heap": ("x.h5ad", heap(1, 4096), rows, "a heap of its text is damaged"),
    "cells, no names": ("x.h5ad", cells(unwritten("obs/_index", (10**9,))), rows, "does not hold"),
}


def names(path: Path) -> list[str]:
    return list(map(str, read_graph(path).names))


@pytest.fixture(scope="module")
def traced() -> Iterator[Callable[..., Traced]]:
    with tracing_apart() as traced:
        yield traced


@pytest.mark.parametrize("case", COSTLY)
def test_a_small_file_that_asks_for_much_is_refused_cheaply(
    case: str, tmp_path: Path, traced: Callable[..., Traced]
) -> None:
    name, content, take, says = COSTLY[case]
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)
    assert path.stat().st_size < SMALL
    error, peak = traced(take, path)
    assert isinstance(error, ValueError)
    assert re.search(says, str(error))
    assert peak < MEMORY


def test_nodes_with_large_numbers_cost_as_much_as_others(tmp_path: Path, traced: Callable[..., Traced]) -> None:
    (tmp_path / "x.txt").write_text("0 1000000000\n1000000000 4000000000000\n")
    found, peak = traced(names, tmp_path / "x.txt")
    assert found == ["0", "1000000000", "4000000000000"]
    assert peak < 10 << 20


def test_files_that_compress_well_are_still_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", np.zeros((1 << 20, 16), np.float32))
    assert rows(tmp_path / "x.npz") == 1 << 20
    pq.write_table(pa.table({"a": np.zeros(1 << 20)}), tmp_path / "x.parquet")
    assert rows(tmp_path / "x.parquet") == 1 << 20
    with gzip.open(tmp_path / "x.txt.gz", "wb") as file:
        file.write(b"1 2\n" * (1 << 16))
    assert len(read_graph(tmp_path / "x.txt.gz").edges) == 1


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_opening_a_wide_table_takes_no_time_for_pairs_of_columns(ending: str, tmp_path: Path) -> None:
    """Looking up 6,000 columns by listing them each time took 20 s and more; see benchmarks/columns.py for figures."""
    path = tmp_path / f"x{ending}"
    table = pa.table([pa.array([0.5, 1.5])] * 6000, names=[f"c{i}" for i in range(6000)])
    if ending == ".parquet":
        pq.write_table(table, path)
    else:
        table.to_pandas().to_csv(path, index=False)
    start = time.process_time()
    assert read(path).features == 6000
    assert time.process_time() - start < 4


@pytest.mark.parametrize("ending", [".csv", ".feather"])
def test_the_time_to_read_is_proportional_to_the_columns(ending: str, tmp_path: Path) -> None:
    """Seconds of the process, not of the clock, which others use too. It was minutes, by the square of the columns."""
    names = [f"gene {i}" for i in range(20_000)]
    x = np.random.default_rng(0).normal(size=(50, len(names))).round(3)
    table = pa.table(list(x.T), names=names)
    path = tmp_path / f"wide{ending}"
    pacsv.write_csv(table, path) if ending == ".csv" else feather.write_feather(table, path)
    began = time.process_time()
    found = read_columns(path)
    assert (found.rows, found.features) == x.shape
    assert read(path, columns=names[::-1]).columns == names[::-1]
    assert time.process_time() - began < 10
