"""Categories that rows belong to and that a model is given: batches, donors, chemistries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.missing import is_missing

__all__ = ["Covariates"]

_FEW = 10  # values that may well be as many as rows


@dataclass(frozen=True, eq=False)
class Covariates:
    """Named categories of rows, and which of them each row has.

    A table with covariates hands out rows of its features followed by a column of codes for each covariate.

    Example:
        >>> batches = Covariates.of({"batch": ["b", "a", "b"]})
        >>> batches.categories, batches.sizes, batches.codes.tolist()
        ({'batch': ['a', 'b']}, (2,), [[1], [0], [1]])
    """

    categories: dict[str, list[str]]  # of each covariate, in the order of their codes
    codes: np.ndarray  # int64, (rows, covariates)

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Covariates:
        """From a value for each row; values are told apart as text, 1 and 1.0 alike, and sorted."""
        categories: dict[str, list[str]] = {}
        codes = []
        for name, values in columns.items():
            array = np.asarray(values, dtype=object)
            missing = [i for i, value in enumerate(array) if is_missing(value)]
            if missing:
                raise ValueError(
                    f"The covariate {name!r} is missing in {len(missing):,} rows, first in row {missing[0] + 1}. Fill "
                    "it, or drop these rows."
                )
            found, code = np.unique([_text(value) for value in array], return_inverse=True)
            if len(found) > max(_FEW, len(array) // 2):
                raise ValueError(
                    f"The covariate {name!r} has {len(found):,} values in {len(array):,} rows, such as "
                    f"{str(found[0])[:40]!r}: it does not group them. Give a column of batches, or bin numbers first."
                )
            categories[str(name)] = [str(value) for value in found]
            codes.append(code)
        return cls(categories, np.stack(codes, 1).astype(np.int64))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many categories each covariate has."""
        return tuple(map(len, self.categories.values()))

    def take(self, index: np.ndarray) -> Covariates:
        """Those of some rows."""
        return Covariates(self.categories, self.codes[index])

    def beside(self, x: Tensor, index: Any) -> Tensor:
        """Rows of features with their codes after them.

        Example:
            >>> Covariates.of({"batch": ["b", "a", "b"]}).beside(torch.zeros(2, 1), slice(1, 3))
            tensor([[0., 0.],
                    [0., 1.]])
        """
        return torch.cat((x, torch.from_numpy(self.codes[index]).to(x.dtype)), 1)

    def recoded(self, categories: Mapping[str, Sequence[str]]) -> Covariates:
        """The same with the codes of other categories, which must have all that occur.

        Example:
            >>> Covariates.of({"batch": ["b", "b"]}).recoded({"batch": ["a", "b"]}).codes.tolist()
            [[1], [1]]
        """
        codes = []
        for name, known in categories.items():
            if name not in self.categories:
                raise ValueError(
                    f"The model was fitted with the covariate {name!r}; the rows have none of that name. Add it."
                )
            mine = self.categories[name]
            column = self.codes[:, list(self.categories).index(name)]
            new = [mine[i] for i in np.unique(column) if mine[i] not in known]
            if new:
                raise ValueError(
                    f"The model has not seen the {name} {', '.join(map(repr, new[:5]))}{' …' if len(new) > 5 else ''}. "
                    f"It knows: {', '.join(map(repr, known[:10]))}{' …' if len(known) > 10 else ''}. "
                    "Drop these rows, or fit a model with them."
                )
            place = {category: code for code, category in enumerate(known)}
            codes.append(np.array([place.get(category, -1) for category in mine])[column])
        return Covariates({name: list(known) for name, known in categories.items()}, np.stack(codes, 1))


def _text(value: Any) -> str:
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)
