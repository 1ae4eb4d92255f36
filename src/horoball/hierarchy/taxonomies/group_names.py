"""What a group is called: the words, or the columns, that tell it from its siblings.

Note [Words]: of a word, p is the share of the group's texts that hold it and q that of its siblings' texts. Its weight
is p log(p/q), the word's part in how well texts tell the group from its siblings: TF-IDF with the siblings in the place
of all other texts. A word that all siblings share says nothing, however rare it is elsewhere; a word of a single text
says little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from horoball.hierarchy.trees.branches import differences

__all__ = ["NameGroup", "Words", "columns_of", "distinct", "siblings_of"]

NameGroup = Callable[[list[str], list[str]], str]  # texts of some members, words: a name

_CLEAR = 1.2  # how much more frequent than in its siblings a word has to be
_WORD = r"(?u)\b[^\W\d_][\w-]+\b"  # two letters or more, and no number by itself


def siblings_of(levels: np.ndarray, level: int, number: int) -> np.ndarray:
    """Rows of the other groups in the same group of the level above; of all others at the first level.

    Example:
        >>> siblings_of(np.array([[0, 0], [0, 1], [1, 2], [-1, -1]]), 1, 0).tolist()
        [1]
    """
    here = levels[:, level] == number
    beside = ~here & (levels[:, level] >= 0)
    if level:
        beside &= levels[:, level - 1] == levels[np.argmax(here), level - 1]
    if not beside.any():  # an only child is told from all others
        beside = ~here
    return np.flatnonzero(beside)


class Words:
    """Words that tell some texts from others, see Note [Words]; all texts are counted once.

    Args:
        texts: One text per row.
        stop_words: Words to leave out; scikit-learn's list of English ones if not given.

    Example:
        >>> words = Words(["red apple", "green apple", "red car", "fast car"])
        >>> words([0, 1], [2, 3])
        ['apple', 'green']
    """

    def __init__(self, texts: Sequence[str], stop_words: Sequence[str] | str | None = "english") -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        held = [str(text) for text in texts]
        stop: Any = list(stop_words) if stop_words is not None and not isinstance(stop_words, str) else stop_words
        counter = CountVectorizer(binary=True, stop_words=stop, token_pattern=_WORD, dtype=np.float32)
        try:
            self._holds = counter.fit_transform(held).tocsr()
        except ValueError:
            raise ValueError("The texts hold no words to name groups by. Give another column of texts.") from None
        self._words = counter.get_feature_names_out()

    def __call__(self, here: ArrayLike, beside: ArrayLike, most: int = 5) -> list[str]:
        """The words of the greatest weight, largest first; fewer if fewer are more frequent than in the others."""
        here, beside = np.asarray(here), np.asarray(beside)
        count = np.asarray(self._holds[here].sum(0)).ravel()
        other = np.asarray(self._holds[beside].sum(0)).ravel()
        p, q = (count + 0.5) / (len(here) + 1), (other + 0.5) / (len(beside) + 1)  # half a text, so that none is 0
        weight = np.where((count > 0) & (p > _CLEAR * q), p * np.log(p / q), 0.0)
        order = np.lexsort((self._words, -weight))[:most]  # by the alphabet where weights are equal
        return [str(self._words[i]) for i in order if weight[i] > 0]


def columns_of(x: np.ndarray, columns: Sequence[str], here: np.ndarray, beside: np.ndarray, most: int = 3) -> list[str]:
    """Columns that tell some rows from others, with the signs of their standardized differences, largest first.

    Example:
        >>> x = np.array([[0.0, 1.0], [0.1, 0.9], [5.0, 1.1], [5.1, 0.8]])
        >>> columns_of(x, ["height", "width"], np.array([2, 3]), np.array([0, 1]))
        ['height +']
    """
    apart = differences(x[here], x[beside], list(columns))[:most]
    return [f"{one.column} {'+' if one.value > 0 else '-'}" for one in apart]


def distinct(names: Sequence[str]) -> list[str]:
    """The same names, with numbers where one comes again.

    Example:
        >>> distinct(["cats", "dogs", "cats"])
        ['cats', 'dogs', 'cats (2)']
    """
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return out
