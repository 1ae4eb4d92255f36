"""Files of the fuzzer that are sound and ask for much: makers make what they say."""

from __future__ import annotations

import ast
import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.trees import Tree, tree_from_json, tree_to_json
from quality.fuzzing import growing, nesting, references
from quality.fuzzing.damage import Damage
from quality.fuzzing.seeds import seeds
from quality.fuzzing.structured import STRUCTURES

SEEDS = 40
TREE = tree_to_json(Tree.from_merges([[0, 1], [2, 3]], [0.5, 1.5], names=["a", "b", "c"])).encode()


def made(maker: Damage, data: bytes = b"", times: int = SEEDS) -> Iterator[bytes]:
    return (maker(Random(seed), data, ()) for seed in range(times))


def test_lines_of_json_nest_and_have_keys_of_their_own() -> None:
    lines = list(made(nesting.nested_json, times=150))
    assert max(text.count(b"[") + text.count(b"{") for text in lines) >= 100_000
    keys = [set().union(*(json.loads(line) for line in text.splitlines()[:300])) for text in lines if b'"k1"' in text]
    assert max(len(each) for each in keys) > 100


def test_text_and_edges_have_long_fields_among_short_ones() -> None:
    for maker in (nesting.uneven_lines, nesting.uneven_edges):
        longest = [max(len(line) for line in text.splitlines()) for text in made(maker)]
        assert max(longest) >= 50_000
        assert min(longest) < 1000


def test_arrays_and_matrices_state_more_than_they_hold() -> None:
    stated = []
    for data in made(growing.stated_array):
        rows, columns = ast.literal_eval(data[10 : data.index(b"\n")].decode())["shape"]
        stated.append(rows * columns / len(data))
    assert max(stated) > 1000
    assert any(b" 1000000000 " in data.split(b"\n")[1] + b" " for data in made(nesting.stated_matrix))


def test_trees_are_deep_and_wide_or_no_trees() -> None:
    leaves, refused = [], 0
    for data in made(nesting.tree_shapes, TREE):
        try:
            leaves.append(tree_from_json(data.decode()).leaves)
        except ValueError:
            refused += 1
    assert max(leaves) == 20_000
    assert refused > 5


def test_streams_are_sound_and_grow() -> None:
    sizes = [(len(data), len(gzip.decompress(data))) for data in made(growing.streams(nesting.uneven_lines, "gz"))]
    assert max(held / size for size, held in sizes) > 100


def test_members_of_archives_share_bytes_or_state_others() -> None:
    archives = [
        zipfile.ZipFile(io.BytesIO(data)) for data in made(growing.grown_archive("x.csv", nesting.uneven_lines))
    ]
    offsets = [[member.header_offset for member in archive.infolist()] for archive in archives]
    assert any(len(set(each)) < len(each) / 10 for each in offsets)
    assert any(member.file_size > 1 << 30 for archive in archives for member in archive.infolist())


@pytest.mark.parametrize("maker", [growing.grown_parquet, growing.grown_arrow])
def test_columns_share_what_they_hold(maker: Damage) -> None:
    ratios = []
    for data in made(maker):
        try:
            if data[-4:] == b"PAR1":
                file = pq.ParquetFile(io.BytesIO(data))
                ratios.append(8 * file.metadata.num_rows * file.metadata.num_columns / len(data))
            else:
                ratios.append(pa.ipc.open_file(io.BytesIO(data)).read_all().nbytes / len(data))
        except (pa.ArrowException, OSError):  # other counts of rows than there are
            continue
    assert len(ratios) > SEEDS / 2
    assert max(ratios) > 100


@pytest.mark.skipif("Excel" not in STRUCTURES, reason="needs openpyxl")
def test_sheets_share_strings(sound: dict[str, bytes]) -> None:
    cells = []
    for data in made(references.repeated_strings, sound["structure, Excel"]):
        archive = zipfile.ZipFile(io.BytesIO(data))
        text = max(len(part) for part in archive.read("xl/sharedStrings.xml").split(b"<t>"))
        cells.append(text * archive.read("xl/worksheets/sheet1.xml").count(b'<c t="s"><v>0<') / len(data))
    assert max(cells) > 200  # what a byte of a sheet may become


def test_cells_and_places_are_changed_and_have_files(sound: dict[str, bytes]) -> None:
    for name, maker in (("cells", references.repeated_cells), ("places", references.grown_places)):
        files = set(made(maker, sound[f"structure, {name}"]))
        assert len(files) > SEEDS / 3, name


@pytest.fixture(scope="module")
def sound() -> dict[str, bytes]:
    names = tuple(f"structure, {name}" for name in ("Excel", "cells", "places"))
    found: dict[str, bytes] = {}
    for name, folders in seeds(names).items():
        wanted = "places.safetensors" if name.endswith("places") else next(iter(folders[0]))
        content = folders[0][wanted]
        assert isinstance(content, bytes)
        found[name] = content
    return found
