from __future__ import annotations

import numpy as np
import pytest

from horoball.trees import Tree, taxonomy, tree
from horoball.trees.taxonomy import Words

CENTERS = np.repeat(np.eye(6, 9), 10, 0) + np.repeat(np.eye(3, 9, 6), 20, 0)
# Every column comes five times: no branch rests on a single one, which replicates would miss.
X = np.repeat(CENTERS, 5, 1) + 0.05 * np.random.default_rng(0).normal(size=(60, 45))
KINDS = ("apple fruit", "pear fruit", "oak tree", "elm tree", "car wheel", "bus wheel")
TEXTS = [f"the {KINDS[i // 10]} number {i}" for i in range(60)]


@pytest.fixture(scope="module")
def grown() -> Tree:
    return tree(X, method="average", draws=10, standardize=False)


def test_groups_are_named_by_the_words_that_their_siblings_lack(grown: Tree) -> None:
    found = taxonomy(grown, [6, 3], x=X, texts=TEXTS)
    assert [group.name.split(", ")[0] for group in found.groups[0]] == ["fruit", "tree", "wheel"]
    assert [group.words[0] for group in found.groups[1]] == [kind.split()[0] for kind in KINDS]
    assert "fruit" not in found.groups[1][0].words  # which its sibling has too
    assert [group.parent for group in found.groups[1]] == [0, 0, 1, 1, 2, 2]
    assert all(group.support is not None and group.support > 0.8 for level in found.groups for group in level)
    assert found.groups[1][3].exemplars[0] // 10 == 3
    assert found.names[1][59] == found.groups[1][5].name
    assert str(found).splitlines()[1].startswith("  apple")


def test_the_same_seed_gives_the_same_names(grown: Tree) -> None:
    again = tree(X, method="average", draws=10, standardize=False)
    assert str(taxonomy(again, [3, 6], texts=TEXTS)) == str(taxonomy(grown, [3, 6], texts=TEXTS))


def test_without_texts_columns_name_groups_and_without_both_numbers(grown: Tree) -> None:
    columns = [f"column {i}" for i in range(45)]
    named = taxonomy(grown, [6], x=X, columns=columns).groups[0]
    assert named[4].name.split(" +")[0] in columns[20:25]
    assert [group.name for group in taxonomy(grown, [2]).groups[0]] == ["group 0", "group 1"]


def test_a_function_may_name_groups_from_examples_and_words(grown: Tree) -> None:
    asked = []

    def name(examples: list[str], words: list[str]) -> str:
        asked.append((examples, words))
        return "thing"

    found = taxonomy(grown, [3], x=X, texts=TEXTS, name=name)
    assert [group.name for group in found.groups[0]] == ["thing", "thing (2)", "thing (3)"]
    assert len(asked[0][0]) == 5
    assert "fruit" in asked[0][0][0]
    assert asked[0][1][0] == "fruit"


def test_words_that_are_none_and_texts_of_other_rows_are_refused(grown: Tree) -> None:
    with pytest.raises(ValueError, match="hold no words"):
        Words(["1 2", "the"])
    with pytest.raises(ValueError, match="texts must hold one entry per row of the tree: got 2 for 60"):
        taxonomy(grown, [3], texts=["a", "b"])
