"""Trees on paper: what is drawn of a small one, and how little of a large one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from horoball import plotting
from horoball.trees import Tree

MERGES = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 13]]
SUPPORT = np.array([np.nan] * 8 + [0.9, 0.3, 0.8, 0.6, 0.95, 0.4, 1.0])
KIND = ["fish"] * 5 + ["bird", "bird", "newt"]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def eight(**about: Any) -> Tree:
    return Tree.from_merges(MERGES, [1, 1, 1, 1, 2, 2, 3], support=SUPPORT, **about)


def names(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def lines(ax: Any) -> dict[bool, int]:
    """How many branches are dashed, and how many are not."""
    *branches, _ = ax.collections  # the last ones lead to the names
    return {line.get_linestyle()[0][1] is not None: len(line.get_paths()) for line in branches}


def test_every_leaf_and_every_supported_branch_is_written() -> None:
    ax = plotting.tree(eight(), KIND, title="Eight")
    assert names(ax) == [str(k) for k in range(8)]
    assert sorted(text.get_text() for text in ax.texts) == ["0.60", "0.80", "0.90", "0.95"]
    assert lines(ax) == {True: 2, False: 12}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["bird", "fish", "newt"]
    assert ax.get_xlabel() == "depth"


def test_branches_end_at_their_depth_halfway_between_their_children() -> None:
    ax = plotting.tree(eight())
    ends = {tuple(path.vertices[-1]) for line in ax.collections for path in line.get_paths()}
    assert (1.0, 2.0) in ends  # the quartet of leaves 0 to 3, whose pairs are at 1 and 3
    assert (2.0, 1.0) in ends
    assert (3.0, 0.5) in ends


def test_branches_of_many_leaves_are_triangles_with_counts() -> None:
    ax = plotting.tree(eight(), KIND, max_leaves=3)
    assert names(ax) in (["fish (4)", "mixed (2)", "mixed (2)"], ["fish (2)", "fish (2)", "mixed (4)"])
    assert len(ax.patches) == 3
    assert names(plotting.tree(eight(), max_leaves=2)) == ["4 rows", "4 rows"]


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_there_are_never_more_ends_than_asked_for(n: int) -> None:
    merges = [[0, 1], *([k, n + k - 2] for k in range(2, n))][: n - 1]
    tree = Tree.from_merges(np.reshape(merges, (-1, 2)), np.arange(1, n))
    ax = plotting.tree(tree, max_leaves=20)
    assert len(names(ax)) == min(n, 20)
    ax.figure.canvas.draw()


def test_a_branch_with_more_children_than_fit_stays_a_triangle() -> None:
    support = np.array([np.nan] * 8 + [0.0] * 4 + [0.9, 0.9, 1.0])
    star = Tree.from_merges(MERGES, [1, 1, 1, 1, 2, 2, 3], support=support).collapse(0.5)  # two quartets
    assert names(plotting.tree(star, max_leaves=4)) == ["4 rows", "4 rows"]
    assert len(names(plotting.tree(star, max_leaves=5))) == 5


def test_rows_of_groups_are_counted() -> None:
    leaf = np.repeat(np.arange(8), 3)
    ax = plotting.tree(eight(leaf=leaf, size=np.full(8, 3)), np.repeat(KIND, 3), max_leaves=2)
    assert names(ax) == ["fish (12)", "mixed (12)"]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="one label for each of 8 rows, got 3"):
        plotting.tree(eight(), ["a", "b", "c"])
    with pytest.raises(ValueError, match="max_leaves of at least 2"):
        plotting.tree(eight(), max_leaves=1)
