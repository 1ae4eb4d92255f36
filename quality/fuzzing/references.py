"""Files in which many places refer to one: texts of a heap, shared strings, links, tensors of the same bytes."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from quality.fuzzing.tensors import Tensor, stored

__all__ = ["grown_places", "repeated_cells", "repeated_strings", "repeated_tensors"]

_LENGTHS = (1, 1000, 60_000)
_TIMES = (1, 100, 3000)


def repeated_cells(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """An .h5ad file in which rows, attributes or links lead to one object, groups nest, or numbers are only stated."""
    del others
    import h5py

    held, text = io.BytesIO(data), ""
    try:
        with h5py.File(held, "r+") as file:
            what = rng.randrange(8)
            if what == 0:  # a column of texts, which are made one below
                text = "y" * rng.choice(_LENGTHS)
                _text_column(file, text)
            elif what == 1:
                names = ["y" * rng.choice((1, 60_000)), *["z"] * rng.choice(_TIMES)]
                kind = h5py.string_dtype()
                rng.choice((file, file["obs"], file["var"])).attrs.create(
                    rng.choice(("column-order", "more")), np.array(names, object), dtype=kind
                )
            elif what == 2:  # groups within groups
                group = file.require_group(rng.choice(("uns", "obs", "obsm", "layers")))
                for _ in range(rng.choice((1, 20, 40, 150))):
                    group = group.create_group("a")
            elif what == 3:  # each group holds the next one twice
                group = file.require_group(rng.choice(("uns", "obs"))).create_group("c")
                for _ in range(rng.choice((2, 12, 40))):
                    group.attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})
                    below = group.create_group("a")
                    group["b"] = below
                    group = below
            elif what == 4:  # links in a circle, or to what is above
                group = file.require_group(rng.choice(("uns", "obs", "obsm")))
                group["again"] = rng.choice((file, group, h5py.SoftLink("/uns/again"), h5py.SoftLink("/")))
            elif what in (5, 6):  # a dataset that states a size, of which nothing is stored
                _unwritten(rng, file)
            else:  # one dataset under many names
                sets = [file[name] for name in _datasets(file)]
                some, group = rng.choice(sets), file.require_group(rng.choice(("layers", "obsm", "uns", "obs")))
                for number in range(rng.choice(_TIMES)):
                    group[f"n{number}"] = some
    except Exception:  # another damage was before, or the change is none that HDF5 makes
        return held.getvalue()
    return _one_text(held.getvalue(), rng.choice(_TIMES)) if text else held.getvalue()


def _datasets(file: Any) -> list[str]:
    import h5py

    names: list[str] = []
    file.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
    return names


def _text_column(file: Any, text: str) -> None:
    """A column with as many texts as there are cells, in one chunk."""
    import h5py

    rows = len(file["obs/_index"]) if "obs/_index" in file else 4
    column = file["obs"].create_dataset("t", data=[text] * rows, dtype=h5py.string_dtype(), chunks=(rows,))
    column.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
    file["obs"].attrs["column-order"] = np.array(["t"], object)


def _one_text(data: bytes, rows: int) -> bytes:
    """As many cells as that, and all texts of the column t are the first."""
    import anndata
    import h5py

    held = io.BytesIO(data)
    with h5py.File(held, "r") as file:
        text = file["obs/t"][0].decode()
    held = io.BytesIO()
    with h5py.File(held, "w") as file:
        anndata.io.write_elem(file, "/", anndata.AnnData(np.ones((rows, 2), np.float32)))
        column = file["obs"].create_dataset(
            "t", data=[text], dtype=h5py.string_dtype(), maxshape=(None,), chunks=(rows,)
        )
        column.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
        column.resize((rows,))
        file["obs"].attrs["column-order"] = np.array(["t"], object)
    with h5py.File(held, "r") as file:
        place = file["obs/t"].id.get_chunk_info(0).byte_offset
    out = bytearray(held.getvalue())
    out[place : place + 16 * rows] = out[place : place + 16] * rows
    return bytes(out)


def _unwritten(rng: Random, file: Any) -> None:
    name = rng.choice(_datasets(file))
    kept, kind = dict(file[name].attrs), file[name].dtype
    shape = tuple(rng.choice((1, 4, 4, 1000, 10**5, 10**9)) for _ in file[name].shape)
    del file[name]
    chunks = tuple(min(size, 1000) for size in shape)
    packing = rng.choice((None, "gzip"))
    made = file.create_dataset(name, shape, kind, chunks=chunks if shape else None, compression=packing)
    made.attrs.update(kept)
    if shape and np.prod(shape, dtype=float) <= 1e5 and kind.kind in "iuf":
        made[...] = 0


_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_HEAD = '<row r="1"><c t="inlineStr"><is><t>kind</t></is></c><c t="inlineStr"><is><t>x</t></is></c></row>'
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"


def repeated_strings(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A spreadsheet whose cells share strings, lie far apart, nest, or are fewer than its dimension states."""
    del others
    rows, long = rng.choice(_TIMES), "y" * rng.choice((1, 1000, 30_000))
    strings, size, cells = f"<si><t>{long}</t></si><si><t>u</t></si>", "A1:B4", ""
    what = rng.randrange(9)
    if what == 0:
        cells = '<row><c t="s"><v>0</v></c><c><v>1</v></c></row>' * rows
    elif what == 1:
        place = rng.choice((2, 1000, 1_048_576, 1_048_577, 99_999_999_999, 0, -5))
        cells = f'<row r="{place}"><c><v>1</v></c><c><v>1</v></c></row>' * rng.choice((1, 3))
    elif what == 2:
        cells = f'<row><c r="{rng.choice(("C2", "XFD2", "XFE2", "ZZZZ2"))}"><v>1</v></c></row>' * rows
    elif what == 3:
        size, cells = (
            rng.choice(("A1:XFD1048576", "A1:B99999999999", "B2:A1", "A1")),
            "<row><c><v>1</v></c></row>" * rows,
        )
    elif what == 4:  # a string of many runs
        strings = "<si>" + f"<r><t>{long[:100]}</t></r>" * rows + "</si><si><t>u</t></si>"
        cells = '<row><c t="s"><v>0</v></c><c><v>1</v></c></row>' * rng.choice(_TIMES)
    elif what == 5:
        depth = rng.choice((3, 300, 20_000))
        cells = "<row><c><is>" * depth + "<v>1</v>" + "</is></c></row>" * depth
    elif what == 6:
        strings = "<si><t>u</t></si>" * rng.choice((1, 3000, 60_000))
        cells = f'<row><c t="s"><v>{rng.choice((0, 1, 2999, 10**9, -1))}</v></c><c><v>1</v></c></row>' * rows
    elif what == 7:
        cells = f'<row><c t="inlineStr"><is><t>{long}</t></is></c><c><v>1</v></c></row>' * rng.choice((1, 50))
    else:
        cells = "<row/>" * rng.choice((1, 3000, 100_000)) + "<row><c><v>1</v></c></row>"
    sheet = f'<worksheet {_MAIN}><dimension ref="{size}"/><sheetData>{_HEAD}{cells}</sheetData></worksheet>'
    return _book(data, sheet, f"<sst {_MAIN}>{strings}</sst>")


