"""Lines of JSON before Arrow parses them: it follows any nesting until its stack ends, and gives each key a column."""

from __future__ import annotations

import re
from typing import IO

from horoball.data.files.limits import check_held

__all__ = ["check_lines"]

_DEEPEST = 32  # lists and objects within each other; a table of vectors has two
_PART = 1 << 20  # bytes of lines that are looked through at once
_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:')
_NUMBER = 8  # bytes of a cell, also of one that is missing


def check_lines(file: IO[bytes], path: str) -> None:
    r"""Refuse lines that are no objects, nest deeper than any table does, or have so many keys that most are missing.

    Args:
        file: The open file; it is read to its end.
        path: Its name, for messages.

    Example:
        >>> import io
        >>> check_lines(io.BytesIO(b'{"a": 1}\n{"a": ' + b"[" * 100 + b"]" * 100 + b"}\n"), "rows.jsonl")
        Traceback (most recent call last):
        ...
        ValueError: rows.jsonl is not a readable table: line 2 nests lists or objects more than 32 deep. Leave those ...
    """
    keys: set[bytes] = set()
    number = rows = size = 0
    while lines := file.readlines(_PART):
        for line in lines:
            number += 1
            if line.isspace() or (number == 1 and not line.strip(b"\xef\xbb\xbf \t\r\n")):
                continue
            rows += 1
            _check_line(line, number, path)
        part = b"".join(lines)
        size += len(part)
        keys.update(_KEY.findall(part))
    check_held(_NUMBER * rows * len(keys), size, f"{path}, with {rows:,} rows and {len(keys):,} different keys,")


def _check_line(line: bytes, number: int, path: str) -> None:
    start = line.lstrip(b"\xef\xbb\xbf \t\r\n")[:4]
    if start == b"null":  # at which Arrow 26 ends the process, at the start of a file or of a block
        raise ValueError(f"{path} is not a readable table: line {number} is null, expected an object in braces.")
    if b"\\" in line:
        line = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(line.split(b'"')[::2])  # of texts
    opened = outside.count(b"[") + outside.count(b"{")
    if opened > _DEEPEST and _depth(outside) > _DEEPEST:
        raise ValueError(
            f"{path} is not a readable table: line {number} nests lists or objects more than {_DEEPEST} deep. Leave "
            "those out."
        )
    if opened != outside.count(b"]") + outside.count(b"}") or not start.startswith(b"{"):
        raise ValueError(
            f"{path} is not a readable table: line {number} is not one whole object in braces. Write one row a line."
        )


def _depth(outside: bytes) -> int:
    depth = deepest = 0
    for byte in outside:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest
