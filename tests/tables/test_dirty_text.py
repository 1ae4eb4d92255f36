"""Text files as they come: quotes that are not closed, other encodings, no header."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from horoball.tables.read import read

ROWS = [f"{i * 0.37:.2f},{'xyz'[i % 3]},{i % 5 + 0.25}" for i in range(30)]


def written(folder: Path, *lines: str, name: str = "rows.csv", encoding: str = "utf-8") -> str:
    content = ("\n".join(lines) + "\n").encode(encoding)
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(path)


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_a_quote_that_is_not_closed_is_refused_with_its_line(tmp_path, name):
    lines = [f"{i * 0.37:.2f},{i % 5 + 0.25},{chr(34) * (i == 6)}{'xyz'[i % 3]}" for i in range(30)]
    with pytest.raises(ValueError, match=r"in line 8 that is not closed .* Close it, or double it"):
        read(written(tmp_path, "a,b,kind", *lines, name=name))


def test_two_quotes_that_are_not_closed_are_refused(tmp_path):
    lines = [f"{i * 0.37:.2f},{i % 5 + 0.25},{chr(34) * (i in (6, 20))}{'xyz'[i % 3]}" for i in range(30)]
    with pytest.raises(ValueError, match="in line 8 that is not closed"):
        read(written(tmp_path, "a,b,kind", *lines))


def test_a_label_with_a_quote_that_is_not_closed_is_refused(tmp_path):
    lines = [f"{i * 0.37:.2f},{i % 5 + 0.25},{chr(34) * (i == 6)}{'xyz'[i % 3]}" for i in range(30)]
    path = written(tmp_path, "a,b,kind", *lines)
    for reader in (read, read):
        with pytest.raises(ValueError, match="in line 8 that is not closed"):
            reader(path, "kind")


def test_cells_of_several_lines_and_quotes_within_text_are_read(tmp_path):
    texts = ['"two\nlines"', '"a ""word"", and\nmore" ', '5" pipe', '"plain"', '"x, ""y"""']
    lines = [f"{i * 0.37:.2f},{texts[i % 5]},{i % 5 + 0.25}" for i in range(30)]
    assert read(written(tmp_path, 'a,"ki\nnd",b', *lines)).rows == 30


@pytest.mark.parametrize("label", [None, "kind"])
def test_text_in_latin_1_is_refused_and_not_left_out(tmp_path, label):
    lines = [f"{i * 0.37:.2f},caf\xe9 {i % 3},{i % 5 + 0.25}" for i in range(30)]
    with pytest.raises(ValueError, match="UTF-8"):
        read(written(tmp_path, "a,kind,b", *lines, encoding="latin-1"), label)


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
@pytest.mark.parametrize(
    "lines",
    [
        ROWS,
        [f"{'xyz'[i % 3]},{'uv'[i % 2]}" for i in range(30)],
        [f"{i * 0.37:.2f},{i % 5 + 0.25}" for i in range(30)] + [",3"],
    ],
    ids=["numbers and text", "text", "numbers with a gap"],
)
def test_a_file_without_a_header_is_refused(tmp_path, name, lines):
    with pytest.raises(ValueError, match="has no header"):
        read(written(tmp_path, *lines, name=name))


@pytest.mark.parametrize("header", ["2001,kind,2002", "a,x,b", "x,a,1"])
def test_names_that_only_look_like_values_are_names(tmp_path, header):
    assert read(written(tmp_path, header, *ROWS)).rows == 30
