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
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from horoball.graphs import read_graph
from horoball.tables import read
from horoball.tables.table import Table
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


def cells(change: Callable[[Any], None]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import anndata
        import h5py

        anndata.AnnData(np.eye(CELLS, dtype=np.float32)).write_h5ad(path)
        with h5py.File(path, "r+") as file:
            change(file)

    return write


def nested(where: str, depth: int) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        group = file[where]
        for _ in range(depth):
            group = group.create_group("a", track_order=None)

    return change


def doubling(file: Any) -> None:
    """A column of groups of which each holds the next one twice: 2⁴⁰ paths."""
    last = file["obs"].create_group("c")
    file["obs"].attrs["column-order"] = np.array(["c"], object)
    for _ in range(40):
        last.attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})
        last = last.create_group("a")
        last.parent["b"] = last
    last.attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})


def unwritten(name: str, shape: tuple[int, ...]) -> Callable[[Any], None]:
    """A dataset of which no number is stored."""

    def change(file: Any) -> None:
        kept = dict(file[name].attrs)
        del file[name]
        file.create_dataset(name, shape, np.float32, chunks=tuple(min(n, 1000) for n in shape)).attrs.update(kept)

    return change


def heap(number: int, size: int) -> Callable[[Path], None]:
    """Text in a heap whose first object, or what it has free if the number is 0, has another size."""

    def write(path: Path) -> None:
        import anndata

        anndata.AnnData(np.eye(CELLS, dtype=np.float32)).write_h5ad(path)
        data = bytearray(path.read_bytes())
        struct.pack_into("<H6xQ", data, data.index(b"GCOL") + 16, number, size)
        path.write_bytes(data)

    return write


def shared_text(path: Path) -> None:
    """A column of obs in which every cell refers to the same text of a heap."""
    import anndata
    import h5py

    anndata.AnnData(np.eye(1000, 2, dtype=np.float32)).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        kind = h5py.string_dtype()
        texts = file["obs"].create_dataset("t", data=["y" * 100_000], dtype=kind, maxshape=(None,), chunks=(1000,))
        texts.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
        texts.resize((1000,))
        file["obs"].attrs["column-order"] = np.array(["t"], object)
    with h5py.File(path) as file:
        place = file["obs/t"].id.get_chunk_info(0).byte_offset
    data = bytearray(path.read_bytes())
    data[place : place + 16 * 1000] = data[place : place + 16] * 1000
    path.write_bytes(data)


def shared_attribute(path: Path) -> None:
    """An attribute whose texts are all the same one of a heap."""
    import anndata
    import h5py

    anndata.AnnData(np.eye(10, 2, dtype=np.float32)).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        names = np.array(["y" * 70_000, *["z"] * 2000], object)
        file["obs"].attrs.create("column-order", names, dtype=h5py.string_dtype())


