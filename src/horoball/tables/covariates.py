"""What rows belong to and a model is given: batches, donors, chemistries; and numbers, such as a share of counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.tables.cell_values import is_missing

NUMBER = "(number)"  # in place of the categories of a covariate that is a number

_MIN_VALUES_TO_JUDGE = 10  # values that may well be as many as rows


@dataclass(frozen=True, eq=False)
class Covariates:
    """Named categories of rows, and which of them each row has.

    A table with covariates hands out rows of its features followed by a column of codes for each covariate.

    Example:
        >>> batches = Covariates.of({"batch": ["b", "a", "b"]})
        >>> batches.categories, batches.sizes, batches.codes.tolist()
        ({'batch': ['a', 'b']}, (2,), [[1], [0], [1]])
    """

    categories: dict[str, list[str]]  # of each covariate, in the order of their codes; [NUMBER] for a number
    codes: np.ndarray  # int64, (rows, covariates); float64 if some are numbers

    @classmethod
    def of(cls, columns: Mapping[str, Any], numbers: Mapping[str, np.ndarray] | None = None) -> Covariates:
        """From a value for each row; values are told apart as text, 1 and 1.0 alike, and sorted.

        Args:
            columns: Categories.
            numbers: Covariates that are numbers, of mean 0 and standard deviation 1; see `scaling_of`.
        """
        categories: dict[str, list[str]] = {}
        codes = []
        for name, values in columns.items():
            array = np.asarray(values, dtype=object)
            missing = [i for i, value in enumerate(array) if is_missing(value)]
            if missing:
                raise ValueError(
                    f"The covariate {name!r} is missing in {len(missing):,} rows, first in row {missing[0]}. Fill "
                    "it, or drop these rows."
                )
            found, code = np.unique([category_name(value) for value in array], return_inverse=True)
            if len(found) > max(_MIN_VALUES_TO_JUDGE, len(array) // 2):
                raise ValueError(
                    f"The covariate {name!r} has {len(found):,} values in {len(array):,} rows, such as "
                    f"{str(found[0])[:40]!r}: it does not group them. Give a column of batches; of cells, numbers are "
                    "given by continuous_key."
                )
            categories[str(name)] = [str(value) for value in found]
            codes.append(code)
        if not numbers:
            return cls(categories, np.stack(codes, 1).astype(np.int64))
        categories |= {str(name): [NUMBER] for name in numbers}
        return cls(categories, np.stack([*codes, *numbers.values()], 1).astype(np.float64))

    @property
    def groups(self) -> np.ndarray:
        """Which combination of categories each row has, a number; numbers do not count."""
        kept = [i for i, names in enumerate(self.categories.values()) if names != [NUMBER]]
        return np.unique(self.codes[:, kept], axis=0, return_inverse=True)[1].ravel()

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many categories each covariate has; 1 for a number."""
        return tuple(map(len, self.categories.values()))

    def take(self, index: np.ndarray) -> Covariates:
        """Those of some rows."""
        return Covariates(self.categories, self.codes[index])

    def beside(self, x: Tensor, index: Any) -> Tensor:
        """Rows of features with their codes after them."""
        return torch.cat((x, torch.from_numpy(self.codes[index]).to(x.dtype)), 1)

    def recoded(self, categories: Mapping[str, Sequence[str]]) -> Covariates:
        """The same with the codes of other categories, which must have all that occur."""
        codes = []
        for name, known in categories.items():
            if name not in self.categories:
                raise ValueError(
                    f"The model was fitted with the covariate {name!r}; the rows have none of that name. Add it."
                )
            mine = self.categories[name]
            column = self.codes[:, list(self.categories).index(name)]
            if (mine == [NUMBER]) != (list(known) == [NUMBER]):
                raise ValueError(f"The covariate {name!r} is a number for the model or for the rows, but not for both.")
            if mine == [NUMBER]:
                codes.append(column)
                continue
            column = column.astype(np.int64)
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


def finite_numbers(name: str, values: Any) -> np.ndarray:
    """The values of a covariate that is a number.

    Example:
        >>> finite_numbers("depth", [1.0, float("nan")])
        Traceback (most recent call last):
        ...
        ValueError: The covariate 'depth' is missing or infinite in some rows. Fill it, or drop these rows.
    """
    x = np.asarray(values)
    if x.dtype.kind not in "biuf":  # text that looks like a number is a name, as of a plate
        raise ValueError(f"The covariate {name!r} holds text. Give it as a batch key.")
    x = x.astype(np.float64)
    if not np.isfinite(x).all():
        raise ValueError(f"The covariate {name!r} is missing or infinite in some rows. Fill it, or drop these rows.")
    return x


def scaling_of(name: str, values: Any) -> tuple[float, float]:
    """Mean and standard deviation of a covariate that is a number.

    Example:
        >>> scaling_of("depth", [1.0, 3.0])
        (2.0, 1.0)
    """
    x = finite_numbers(name, values)
    if x.std() == 0:
        raise ValueError(f"The covariate {name!r} is {x[0]:g} in all rows, so there is nothing to correct for.")
    return float(x.mean()), float(x.std())


def category_name(value: Any) -> str:
    """A category as text, 1 and 1.0 alike.

    Example:
        >>> category_name(1.0), category_name("1")
        ('1', '1')
    """
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)
