"""Damage to what a safetensors file says of itself: its JSON is changed, and has the length that it states."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from random import Random
from typing import Any

__all__ = ["hostile_description", "hostile_json", "hostile_tensors"]

_ODD: list[Any] = [
    *(
        float("nan"),
        float("inf"),
        -float("inf"),
        1e308,
        -1e308,
        1e-308,
        -1,
        0,
        1,
        2,
        3,
        10**18,
        2**63,
        -(2**63),
        10**400,
    ),
    *(
        True,
        False,
        None,
        "",
        "x",
        "../../x",
        "nan",
        "1",
        "\x00",
        "\ud800",
        "é" * 300,
        "riemannian",
        "free",
        "gcn",
        "normal",
    ),
    *(
        [],
        [[]],
        [1],
        [0],
        [-1],
        [10**12],
        [None],
        ["a"],
        {},
        {"a": 1},
        {"": {}},
        [1e308],
        [0.5],
        ["a"] * 3,
        [True, 2**70],
    ),
    *(-3, 5, 1e-30, 1e30, -0.5, 1 << 31, "\x1b[31mred\x1b]0;x\x07", "=1+1", [[[1]]], [1] * 20_000, {"a": {"b": []}}),
]
_TYPES = [
    "F64",
    "F32",
    "F16",
    "BF16",
    "I64",
    "I32",
    "I16",
    "I8",
    "U8",
    "BOOL",
    "F8_E4M3",
    "F8_E5M2",
    "U16",
    "U64",
    "C64",
    "X",
]
_SIZES: list[Any] = [0, 1, 2, 3, -1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 1.5, None, "4", [], True]
_NAMES = [
    "../../x",
    "/etc/x",
    "",
    "model.",
    "names.text",
    "points",
    "edges",
    "__metadata__",
    "model.ball.c",
    "\x00",
    "a" * 3000,
]


def hostile_tensors(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change shapes, offsets, types and names of tensors."""
    header, body = _parts(data)
    if header is None:
        return data
    names = [name for name in header if name != "__metadata__"]
    for _ in range(rng.choice((1, 1, 2))):
        if not names:
            break
        name, what = rng.choice(names), rng.randrange(9)
        entry = header.get(name)
        entry = entry if isinstance(entry, dict) else {}  # damaged before
        if what == 0:
            header.pop(name, None)
        elif what == 1:
            header[rng.choice(_NAMES)] = header.pop(name, {})
        elif what == 2:
            entry["dtype"] = rng.choice(_TYPES)
        elif what == 3:
            entry["shape"] = [copy.deepcopy(rng.choice(_SIZES)) for _ in range(rng.randrange(4))]
        elif what == 4:
            entry["data_offsets"] = [
                copy.deepcopy(rng.choice((*_SIZES, len(body)))) for _ in range(rng.choice((2, 2, 2, 1, 3)))
            ]
        elif what == 5:  # the bytes stay, the shape is another that takes as many
            size = max(1, _count(entry.get("shape", [])))
            entry["shape"] = rng.choice(([size], [1, size], [size, 1], [size, 1, 1], [0, size]))
        elif what == 6:
            other = rng.choice(names)
            header[name], header[other] = header.get(other, {}), header.get(name, {})
        elif what == 7:
            header[name] = copy.deepcopy(rng.choice(_ODD))
        else:  # other numbers of as many bytes
            alike = {"F32": "I32", "I32": "F32", "F64": "I64", "I64": "F64", "U8": "I8"}
            entry["dtype"] = alike.get(str(entry.get("dtype")), "U8")
    return _joined(header, body)


def hostile_description(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change what the file's JSON says of the model, the run or the index."""
    header, body = _parts(data)
    if header is None or not isinstance(header.get("__metadata__"), dict):
        return data
    text = header["__metadata__"].get("horoball", "{}")
    what = rng.randrange(20)
    if what == 0:
        depth = rng.choice((10, 900, 5000, 100_000))
        header["__metadata__"]["horoball"] = "[" * depth + "]" * depth
    elif what == 1:
        header["__metadata__"]["horoball"] = (
            '{"format": 1, "record": ' + rng.choice(("9" * 5000, "{", "1", "NaN", "null")) + "}"
        )
    elif what == 2:
        header["__metadata__"]["horoball"] = copy.deepcopy(rng.choice(_ODD))
    elif what == 3:
        header["__metadata__"] = copy.deepcopy(rng.choice(_ODD))
    else:
        try:
            state = json.loads(text)
        except (TypeError, ValueError, RecursionError):  # another damage was before
            return data
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _change(rng, state)
        header["__metadata__"]["horoball"] = json.dumps(state)
    return _joined(header, body)


def hostile_json(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change values of a JSON file, or of one of a file's lines of JSON."""
    lines = data.splitlines() or [b""]
    place = rng.randrange(len(lines))
    try:
        state = json.loads(lines[place])
    except (ValueError, RecursionError):  # another damage was before
        return data
    _change(rng, state)
    lines[place] = json.dumps(state).encode()
    return b"\n".join(lines) + b"\n"


def _change(rng: Random, node: Any) -> None:
    """One value somewhere below is replaced, dropped, doubled, renamed, or joined by one that nobody knows."""
    while isinstance(node, dict | list) and node:
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        below = node[key]
        if isinstance(below, dict | list) and below and rng.random() < 0.85:
            node = below
            continue
        what = rng.randrange(8)
        if what == 0:
            node.pop(key)
        elif what == 1 and isinstance(node, dict):
            node[rng.choice(("x", "", "graph", "columns", "model", "__class__", "self", "\ud800"))] = node.pop(key)
        elif what == 2 and isinstance(node, list):
            node.append(below)
        elif what == 2 and isinstance(node, dict):
            node[rng.choice(("new_in_2", "self", "kept", "digest", "\x1b[31m"))] = copy.deepcopy(rng.choice(_ODD))
        elif what <= 4 and _alike(below):
            node[key] = rng.choice(_alike(below))
        else:
            node[key] = copy.deepcopy(rng.choice(_ODD))
        return


def _alike(value: Any) -> list[Any]:
    """Values of the same kind, or nearly so, that a check of the kind alone does not refuse."""
    if isinstance(value, bool):
        return [not value, int(value)]
    if isinstance(value, int) and abs(value) < 1 << 53:
        return [-value, value + 1, value - 1, 0, value * 10**6, float(value), value + 0.5, str(value)]
    if isinstance(value, float):
        return [-value, value * 1e6, value * 1e-30, 0.0, str(value)]
    if isinstance(value, str) and value:  # digests are text: one other digit is another digest
        return [value[:-1] + ("0" if value[-1] != "0" else "1"), value.upper(), value + " ", value[:-1], value * 50]
    return []


def _parts(data: bytes) -> tuple[dict[str, Any] | None, bytes]:
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError):  # another damage was before
        return None, b""
    return (header if isinstance(header, dict) else None), data[8 + size :]


def _joined(header: dict[str, Any], body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def _count(shape: Any) -> int:
    total = 1
    for size in shape if isinstance(shape, list) else []:
        total *= size if isinstance(size, int) else 1
    return total
