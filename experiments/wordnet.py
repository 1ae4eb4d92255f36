"""WordNet's nouns and the mammals among them, as taxonomies: `python -m experiments.wordnet`.

Prints how many synsets, pairs (child, parent) and pairs (descendant, ancestor) each part has, beside what Nickel and
Kiela (2017) have, and how well ancestors are found by a rule that needs no embedding.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from benchmarks.table import markdown
from experiments.wordnet_data import Taxonomy, wordnet_nouns

ROOTS = {"mammals": "mammal.n.01", "nouns": "entity.n.01"}
PUBLISHED = {"mammals": (1_180, 6_540), "nouns": (82_115, 743_241)}  # synsets, pairs of the closure


class Ranking(NamedTuple):
    """How well the ancestors of each node are found: the mean of their ranks, and the mean average precision.

    Example:
        >>> Ranking(1.0, 1.0).mean_rank
        1.0
    """

    mean_rank: float
    map: float


def taxonomy(part: str) -> Taxonomy:
    """A part of WordNet: "mammals", or "nouns", which is all that is an entity.

    Args:
        part: Which part.

    Example:
        >>> taxonomy("mammals").nodes  # doctest: +SKIP
        1182
    """
    return wordnet_nouns().below(ROOTS[part])


def general_first(tree: Taxonomy) -> Ranking:
    """Ancestors found by a rule: whatever is asked, the nodes in one order, those with most descendants first.

    The rank of an ancestor leaves out the other ancestors, and counts from 1; of nodes with as many descendants, an
    ancestor comes last.

    Example:
        >>> import torch
        >>> chain = Taxonomy.of(np.array(["animal", "mammal", "cat"]), torch.tensor([[2, 1], [1, 0]]))
        >>> general_first(chain)
        Ranking(mean_rank=1.0, map=1.0)
    """
    u, v = tree.closure.numpy().T
    place = rankdata(-np.bincount(v, minlength=tree.nodes), method="max").astype(np.int64)[v]
    # A node has fewer descendants than its ancestors, so that it is never in front of them.
    first = u * (tree.nodes + 1)  # keys that order the pairs by u, then by place
    keys = np.sort(first + place)
    ancestors = np.searchsorted(keys, first + place, "right") - np.searchsorted(keys, first)  # up to that place
    precision = np.bincount(u, ancestors / place)[np.unique(u)] / np.unique(u, return_counts=True)[1]
    return Ranking(float((place - ancestors + 1).mean()), float(precision.mean()))


def main() -> int:
    """Print a table."""
    lines = []
    for part, published in PUBLISHED.items():
        tree = taxonomy(part)
        counts = [f"{count:,}" for count in (tree.nodes, len(tree.parents), len(tree.closure))]
        rule = general_first(tree)
        said = " / ".join(f"{count:,}" for count in published)
        lines.append([part, *counts, said, f"{rule.mean_rank:.1f} / {rule.map:.3f}"])
    head = ["WordNet", "synsets", "parents", "closure", "published, synsets / closure", "rule, mean rank / MAP"]
    print(markdown(head, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
