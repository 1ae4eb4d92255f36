"""A tree as JSON, and back; what comes from a file is checked before it is a tree."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from horoball.trees.linkage import Candidate
from horoball.trees.tree import TREE_METHODS, Tree
from horoball.trees.verdict import Verdict

__all__ = ["tree_from_json", "tree_to_json"]

FORMAT = "horoball tree"
VERSION = 2
_READ = (1, 2)  # the first version has no chance, and the support of exact clades
_ROUNDING = 1e-6  # of the greatest depth, by which a node may lie above its parent
_LARGEST = 1 << 53  # the largest whole number that every reader of JSON keeps


def tree_to_json(tree: Tree) -> str:
    """A tree as JSON; numbers are written so that they are read back bit for bit.

    Example:
        >>> text = tree_to_json(Tree.from_merges([[0, 1]], [1.0], names=["a", "b"]))
        >>> tree_from_json(text).names
        ('a', 'b')
    """
    record: dict[str, Any] = {"format": FORMAT, "version": VERSION, "names": list(tree.names)}
    record |= {"parent": tree.parent.tolist(), "depth": tree.depth.tolist(), "size": tree.size.tolist()}
    record["verdict"] = None if tree.verdict is None else _written(tree.verdict)
    for name in ("support", "chance"):
        values = getattr(tree, name)
        record[name] = None if values is None else [None if math.isnan(one) else one for one in values.tolist()]
    record |= {"leaf": None if tree.leaf is None else tree.leaf.tolist(), "method": tree.method}
    record["micro"] = tree.micro
    record |= {"source": tree.source, "evidence": [asdict(one) for one in tree.evidence]}
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def tree_from_json(text: str) -> Tree:
    """The tree that `tree_to_json` wrote.

    Raises:
        ValueError: The text is not that of a tree; the message says what is wrong.

    Example:
        >>> tree_from_json("{}")
        Traceback (most recent call last):
        ...
        ValueError: Expected the JSON of a tree, with "format": "horoball tree".
    """
    try:
        record = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("Expected the JSON of a tree, got lists or objects nested without end.") from None
    except ValueError as error:
        raise ValueError(f"Expected the JSON of a tree: {error}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f'Expected the JSON of a tree, with "format": "{FORMAT}".')
    if record.get("version") not in _READ:
        raise ValueError(f"The tree has format version {record.get('version')!r}; this version reads 1 to {VERSION}.")
    names = record.get("names")
    if not isinstance(names, list) or not names or not all(map(_is_text, names)):
        raise ValueError("names must be a list of text, one for each leaf.")
    n = len(names)
    parent = _whole(record, "parent", None)
    nodes = len(parent)
    above = np.arange(nodes)
    if not n < nodes <= 2 * n - 1 + (n == 1) or parent[-1] != -1 or not (parent[:-1] > above[:-1]).all():
        raise ValueError("parent must name a later node for each node, and -1 for the last, which is the root.")
    if (parent[:-1] < n).any() or (parent[:-1] >= nodes).any() or (np.bincount(parent[:-1])[n:] < 2).any():
        raise ValueError("Every inner node must have two children or more, and no leaf may have any.")
    size = _whole(record, "size", n)
    leaf = None if record.get("leaf") is None else _whole(record, "leaf", None)
    if (size < 0).any() or (leaf is not None and ((leaf < 0).any() or (leaf >= n).any())):
        raise ValueError("size must not be negative, and leaf must name a leaf for each row.")
    if record.get("method") not in TREE_METHODS or not _is_text(record.get("source")):
        raise ValueError(f"method must be one of {', '.join(TREE_METHODS)}, and source a text.")
    if type(micro := record.get("micro", False)) is not bool:  # version 0.2 and before do not have it
        raise ValueError("micro must be true or false.")
    depth = _numbers(record, "depth", nodes)
    if (depth < 0).any() or (depth[:-1] < depth[parent[:-1]] - _ROUNDING * depth.max()).any():
        raise ValueError("depth must not be negative, and no node may lie above its parent.")
    return Tree(
        tuple(names),
        parent,
        depth,
        size,
        support=None if record.get("support") is None else _numbers(record, "support", nodes, share=True),
        chance=None if record.get("chance") is None else _numbers(record, "chance", nodes, share=True),
        verdict=_verdict(record.get("verdict")),
        leaf=leaf,
        method=record["method"],
        source=record["source"],
        evidence=_evidence(record.get("evidence")),
        micro=micro,
    )


def _is_text(value: Any) -> bool:
    """Whether a value is text that can be written: JSON can hold half of a character."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _refuse_constant(name: str) -> float:
    """JSON has no such numbers, but Python writes and reads them unless told otherwise."""
    raise ValueError(f"it holds {name}, which is no number of JSON.")


