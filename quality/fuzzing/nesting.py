"""Text that is sound and asks for much: nesting, repeated keys, long fields among short ones, stated counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

__all__ = ["nested_json", "stated_matrix", "tree_shapes", "uneven_edges", "uneven_lines"]

_DEPTHS = (1, 5, 31, 33, 900, 5000, 100_000)
_LENGTHS = (1, 100, 5000, 50_000)
_ROWS = (2, 100, 3000, 10_000)


def _nested(rng: Random, inner: str = "1") -> str:
    """A value within lists, objects, or both by turns."""
    depth, form = rng.choice(_DEPTHS), rng.choice((("[", "]"), ('{"a":', "}"), ('[{"a":', "}]"), ("[1,", "]")))
    return form[0] * depth + inner + form[1] * rng.choice((depth, depth, depth, 0, depth - 1))


def nested_json(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Lines of JSON with nesting, with keys that differ from line to line or repeat, or with one long text.

    Example:
        >>> nested_json(Random(0), b'{"kind": "u", "x": 1}', ()).startswith(b"{")
        True
    """
    del data, others
    rows, what = rng.choice(_ROWS), rng.randrange(7)
    if what == 0:
        return f'{{"kind": "u", "x": {_nested(rng)}}}\n'.encode() * rng.choice((1, 3))
    if what == 1:  # a key a line
        return "".join(f'{{"kind": "u", "k{i}": 1}}\n' for i in range(rows)).encode()
    if what == 2:  # one key again and again
        return b'{"kind": "u"' + b', "x": 1' * rows + b"}\n"
    if what == 3:
        long = "y" * rng.choice(_LENGTHS)
        return f'{{"kind": "{long}", "x": 1}}\n'.encode() + b'{"kind": "u", "x": 2}\n' * rows
    if what == 4:  # lists of other lengths
        return "".join(json.dumps({"kind": "u", "x": [1] * (i % 7)}) + "\n" for i in range(rows)).encode()
    if what == 5:  # many objects of many keys, each within the last
        wide = json.dumps({f"k{i}": {"a": [i]} for i in range(rng.choice((3, 300, 3000)))})
        return f'{{"kind": "u", "x": {wide}}}\n'.encode() * rng.choice((1, 20))
    return b'{"kind": "\\u0000\\ud83d\\ude00", "x": 1' + b"0" * rng.choice(_LENGTHS) + b"}\n"


