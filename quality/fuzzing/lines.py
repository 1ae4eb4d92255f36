"""Damage to text: fields that parsers stumble over."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

__all__ = ["hostile_fields", "hostile_lines"]

_TOKENS = [
    *(b"nan", b"NaN", b"inf", b"-inf", b"1e400", b"-1e400", b"1e-400", b"-0", b"", b" ", b"NA", b"null", b"None"),
    *(
        b"true",
        b"0x10",
        b"1_000",
        b"1,5",
        b"+1",
        b".",
        b"-",
        b"1e",
        b"1.5",
        b"9" * 19,
        b"9" * 40,
        b"-9223372036854775809",
    ),
    *(b'"', b'"a', b'a"b', b'""', b"'", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"\xef\xbb\xbf", b"\\"),
    *("١٢٣".encode(), "½".encode(), "−1".encode(), "e\u0301".encode(), "\u2028".encode(), "\u202e".encode()),
    *(
        b"=cmd()",
        b"=1+1",
        b"@SUM(A1)",
        b"<script>",
        b"%s%n",
        b"../../x",
        b"#",
        b"%",
        b"# ",
        b"%%MatrixMarket",
        b"source",
    ),
    *(b"x" * 5000, b"1" * 5000, b"2024-01-01", b"12:00:00", b"2024-01-01T00:00:00Z", b"1 2", b"1\t2", b"1;2"),
]
_LINES = [
    b"",
    b",",
    b",,,,,,,,",
    b"\r",
    b"\r\n",
    b"\t\t",
    b" " * 200,
    b"# note",
    b"% note",
    b"a",
    b'"',
    b"\x0b",
    b"\x1a",
]
_FIELD = re.compile(rb"[^,\t \n\r]+")


def hostile_fields(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put hostile tokens in the place of some fields."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        fields = list(_FIELD.finditer(data))
        if not fields:
            break
        field = rng.choice(fields)
        data = data[: field.start()] + rng.choice(_TOKENS) + data[field.end() :]
    return data


def hostile_lines(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change lines, their ends or the encoding of all of them."""
    lines = data.split(b"\n")
    what = rng.randrange(9)
    if what == 0:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(_LINES))
    elif what == 1:
        lines.pop(rng.randrange(len(lines)))
    elif what == 2:
        lines += [rng.choice(lines)] * rng.choice((1, 50))
    elif what == 3:
        place = rng.randrange(len(lines))
        lines[place] = rng.choice(lines) + rng.choice((b",", b"\t", b" ", b"")) + lines[place]
    elif what == 4:
        rng.shuffle(lines)
    elif what == 5:
        return rng.choice((b"\r\n", b"\r", b"\n\n", b"\n\r", b"\x85", b"")).join(lines)
    elif what == 6:
        return (
            rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\n\n", b"# c\n", b"%%MatrixMarket matrix\n", b"sep=;\n")) + data
        )
    elif what == 7:
        return data.decode("utf-8", "replace").encode(
            rng.choice(("utf-16", "utf-32", "latin-1", "utf-8-sig")), "replace"
        )
    else:
        separator = rng.choice((b",", b"\t", b" "))
        return data.replace(separator, rng.choice((b";", b",", b"\t", b"  ", b" , ", b"")))
    return b"\n".join(lines)