def zipped(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


def written(save: Callable[..., object], table: pa.Table, **options: object) -> bytes:
    out = io.BytesIO()
    save(table, out, **options)
    return out.getvalue()


def zeros() -> pa.Table:
    """256 MiB, one array 32 times."""
    return pa.table({f"c{i}": pa.array(np.zeros(1 << 20)) for i in range(32)})


def long() -> pa.DictionaryArray:
    """500 MB as text."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(5000, np.int32)), pa.array(["x" * 100_000]))


def texts() -> pa.Table:
    return pa.table({"a": long(), "b": np.arange(5000.0)})


def one_page() -> bytes:
    """A page of half a gigabyte in a few kilobytes."""
    values = pa.table(
        {"a": pa.FixedSizeBinaryArray.from_buffers(pa.binary(1 << 19), 1000, [None, pa.py_buffer(bytes(1000 << 19))])}
    )
    return written(pq.write_table, values, use_dictionary=False, compression="zstd", data_page_size=1 << 30)


def endless_list() -> bytes:
    """A row with a list of 2²⁵ numbers, all the same."""
    values = pa.array(np.zeros(1 << 25))
    lists = pa.LargeListArray.from_arrays(pa.array([0, 1 << 25]), values)
    return written(pq.write_table, pa.table({"a": lists}), store_schema=False)


def sheet(rows_: str, strings: str = "", dimension: str = "A1:B2") -> bytes:
    """A spreadsheet by its XML."""
    from openpyxl import Workbook

    book, out = Workbook(), io.BytesIO()
    book.active.append(["a", "b"])
    book.save(out)
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    part = "xl/sharedStrings.xml"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    new = io.BytesIO()
    with zipfile.ZipFile(out) as old, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("sheet1.xml"):
                size = f'<dimension ref="{dimension}"/>'
                content = f"<worksheet {main}>{size}<sheetData>{rows_}</sheetData></worksheet>".encode()
            if name == "[Content_Types].xml" and part not in old.namelist():
                entry = f'<Override PartName="/{part}" ContentType="{kind}"/></Types>'
                content = content.replace(b"</Types>", entry.encode())
            if name != part:
                archive.writestr(name, content)
        archive.writestr(part, f"<sst {main}>{strings}</sst>")
    return new.getvalue()


HEADER = '<row r="1"><c r="A1" t="inlineStr"><is><t>a</t></is></c><c r="B1" t="inlineStr"><is><t>b</t></is></c></row>'
SHARED = '<row><c t="s"><v>0</v></c><c><v>1</v></c></row>'


def columns(path: Path) -> object:
    return read(path).rows


def labels(path: Path) -> object:
    return read(path, label="a").read_labels()


def rows(path: Path) -> object:
    table = read(path, kind="numbers")
    assert isinstance(table, Table)
    return sum(len(block) for block in table.blocks())


def held(make: Callable[[], bytes]) -> Callable[[Path], object]:
    """A file of these bytes, which are made when a test asks for it."""
    return lambda path: path.write_bytes(make())


COSTLY: dict[str, tuple[str, Callable[[Path], object], Callable[[Path], object], str]] = {
    "matrix market, many entries": (
        "x.mtx",
        held(lambda: BANNER + b"coordinate real general\n1000 1000 500000000\n"),
        read_graph,
        "500,000,000 entries",
    ),
    "matrix market, many nodes": (
        "x.mtx",
        held(lambda: BANNER + b"coordinate pattern general\n1000000000 1000000000 1\n1 2\n"),
        read_graph,
        "nearly all of them empty",
    ),
    "matrix market, dense": (
        "x.mtx",
        held(lambda: BANNER + b"array real general\n30000 30000\n1\n"),
        read_graph,
        "entries",
    ),
    "matrix market, half": (
        "x.mtx",
        held(lambda: BANNER + b"array real symmetric\n30000 30000\n1\n"),
        read_graph,
        "entries",
    ),
    "npy": ("x.npy", held(lambda: npy("(1000000, 1000)")), rows, "tells of shape"),
    "npy of pairs": ("x.npy", held(lambda: npy("(1000000000, 2)", "<i8")), read_graph, "tells of shape"),
    "npz": ("x.npz", held(overlapping), rows, "does not hold"),
    "npz of pairs": ("x.npz", held(overlapping), read_graph, "does not hold"),
    "sparse rows": ("x.npz", held(lambda: sparse((10**9, 3))), rows, "nearly all of them empty"),
    "sparse nodes": ("x.npz", held(lambda: sparse((10**9, 10**9))), read_graph, "nearly all of them empty"),
    "parquet, 10**12 rows": ("x.parquet", held(lambda: parquet(10**12)), rows, r"1,000,000,000,000 rows|damaged"),
    "parquet, 2**62 rows": ("x.parquet", held(lambda: parquet(2**62)), rows, r"rows|damaged"),
    "parquet, edges": ("x.parquet", held(lambda: parquet(10**12)), read_graph, r"1,000,000,000,000 rows|damaged"),
    "csv, many names": ("x.csv", held(lambda: b"," * (1 << 17) + b"\n"), rows, "same name"),
    "csv, one long line": ("x.csv", held(lambda: b"a" * (1 << 17)), rows, "not a table|no rows"),
    "gzip": ("x.txt.gz", held(lambda: gzip.compress(bytes(1 << 26))), read_graph, "does not hold|zero byte"),
    "bzip2": ("x.txt.bz2", held(lambda: bz2.compress(LINES) * 100), read_graph, "does not hold"),
    "xz": ("x.txt.xz", held(lambda: lzma.compress(LINES, preset=0) * 100), read_graph, "does not hold"),
    "cells, nested groups": ("x.h5ad", cells(nested("uns", 150)), rows, "more than 32 deep"),
    "cells, a nested column": ("x.h5ad", cells(nested("obs", 20)), rows, "groups within groups"),
    "cells, doubling groups": ("x.h5ad", cells(doubling), rows, "more than 32 deep|groups within groups"),
    "cells, no numbers": ("x.h5ad", cells(unwritten("X", (CELLS, 10**8))), rows, "does not hold"),
    "cells, text on the spot": ("x.h5ad", heap(0, 0), rows, "a heap of its text is damaged"),
    "cells, text of no length": ("x.h5ad", heap(0, 8), rows, "a heap of its text is damaged"),
    "cells, text that goes back": ("x.h5ad", heap(1, 2**64 - 16), rows, "a heap of its text is damaged"),
    "cells, text beyond its heap": ("x.h5ad", heap(1, 4096), rows, "a heap of its text is damaged"),
    "parquet in zip": (
        "x.zip",
        held(lambda: zipped("x.parquet", written(pq.write_table, zeros()))),
        columns,
        "so far it took",
    ),
    "parquet, one text as labels": (
        "x.parquet",
        held(lambda: written(pq.write_table, texts())),
        labels,
        "so far it took",
    ),
    "parquet, one text without types": (
        "x.parquet",
        held(lambda: written(pq.write_table, texts(), store_schema=False)),
        labels,
        "so far it took",
    ),
    "parquet, one text as ends": (
        "x.parquet",
        held(lambda: written(pq.write_table, pa.table({"a": long(), "b": long()}))),
        read_graph,
        "so far",
    ),
    "parquet, one large page": ("x.parquet", held(one_page), columns, "its pages tell of 52"),
    "parquet, an endless list": (
        "x.parquet",
        held(endless_list),
        columns,
        "its pages tell of 268,435,456 bytes",
    ),
    "feather": (
        "x.feather",
        held(lambda: written(feather.write_feather, zeros(), compression="zstd", chunksize=1 << 20)),
        columns,
        "268,435,456",
    ),
    "feather, one text": (
        "x.feather",
        held(lambda: written(feather.write_feather, texts(), compression="zstd")),
        labels,
        "so far it took",
    ),
    "feather, views of one text": (
        "x.feather",
        held(
            lambda: written(
                feather.write_feather,
                pa.table({"a": long().cast(pa.string()).slice(0, 2000).cast(pa.string_view())}),
                compression="zstd",
            )
        ),
        columns,
        "tells of|so far it took",
    ),
    "json, nested lists": (
        "x.jsonl",
        held(lambda: b'{"a": ' + b"[" * 90_000 + b"]" * 90_000 + b"}\n"),
        columns,
        "32 deep",
    ),
    "json, nested objects": ("x.jsonl", held(lambda: b'{"a":' * 20_000 + b"1" + b"}" * 20_000), columns, "32 deep"),
    "json, nested over lines": (
        "x.jsonl",
        held(lambda: b'{"a":[ "]}" ,{}\n' * 10_000),
        columns,
        "line 1 is not one whole object",
    ),
    "json, a key a line": (
        "x.jsonl",
        held(lambda: b"".join(b'{"k%d":1}\n' % i for i in range(15_000))),
        columns,
        "15,000 different keys",
    ),
    "xlsx, one text": (
        "x.xlsx",
        held(lambda: sheet(HEADER + SHARED * 20_000, f"<si><t>{'x' * 30_000}</t></si>")),
        columns,
        "so far it took",
    ),
    "xlsx, a distant row": (
        "x.xlsx",
        held(lambda: sheet('<row r="99999999999"><c><v>1</v></c></row>')),
        columns,
        "beyond 1,048,576",
    ),
    "xlsx, a distant second row": (
        "x.xlsx",
        held(lambda: sheet(HEADER + '<row r="99999999999"><c><v>1</v></c></row>')),
        columns,
        "beyond 1,048,576",
    ),
    "xlsx, wide rows": (
        "x.xlsx",
        held(lambda: sheet(HEADER + '<row><c r="XFD1"><v>1</v></c></row>' * 20_000)),
        columns,
        "right of its last name",
    ),
    "cells, one text": ("x.h5ad", shared_text, rows, "so far it took"),
    "cells, one text in a list of names": ("x.h5ad", shared_attribute, rows, "its attribute column-order"),
    "csv, one long label": (
        "x.csv",
        held(lambda: b"a,b\n" + b"x" * 50_000 + b",1\n" + b"y,2\n" * 9000),
        labels,
        "50,000 characters",
    ),
    "edges, one long id": (
        "x.txt",
        held(lambda: b"".join(b"a%d b\n" % i for i in range(9000)) + b"c" * 50_000 + b" d\n"),
        read_graph,
        "50,000 ch",
    ),
    "cells, no names": ("x.h5ad", cells(unwritten("obs/_index", (10**9,))), rows, "does not hold"),
}


def names(path: Path) -> list[str]:
    return list(map(str, read_graph(path).names))


@pytest.fixture(scope="module")
def traced() -> Iterator[Callable[..., Traced]]:
    with tracing_apart("anndata", "openpyxl", "pyarrow.dataset") as traced:
        yield traced


@pytest.mark.parametrize("case", COSTLY)
def test_a_small_file_that_asks_for_much_is_refused_cheaply(
    case: str, tmp_path: Path, traced: Callable[..., Traced]
) -> None:
    name, write, take, says = COSTLY[case]
    path = tmp_path / name
    write(path)
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
    assert read(path, kind="numbers").features == 6000
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
    found = read(path)
    assert (found.rows, found.features) == x.shape
    assert read(path, columns=names[::-1], kind="numbers").columns == names[::-1]
    assert time.process_time() - began < 10