def uneven_lines(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Delimited text with many columns, one long field, an open quote, or columns that no row has.

    Example:
        >>> b"kind" in uneven_lines(Random(0), b"", ())
        True
    """
    del data, others
    rows, long, what = rng.choice(_ROWS), b"y" * rng.choice(_LENGTHS), rng.randrange(6)
    plain = b"".join(b"u%d,%d\n" % (i % 3, i) for i in range(rows))
    if what == 0:
        return b"kind,x\n" + long + b",1\n" + plain
    if what == 1:
        columns = min(rows, 3000)  # each takes 8 kB in Arrow's parser, whatever it holds
        return b"kind,x," + b",".join(b"c%d" % i for i in range(columns)) + b"\nu,1\nv" + b",2" * (columns + 1) + b"\n"
    if what == 2:
        return b"kind," + long + b"\n" + plain
    if what == 3:
        return b'kind,x\n"' + plain + rng.choice((b"", b'",1\n'))
    if what == 4:
        return b"kind,x\n" + b'"' * (2 * rng.choice(_LENGTHS)) + b",1\n" + plain
    return b"kind,x\n" + plain + b"," * rng.choice(_LENGTHS) + b"\n"


def uneven_edges(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    r"""Edges with one long id, a node of all edges, distant numbers, or fields after the ends.

    Example:
        >>> len(uneven_edges(Random(0), b"", ()).split(b"\n")) > 1
        True
    """
    del data, others
    rows, what = rng.choice(_ROWS), rng.randrange(5)
    if what == 0:
        return b"".join(b"a%d b\n" % i for i in range(rows)) + b"c" * rng.choice(_LENGTHS) + b" d\n"
    if what == 1:
        return b"".join(b"0 %d\n" % (i + 1) for i in range(rows)) + b"0 %d\n" % 10 ** rng.choice((5, 9, 18, 30))
    if what == 2:
        return b"a b " + b"1 " * rng.choice(_LENGTHS) + b"\n" + b"b c\n" * rows
    if what == 3:
        return b"a b {" + b"'k': {" * rng.choice(_DEPTHS) + b"\n" + b"b c {}\n" * rows
    return b"# " + b"n" * rng.choice(_LENGTHS) + b"\n" + b"a b\n" * rows


def stated_matrix(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A Matrix Market file whose header states other sizes than it holds.

    Example:
        >>> stated_matrix(Random(0), b"", ()).startswith(b"%%MatrixMarket")
        True
    """
    del data, others
    sizes = (0, 1, 3, 4, 1000, 10**6, 10**9, 2**31, 2**63, -1)
    rows = rng.choice(sizes)
    form, field = rng.choice(("coordinate", "coordinate", "array")), rng.choice(("real", "pattern", "integer"))
    kind = rng.choice(("general", "symmetric", "skew-symmetric"))
    held = rng.choice((1, 3, 1000))
    counts = [rows, rows if rng.random() < 0.7 else rng.choice(sizes)]
    if form == "coordinate":
        counts.append(held if rng.random() < 0.6 else rng.choice(sizes))
    line = {"array": "1", "coordinate": "2 1" if field == "pattern" else "2 1 1"}[form]
    head = f"%%MatrixMarket matrix {form} {field} {kind}\n{' '.join(map(str, counts))}\n"
    return (head + f"{line}\n" * held).encode()


def tree_shapes(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The JSON of a tree: another shape, references to no node or in a circle, lists of other lengths, nesting.

    Example:
        >>> from horoball.trees import Tree, tree_to_json
        >>> sound = tree_to_json(Tree.from_merges([[0, 1]], [1.0], names=["a", "b"])).encode()
        >>> tree_shapes(Random(3), sound, ()) != sound
        True
    """
    del others
    try:
        record: Any = json.loads(data)
        lists = [name for name, value in record.items() if isinstance(value, list) and value]
    except (ValueError, AttributeError, RecursionError):  # another damage was before
        return data
    what = rng.randrange(7)
    if what == 0:  # a value, or all of a record, within lists
        name = rng.choice(list(record))
        return json.dumps(record | {name: "?"}).replace('"?"', _nested(rng, json.dumps(record[name]))).encode()
    if what == 1 and lists:  # one reference, or all, lead elsewhere
        values = record[rng.choice(lists)]
        odd = rng.choice((0, -1, -2, len(values) - 1, len(values), 2**31, 2**53, 2**63, 1e308, 0.5, None, "a"))
        for place in range(len(values)) if rng.random() < 0.2 else (rng.randrange(len(values)),):
            values[place] = odd
    elif what == 2 and lists:
        name = rng.choice(lists)
        record[name] = (record[name] * 3)[: rng.choice((0, 1, len(record[name]) + 1))]
    elif what == 3:
        record["names"] = ["x" * rng.choice(_LENGTHS), *record.get("names", ["a"])[1:]]
    elif what == 4 and lists:
        name = rng.choice(lists)
        return json.dumps(record).replace("{", f'{{"{name}": [], ', 1).encode()
    else:
        record |= _comb(rng) if rng.random() < 0.6 else _star(rng)
    return json.dumps(record).encode()


def _comb(rng: Random) -> dict[str, Any]:
    """Every inner node has a leaf and the next one: as deep as a tree can be."""
    n = rng.choice((2, 3, 500, 5000, 20_000))
    parent = [n, n, *range(n + 1, 2 * n - 1), *range(n + 1, 2 * n - 1), -1]
    depth = [float(n)] * n + [float(n - 1 - i) for i in range(n - 1)]
    return {"names": [f"l{i}" for i in range(n)], "parent": parent, "depth": depth, "size": [1] * n} | _unsaid()


def _star(rng: Random) -> dict[str, Any]:
    n = rng.choice((1, 2, 500, 20_000))
    names = [f"l{i}" for i in range(n)]
    return {"names": names, "parent": [n] * n + [-1], "depth": [1.0] * n + [0.0], "size": [1] * n} | _unsaid()


def _unsaid() -> dict[str, Any]:
    return {"support": None, "chance": None, "leaf": None, "structure": None}
