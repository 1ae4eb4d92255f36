"""The nouns of WordNet as a taxonomy, read from the database files that Debian's `wordnet-base` installs.

The files are found in the folder `WNSEARCHDIR`, as WordNet's own programs do, or where Debian puts them. Their format
is that of `man wndb`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import coo_matrix, csr_matrix
from torch import Tensor

__all__ = ["Taxonomy", "wordnet_folder", "wordnet_nouns"]

_DEBIAN = Path("/usr/share/wordnet")
_HYPERNYMS = ("@", "@i")  # a kind of, an instance of
_MIXED = "The files are damaged or of two versions: install wordnet-base again."


@dataclass(frozen=True)
class Taxonomy:
    """Things, what they are kinds of, and everything they are kinds of.

    Args:
        names: One name a node, as NLTK's: `mammal.n.01`.
        parents: Pairs (child, parent), sorted, shape (m, 2).
        closure: Pairs (descendant, ancestor), sorted, shape (k, 2): the transitive closure of `parents`.

    Example:
        >>> chain = Taxonomy.of(np.array(["animal", "mammal", "cat"]), torch.tensor([[2, 1], [1, 0]]))
        >>> chain.closure.tolist()
        [[1, 0], [2, 0], [2, 1]]
    """

    names: np.ndarray
    parents: Tensor
    closure: Tensor

    @classmethod
    def of(cls, names: np.ndarray, parents: Tensor) -> Taxonomy:
        """A taxonomy from its pairs (child, parent), in any order.

        Example:
            >>> len(Taxonomy.of(np.array(["animal", "cat"]), torch.tensor([[1, 0], [1, 0]])).parents)
            1
        """
        step = _matrix(parents, len(names))
        return cls(names, _pairs(step), _pairs(_closed(step)))

    @property
    def nodes(self) -> int:
        """How many things there are.

        Example:
            >>> Taxonomy.of(np.array(["animal", "cat"]), torch.tensor([[1, 0]])).nodes
            2
        """
        return len(self.names)

    def below(self, root: str) -> Taxonomy:
        """The part that a node rules: itself and its descendants, and the pairs among them.

        Args:
            root: Name of the node.

        Example:
            >>> tree = Taxonomy.of(np.array(["thing", "animal", "cat"]), torch.tensor([[1, 0], [2, 1]]))
            >>> tree.below("animal").names.tolist()
            ['animal', 'cat']
        """
        found = np.flatnonzero(self.names == root)
        if len(found) == 0:
            raise ValueError(f"The taxonomy has no {root!r}. Names are of the form 'mammal.n.01'.")
        kept = torch.zeros(self.nodes, dtype=torch.bool)
        kept[int(found[0])] = True
        kept[self.closure[self.closure[:, 1] == int(found[0]), 0]] = True
        number = kept.long().cumsum(0) - 1  # numbers keep their order, so sorted pairs stay sorted
        parents, closure = (number[pairs[kept[pairs].all(1)]] for pairs in (self.parents, self.closure))
        return Taxonomy(self.names[kept.numpy()], parents, closure)


def _matrix(pairs: Tensor, nodes: int) -> csr_matrix:
    i, j = pairs.numpy().T
    matrix = coo_matrix((np.ones(len(i), np.int32), (i, j)), shape=(nodes, nodes)).tocsr()
    matrix.data[:] = 1  # a pair that came twice is one pair
    return matrix


def _pairs(matrix: csr_matrix) -> Tensor:
    matrix.sort_indices()
    i, j = matrix.nonzero()
    return torch.from_numpy(np.stack((i, j), 1).astype(np.int64))


def _closed(step: csr_matrix) -> csr_matrix:
    """All pairs that one or more steps join; one product a level of the taxonomy."""
    reached, size = step, -1
    while reached.nnz != size:
        size = reached.nnz
        reached = step + reached @ step
        reached.data[:] = 1  # how many ways there are does not matter, and would overflow
    if reached.diagonal().any():
        raise ValueError("Some node is its own ancestor. A taxonomy has no cycles: drop a pair of each.")
    return reached


def wordnet_folder() -> Path:
    """Where WordNet's files are.

    Example:
        >>> wordnet_folder()  # doctest: +SKIP
        PosixPath('/usr/share/wordnet')
    """
    asked = os.environ.get("WNSEARCHDIR")
    folder = Path(asked) if asked else _DEBIAN
    if not (folder / "data.noun").exists():
        raise FileNotFoundError(
            f"WordNet's data.noun is not in {folder}. Install it with: apt-get install wordnet-base, or name its "
            "folder in the variable WNSEARCHDIR."
        )
    return folder


def wordnet_nouns(folder: Path | None = None) -> Taxonomy:
    """The noun synsets of WordNet, in the order of its file; hypernyms and hypernyms of instances are parents.

    Args:
        folder: Where `data.noun` and `index.noun` are; by default, where `wordnet_folder` finds them.

    Example:
        >>> wordnet_nouns().below("mammal.n.01").nodes  # doctest: +SKIP
        1182
    """
    folder = folder or wordnet_folder()
    senses = _senses(folder / "index.noun")
    offsets: list[int] = []
    names: list[str] = []
    ends: list[tuple[int, int]] = []  # offsets of child and parent
    for fields in _lines(folder / "data.noun"):
        # offset, file, type, number of words (hexadecimal), word and id …, number of pointers,
        # pointer: symbol, offset, part of speech, source and target …
        offset, lemma, first = int(fields[0]), fields[4].lower(), 4 + 2 * int(fields[3], 16)
        last = first + 1 + 4 * int(fields[first])
        if offset not in senses.get(lemma, ()):
            raise ValueError(f"index.noun does not name synset {offset:08d} under {lemma!r}. {_MIXED}")
        offsets.append(offset)
        names.append(f"{lemma}.n.{senses[lemma].index(offset) + 1:02d}")
        pointers = zip(fields[first + 1 : last : 4], fields[first + 2 : last : 4], strict=True)
        ends += [(offset, int(target)) for symbol, target in pointers if symbol in _HYPERNYMS]
    # Positions in the file, which is in the order of its offsets.
    known, asked = np.array(offsets, np.int64), np.array(ends, np.int64).reshape(-1, 2)
    lost = np.setdiff1d(asked, known)
    if len(lost):
        raise ValueError(f"data.noun points to synset {lost[0]:08d}, which it does not hold. {_MIXED}")
    return Taxonomy.of(np.array(names), torch.from_numpy(np.searchsorted(known, asked)))


def _senses(path: Path) -> dict[str, list[int]]:
    """The synsets of each lemma, its first sense first."""
    # lemma, part of speech, number of synsets, …, their offsets
    return {fields[0]: [int(offset) for offset in fields[-int(fields[2]) :]] for fields in _lines(path)}


def _lines(path: Path) -> Iterator[list[str]]:
    """Fields of each line, without the license, whose lines begin with spaces, and without the gloss."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.startswith(" "):
                yield line.partition(" | ")[0].split()