def _book(data: bytes, sheet: str, strings: str) -> bytes:
    """A sound spreadsheet with another sheet and other strings."""
    part, out = "xl/sharedStrings.xml", io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            members = {name: old.read(name) for name in old.namelist()}
    except Exception:  # another damage was before
        return data
    if part not in members and "[Content_Types].xml" in members:
        entry = f'<Override PartName="/{part}" ContentType="{_TYPE}"/></Types>'.encode()
        members["[Content_Types].xml"] = members["[Content_Types].xml"].replace(b"</Types>", entry)
    members |= {name: sheet.encode() for name in members if name.endswith("sheet1.xml")}
    members[part] = strings.encode()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def repeated_tensors(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A safetensors file in which tensors share bytes, or state a length, nesting or number that it does not have."""
    del others
    size = int.from_bytes(data[:8], "little")
    try:
        header: Any = json.loads(data[8 : 8 + size])
        names = [name for name in header if name != "__metadata__"]
        state: Any = json.loads(header["__metadata__"]["horoball"])
        first = dict(header[rng.choice(names)])
    except (ValueError, LookupError, TypeError, RecursionError):  # another damage was before
        return data
    body, stated, what = data[8 + size :], None, rng.randrange(8)
    if what == 0:  # all of the same bytes
        for number in range(rng.choice(_TIMES)):
            header[f"model.{number}"] = dict(first)
    elif what == 1:  # tensors of no bytes
        for number in range(rng.choice((1, 100, 20_000))):
            header[f"model.{number}"] = {"dtype": "F32", "shape": [0, 2**40], "data_offsets": [len(body)] * 2}
    elif what == 2:  # a number for all that a shape states
        header[rng.choice(names)] = first | {"shape": [1] * rng.choice((1, 70, 5000))}
    elif what == 3:
        depth = rng.choice((10, 900, 50_000))
        name = rng.choice(list(state))
        nested = "[" * depth + json.dumps(state[name]) + "]" * depth
        header["__metadata__"]["horoball"] = json.dumps(state | {name: "?"}).replace('"?"', nested)
    elif what == 4:
        name = rng.choice(list(state))
        state[name] = [state[name]] * rng.choice(_TIMES)
        header["__metadata__"]["horoball"] = json.dumps(state)
    elif what == 5:
        header["__metadata__"] |= {f"k{i}": "y" * 100 for i in range(rng.choice(_TIMES))}
    elif what == 6:
        stated = rng.choice((0, 1, size - 1, size + 1, 10**8, 2**31, 2**63, 2**64 - 1))
    else:
        body += bytes(rng.choice((1, 8, 10**5)))
    text = json.dumps(header).encode()
    return (len(text) if stated is None else stated).to_bytes(8, "little") + text + body


def grown_places(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Places that are sound as a file: other numbers of rows and levels, groups all alike or all apart, long names."""
    file = stored(data)
    if file is None or not {"points", "levels"} <= file.tensors.keys() or rng.random() < 0.3:
        return repeated_tensors(rng, data, others)
    try:
        points, state = file.tensors["points"].array, file.state
    except (ValueError, LookupError, RecursionError):  # another damage was before
        return data
    rows, deep = rng.choice((0, 1, 4, 300, 3000)), rng.choice((0, 1, 2, 50, 500))
    deep = min(deep, 50) if rows > 300 else deep
    shape = rng.choice(("alike", "apart", "chain", "wild"))
    levels = np.zeros((rows, deep), np.int64)
    if shape == "apart":
        levels += np.arange(rows)[:, None]
    elif shape == "chain":
        levels = np.minimum(np.arange(rows)[:, None], np.arange(deep)[None])
    elif shape == "wild" and levels.size:
        levels[:] = np.array([rng.randrange(-2, rows + 1) for _ in range(rows)])[:, None]
    file.tensors["points"] = Tensor("F32", np.resize(points, (rows, points.shape[-1])))
    file.tensors["levels"] = Tensor("I64", levels)
    names = rng.choice(([], [[f"g{i}" for i in range(rows)]] * min(deep, 3)))
    if names and rng.random() < 0.5:
        names[0] = ["y" * rng.choice(_LENGTHS), *names[0][1:]]
    state["names"] = names if rng.random() < 0.6 else [[]] * deep
    if rng.random() < 0.2:
        state["fitted"] = [rng.choice((0.1, 1.0, 1e-300, 1e308, 0.0, -1.0)) for _ in range(6)]
    return file.with_state(state).bytes()
