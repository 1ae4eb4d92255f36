"""What a notebook shows of an object is short, escaped, without scripts, and says what print says."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import numpy as np
import pytest
from sklearn import config_context

import horoball as hb
from horoball.notebook import html_table
from horoball.trees import Branch, Difference, Placed, Taxonomy, Tree, Verdict, branches, taxonomy, tree

EVIL = '<script>alert(1)</script> & "co"'
SHORT = 6_000  # characters


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    rng = np.random.default_rng(0)
    return 20 * rng.normal(size=(3, 6)).repeat(20, 0) + rng.normal(size=(60, 6))


@pytest.fixture(scope="module")
def some(x: np.ndarray) -> Tree:
    return tree(x, draws=20, names=[f"{EVIL} {row}" for row in range(60)])


def words(shown: Any) -> str:
    """The text of what a notebook shows, checked to be short and without scripts."""
    made = shown._repr_html_()
    assert len(made) < SHORT
    tags = {tag.lower() for tag in re.findall(r"</?(\w+)", made)}
    assert tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    return unescape(re.sub(r"<[^>]*>", " ", made))


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text))


def test_a_tree_has_the_numbers_of_print_and_a_short_repr(some: Tree) -> None:
    assert numbers(words(some)) == numbers(str(some))
    assert repr(some) == f"Tree(60 leaves and 60 rows; {some.method}, {some.source})"


def test_a_tree_without_support_has_neither_support_nor_verdict() -> None:
    made = Tree.from_merges([[0, 1]], [1.0])
    assert "chance" not in words(made)
    assert "verdict" not in words(made)


def test_a_verdict_has_the_numbers_of_print(some: Tree) -> None:
    assert some.verdict is not None
    assert numbers(str(some.verdict)) <= numbers(words(some.verdict))
    assert "clusters" in words(some.verdict)
    none = Verdict(branches=1, flat=0.2, p=0.5, groups=0, levels=0, nesting=np.nan, along=False, draws=3, agreed=2)
    assert "no structure detected" in words(none)
    assert "2 of 3" in words(none)


def test_a_branch_has_the_numbers_of_print() -> None:
    branch = Branch(7, 3000, 0.95, {EVIL: 0.5}, (Difference(EVIL, -2.0, -2.5, -1.5, alone=True),), (3, 14))
    assert numbers(str(branch)) <= numbers(words(branch))
    assert EVIL in words(branch)
    assert "alone" in words(branch)


def test_branches_of_a_tree_are_shown(some: Tree, x: np.ndarray) -> None:
    for branch in branches(some, x):
        assert numbers(str(branch)) <= numbers(words(branch))


def test_a_taxonomy_has_the_groups_of_print_and_escapes_their_names(some: Tree, x: np.ndarray) -> None:
    made = taxonomy(some, [3], x=x, name=lambda examples, told: EVIL)
    shown = words(made)
    for group in made.groups[0]:
        assert group.name in shown
        assert f"{group.rows:,}" in shown
        assert f"{group.support:.2f}" in shown
    assert repr(made) == "Taxonomy(60 rows in 3 groups)"


def test_groups_of_a_level_stand_under_those_that_hold_them() -> None:
    found = taxonomy(Tree.from_merges([[0, 1], [2, 3], [4, 5]], [1.0, 2.0, 5.0]), [2, 4])
    cells = re.findall(r"<tr><td[^>]*>(.*?)</td>", found._repr_html_())
    assert [cell.count("&emsp;") for cell in cells] == [2 * line.startswith("  ") for line in str(found).splitlines()]


def test_many_groups_are_counted_and_not_shown() -> None:
    merges = [[0, 1], *([k + 1, 40 + k - 1] for k in range(1, 39))]
    made = taxonomy(Tree.from_merges(merges, np.arange(1.0, 40.0)), [40])
    assert "20 more groups" in words(made)


def test_rows_that_were_placed_have_a_short_repr_and_a_table() -> None:
    names, n = (("fruit",), (EVIL, "pear")), 500
    placed = Placed(np.tile([0, 0], (n, 1)), np.tile([0.9, 0.4], (n, 1)), names, np.tile([0.97, 0.6], (n, 1)))
    assert repr(placed) == "Placed(500 rows, 500 of them in a group at a coverage of 0.9)"
    shown = words(placed)
    assert f"fruit › {EVIL}" in shown
    assert "0.90 › 0.40" in shown
    assert "480 more rows" in shown
    assert repr(Placed(placed.path, placed.probability)) == "Placed(500 rows)"
    assert "more rows" in words(Placed(placed.path, placed.probability))


def test_a_check_has_what_print_has(x: np.ndarray) -> None:
    found = hb.check(x)
    for line in str(found).splitlines():
        assert line in words(found)


def test_a_fitted_model_is_a_table_and_another_a_diagram(x: np.ndarray) -> None:
    model = hb.PoincareVAE(max_epochs=2, hidden=(8,), random_state=0)
    assert "sk-" in model._repr_html_()
    model.fit(x)
    assert {"60", "6", "2"} <= numbers(words(model))
    assert f"{model.history_[-1]['loss']:.4g}" in words(model)
    assert model._repr_mimebundle_()["text/html"] == model._repr_html_()
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()


def test_a_fitted_graph_is_a_table() -> None:
    model = hb.PoincareGraphVAE(max_epochs=2, random_state=0).fit([(0, 1), (1, 2), (2, 3)])
    assert {"nodes", "edges", "4", "3"} <= set(words(model).split())


def test_a_model_of_cells_is_a_table() -> None:
    cells = hb.cells.simulate(depth=2, cells=60, genes=30)
    model = hb.cells.fit(cells, max_epochs=1, hidden=(8,), n_neighbors=None)
    assert {"cells", "60", "genes", "30"} <= set(words(model).split())


def test_a_long_text_is_cut() -> None:
    assert len(html_table("", [("a", "b" * 10_000)])) < 1_000


def test_an_empty_taxonomy_is_shown() -> None:
    assert "0 groups" in words(Taxonomy(np.full((3, 1), -1), ((),)))
