"""Newick text that other programs read as it was meant."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from horoball.trees.tree import newick
from tests.late import late

dendropy = late("dendropy")

NONE = np.array([], int)


def pair(*names: str, length: float = 1.0, support: float | None = None, digits: int = 6) -> str:
    """A root with the first leaf and a branch of the others."""
    n = len(names)
    children = [*([NONE] * n), np.arange(1, n), np.array([0, n])]
    sure = None if support is None else np.full(n + 2, support)
    return newick(names, children, np.full(n + 2, length), sure, digits)


def labels(text: str) -> list[str]:
    read = dendropy.Tree.get(data=text, schema="newick", preserve_underscores=True, case_sensitive_taxon_labels=True)
    return [leaf.taxon.label for leaf in read.leaf_node_iter()]


@pytest.mark.parametrize("digits", [1, 2, 3, 6])
def test_a_support_of_all_replicates_is_100(digits: int) -> None:
    assert pair("a", "b", "c", support=1.0, digits=digits) == "(a:1,(b:1,c:1)100:1);"


@pytest.mark.parametrize(
    ("length", "digits", "written"),
    [
        (1234.0, 2, "1200"),
        (123456789.0, 6, "123457000"),
        (0.5, 2, "0.5"),
        (99.96, 3, "100"),
        (1e-9, 3, "1e-09"),
        (0.0, 2, "0"),
    ],
)
def test_large_numbers_have_no_exponent(length: float, digits: int, written: str) -> None:
    assert pair("a", "b", length=length, digits=digits) == f"(a:{written},(b:{written}):{written});"


def test_names_that_occur_twice_are_numbered_and_a_warning_says_so() -> None:
    with pytest.warns(UserWarning, match=r"2 names are those of several leaves, such as 'a', of 3 leaves\. .* 'a #1'"):
        text = pair("a", "b", "a", "it's", "a", "it's")
    assert labels(text) == ["a #1", "b", "a #2", "it's #1", "a #3", "it's #2"]


def test_a_numbered_name_is_not_that_of_another_leaf() -> None:
    with pytest.warns(UserWarning, match="several leaves"):
        text = pair("a", "a #1", "a", "a #2")
    assert labels(text) == ["a #3", "a #1", "a #4", "a #2"]


def test_names_that_newick_makes_equal_are_numbered_too() -> None:
    with pytest.warns(UserWarning, match="several leaves"):
        assert labels(pair("B\tcells", "B cells")) == ["B cells #1", "B cells #2"]


def test_different_names_stay_as_they_are_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert labels(pair("a", "A", "a_b", "a b")) == ["a", "A", "a_b", "a b"]
