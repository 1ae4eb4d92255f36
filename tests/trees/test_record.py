"""Trees as JSON: what was written is read back, and what no tree can be is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from horoball.trees.record import tree_from_json, tree_to_json
from horoball.trees.tree import Tree


def text() -> str:
    return tree_to_json(Tree.from_merges([[0, 1], [2, 3]], [0.5, 1.5], names=["a", "b", "c"]))


def with_value(name: str, value: Any) -> str:
    return json.dumps(json.loads(text()) | {name: value})


def test_a_tree_is_read_back() -> None:
    again = tree_from_json(text())
    assert tree_to_json(again) == text()
    np.testing.assert_array_equal(again.depth, [1.5, 1.5, 1.5, 1.0, 0.0])


REFUSED: dict[str, tuple[Callable[[], str], str]] = {
    "nested lists": (lambda: "[" * 100_000, "nested without end"),
    "nested objects": (lambda: '{"a":' * 100_000, "nested without end"),
    "nested names": (lambda: text().replace('["a"', '["a", ' + "[" * 100_000), "nested without end"),
    "NaN": (lambda: text().replace("1.5", "NaN"), "it holds NaN"),
    "infinite": (lambda: text().replace("1.5", "-Infinity"), "it holds -Infinity"),
    "NaN as support": (lambda: with_value("support", [None] * 4 + ["x"]).replace('"x"', "NaN"), "it holds NaN"),
    "overflow": (lambda: text().replace("1.5", "1e999"), "depth must be a list of 5 finite numbers"),
    "hundreds of digits": (lambda: text().replace("1.5", "1" + "0" * 400), "depth must hold finite numbers"),
    "thousands of digits": (lambda: text().replace("1.5", "9" * 5000), "Expected the JSON of a tree"),
    "depths that decrease": (lambda: with_value("depth", [1.5, 1.5, 1.5, 2.0, 0.0]), "no node may lie above"),
    "a deep root": (lambda: with_value("depth", [1.5, 1.5, 1.5, 1.0, 3.0]), "no node may lie above"),
    "negative depths": (lambda: with_value("depth", [1.5, 1.5, 1.5, 1.0, -1.0]), "must not be negative"),
    "half a character": (lambda: text().replace('"a"', '"\\ud800"'), "names must be a list of text"),
    "infinite evidence": (
        lambda: with_value("evidence", [{"source": "", "method": "", "correlation": 2.5, "error": 0.5}]).replace(
            "2.5", "1e999"
        ),
        "evidence must hold finite numbers",
    ),
    "method": (lambda: with_value("method", [[]]), "method must be one of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_tree_can_be_is_refused(case: str) -> None:
    make, says = REFUSED[case]
    with pytest.raises(ValueError, match=says) as caught:
        tree_from_json(make())
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_depths_that_differ_by_rounding_are_read() -> None:
    assert tree_from_json(with_value("depth", [1.5, 1.5, 1.5 + 1e-9, 1.5 + 2e-9, 0.0])).leaves == 3
