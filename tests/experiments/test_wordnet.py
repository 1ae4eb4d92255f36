from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from experiments import wordnet
from experiments.wordnet_data import Taxonomy, wordnet_folder, wordnet_nouns

# A dog, of two words, and a cat are animals; Rex is an instance of a dog; a mutt, of ten words, is a dog and a cat, and
# has a pointer of another kind, to a verb; Dog, the second sense of that word, has no relations.
DATA = """\
  1 This software and database is being provided to you, the LICENSEE, by
  2 Princeton University under the following license.
00000100 03 n 01 animal 0 002 ~ 00000200 n 0000 ~ 00000300 n 0000 | it moves @ 00000600 n 0000
00000200 05 n 02 dog 0 Canis_familiaris 0 002 @ 00000100 n 0000 ~i 00000400 n 0000 | it barks
00000300 05 n 01 cat 0 001 @ 00000100 n 0000 | it does not | bark
00000400 18 n 01 Rex 0 001 @i 00000200 n 0000 | a dog
00000500 05 n 0a mutt 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j 0 003 @ 00000200 n 0000 + 00000200 v 0101 @ 00000300 n 0000
00000600 17 n 01 Dog 0 000 | a planet
"""
INDEX = """\
  1 This software and database is being provided to you, the LICENSEE, by
animal n 1 1 ~ 1 1 00000100
canis_familiaris n 1 1 @ 1 0 00000200
cat n 1 1 @ 1 1 00000300
dog n 2 2 @ ~ 2 1 00000200 00000600
mutt n 1 2 @ + 1 0 00000500
rex n 1 1 @ 1 0 00000400
"""


def _installed() -> bool:
    try:
        wordnet_folder()
    except FileNotFoundError:
        return False
    return True


with_wordnet = pytest.mark.skipif(not _installed(), reason="WordNet is not installed: apt-get install wordnet-base")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.noun").write_text(DATA)
    (tmp_path / "index.noun").write_text(INDEX)
    return tmp_path


def test_synsets_are_named_by_first_word_and_sense(folder: Path) -> None:
    names = ["animal.n.01", "dog.n.01", "cat.n.01", "rex.n.01", "mutt.n.01", "dog.n.02"]
    assert wordnet_nouns(folder).names.tolist() == names


def test_hypernyms_of_kinds_and_instances_are_parents(folder: Path) -> None:
    assert wordnet_nouns(folder).parents.tolist() == [[1, 0], [2, 0], [3, 1], [4, 1], [4, 2]]


def test_closure_has_every_ancestor_once(folder: Path) -> None:
    closure = wordnet_nouns(folder).closure
    assert closure.dtype == torch.int64
    assert closure.tolist() == [[1, 0], [2, 0], [3, 0], [3, 1], [4, 0], [4, 1], [4, 2]]


def test_subtree_keeps_the_pairs_within_it(folder: Path) -> None:
    part = wordnet_nouns(folder).below("dog.n.01")
    assert part.names.tolist() == ["dog.n.01", "rex.n.01", "mutt.n.01"]
    assert part.parents.tolist() == part.closure.tolist() == [[1, 0], [2, 0]]


def test_closure_equals_reachability_in_random_taxonomies() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = int(rng.integers(2, 30))
        related = np.tril(rng.random((n, n)) < 0.15, -1)
        tree = Taxonomy.of(np.arange(n).astype(str), torch.from_numpy(np.argwhere(related)))
        reach = np.linalg.matrix_power(np.eye(n) + related, n) - np.eye(n) > 0
        assert tree.closure.tolist() == np.argwhere(reach).tolist()


def test_the_rule_is_scored_as_by_sorting() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        n = int(rng.integers(3, 30))
        related = np.tril(rng.random((n, n)) < 0.15, -1)
        related[1, 0] = True
        tree = Taxonomy.of(np.arange(n).astype(str), torch.from_numpy(np.argwhere(related)))
        reach = np.zeros((n, n), bool)
        reach[tree.closure[:, 0], tree.closure[:, 1]] = True
        descendants = reach.sum(0)
        ranks, precisions = [], []
        for u in np.flatnonzero(reach.any(1)):
            others = np.arange(n) != u
            wrong = ~reach[u] & others
            ranks += [1 + (wrong & (descendants >= descendants[v])).sum() for v in np.flatnonzero(reach[u])]
            precisions.append(average_precision_score(reach[u][others], descendants[others]))
        found = wordnet.general_first(tree)
        assert (found.mean_rank, found.map) == pytest.approx((np.mean(ranks), np.mean(precisions)))


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="its own ancestor"):
        Taxonomy.of(np.array(["a", "b", "c"]), torch.tensor([[0, 1], [1, 2], [2, 0]]))


def test_an_unknown_root_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="no 'mammal'"):
        wordnet_nouns(folder).below("mammal")


def test_files_that_do_not_fit_together_are_refused(folder: Path) -> None:
    (folder / "index.noun").write_text(INDEX.replace("00000400", "00000401"))
    with pytest.raises(ValueError, match=r"synset 00000400 under 'rex'.*again"):
        wordnet_nouns(folder)
    (folder / "index.noun").write_text(INDEX)
    (folder / "data.noun").write_text(DATA.replace("@ 00000300", "@ 00000301"))
    with pytest.raises(ValueError, match="points to synset 00000301"):
        wordnet_nouns(folder)


def test_missing_files_say_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="apt-get install wordnet-base"):
        wordnet_folder()


def test_the_variable_of_wordnet_names_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WNSEARCHDIR", str(folder))
    assert wordnet_nouns().nodes == 6


@with_wordnet
def test_wordnet_has_the_published_counts() -> None:
    nouns = wordnet_nouns()
    assert (nouns.nodes, len(nouns.closure)) == wordnet.PUBLISHED["nouns"]
    assert len(np.unique(nouns.names)) == nouns.nodes
    roots = np.setdiff1d(np.arange(nouns.nodes), nouns.parents[:, 0])
    assert nouns.names[roots].tolist() == ["entity.n.01"]
    said = wordnet.parts_table()
    assert "| nouns | 82,115 | 84,427 | 743,241 |" in said
    assert "| mammals | 1,182 | 1,182 | 6,542 |" in said


@with_wordnet
def test_a_cat_is_what_it_should_be() -> None:
    mammals = wordnet.taxonomy("mammals")
    cat = mammals.names.tolist().index("cat.n.01")
    ancestors = mammals.names[mammals.closure[mammals.closure[:, 0] == cat, 1]]
    assert set(ancestors) == {"mammal.n.01", "placental.n.01", "carnivore.n.01", "feline.n.01"}