def _whole(record: dict[str, Any], name: str, length: int | None) -> np.ndarray:
    values = record.get(name)
    if not isinstance(values, list) or not all(type(one) is int and abs(one) < _LARGEST for one in values):
        raise ValueError(f"{name} must be a list of whole numbers.")
    if not values or (length is not None and len(values) != length):
        raise ValueError(f"{name} must hold {length or 'some'} numbers, got {len(values)}.")
    return np.array(values, np.int64)


def _numbers(record: dict[str, Any], name: str, length: int, *, share: bool = False) -> np.ndarray:
    values = record.get(name)
    if not isinstance(values, list) or len(values) != length:
        raise ValueError(f"{name} must be a list of {length} finite numbers.")
    if not all((type(one) in (int, float) and abs(one) < math.inf) or (share and one is None) for one in values):
        raise ValueError(f"{name} must be a list of {length} finite numbers.")
    try:
        made = np.array([math.nan if one is None else float(one) for one in values])
    except OverflowError:  # a whole number of hundreds of digits
        raise ValueError(f"{name} must hold finite numbers.") from None
    if share and ((made < -1e-9) | (made > 1 + 1e-9)).any():
        raise ValueError(f"{name} must hold numbers from 0 to 1.")
    return made


def _written(found: Verdict) -> dict[str, Any]:
    return asdict(found) | {"nesting": None if math.isnan(found.nesting) else found.nesting}


def _verdict(values: Any) -> Verdict | None:
    if values is None:
        return None
    if isinstance(values, dict):
        values = {"two": False} | values  # which the first trees with a verdict did not say
    if not isinstance(values, dict) or set(values) != {field.name for field in fields(Verdict)}:
        raise ValueError(f"verdict must have {', '.join(field.name for field in fields(Verdict))}.")
    values = values | {"nesting": math.nan if values["nesting"] is None else values["nesting"]}
    whole, numbers = ("branches", "groups", "levels", "draws", "agreed"), ("flat", "p", "nesting")
    if not all(type(values[name]) is int and 0 <= values[name] < _LARGEST for name in whole):
        raise ValueError("Counts of the verdict must be whole numbers, and not negative.")
    if not all(type(values[name]) is float and not values[name] < 0 for name in numbers) or values["flat"] == math.inf:
        raise ValueError("flat, p and nesting of the verdict must be numbers, and not negative.")
    if values["p"] > 1 or values["nesting"] > 1 or not all(type(values[name]) is bool for name in ("along", "two")):
        raise ValueError("p and nesting of the verdict must be at most 1, and along and two true or false.")
    return Verdict(**values)


def _evidence(values: Any) -> tuple[Candidate, ...]:
    types = {"source": str, "method": str, "correlation": float, "error": float}
    if not isinstance(values, list) or any(
        not isinstance(one, dict) or {name: type(value) for name, value in one.items()} != types for one in values
    ):
        raise ValueError("evidence must be a list of candidates: source, method, correlation and error.")
    if not all(math.isfinite(one["correlation"]) and math.isfinite(one["error"]) for one in values):
        raise ValueError("evidence must hold finite numbers.")
    return tuple(Candidate(**one) for one in values)
