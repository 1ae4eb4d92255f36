"""The likelihood of a mixed table: a product of likelihoods, one for each group of columns of one kind.

The groups are weighed by likelihood alone, as the product says: a column counts for as many nats as it has to tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, constraints

from horoball.geometry.kernels import may_hold
from horoball.likelihoods.discrete import Levels
from horoball.likelihoods.likelihood import LIKELIHOODS, Likelihood

_MOST_LEVELS = 1 << 20  # of one feature: more are a damaged file


class Group(NamedTuple):
    """Features that share a likelihood."""

    likelihood: str
    features: tuple[int, ...]  # numbers of the columns
    sizes: tuple[int, ...]  # levels of each, 0 for those without

    @property
    def kind(self) -> type[Likelihood]:
        """The class of the likelihood."""
        return LIKELIHOODS[self.likelihood]

    def make(self) -> Likelihood:
        """The likelihood of these features."""
        options: dict[str, Any] = {"classes": self.sizes} if "classes" in self.kind.options else {}
        if "learn_scale" in self.kind.options:
            options["learn_scale"] = True
        return self.kind(len(self.features), **options)


def column_groups(columns: str, features: int) -> list[Group]:
    """Groups of features from a description: for each feature the name of a likelihood, with its levels if it has some.

    Features with levels are grouped with those that have at most twice as many, so that little is filled up.

    Args:
        columns: Names separated by commas, such as "normal,categorical:5,normal".
        features: How many there have to be.
    """
    tokens = [token.partition(":") for token in columns.split(",")]
    if len(tokens) != features:
        raise ValueError(f"The likelihood mixed needs a kind for each of {features} features, got {len(tokens)}.")
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for number, (name, _, levels) in enumerate(tokens):
        if name == Mixed.name:
            raise ValueError("The likelihood mixed cannot be a part of itself.")
        takes = "classes" in LIKELIHOODS[name].options
        size = int(levels) if levels.isdecimal() and len(levels) < 8 else 0
        if takes != bool(levels) or (takes and not 2 <= size <= _MOST_LEVELS):
            raise ValueError(
                f"The description {':'.join((name, levels))[:40]!r} of column {number} has no valid levels."
            )
        found.setdefault((name, size.bit_length()), []).append((number, size))
    return [Group(name, *map(tuple, zip(*members, strict=True))) for (name, _), members in found.items()]


class Product(Distribution):
    """Independent groups of features, some of whose values may be missing (NaN): these leave `log_prob`.

    Args:
        parts: The likelihood of each group and the distribution that it made.
        order: Features of the groups one after the other, as their columns in a row.
        back: The inverse of this permutation.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012
    support = constraints.independent(constraints.real, 1)

    def __init__(self, parts: Sequence[tuple[Likelihood, Distribution]], order: Tensor, back: Tensor) -> None:
        self.parts, self._order, self._back = list(parts), order, back
        self._sizes = [likelihood.features for likelihood, _ in parts]
        super().__init__(parts[0][1].batch_shape, torch.Size([len(order)]), validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum over all features that were observed."""
        x = value.index_select(-1, self._order)
        missing = x.isnan()
        gaps = may_hold(missing)
        total: Any = 0.0
        for (likelihood, part), mine, gone in zip(
            self.parts, x.split(self._sizes, -1), missing.split(self._sizes, -1), strict=True
        ):
            if gaps and may_hold(gone):
                filled = torch.where(gone, 1.0, mine)  # 1 is possible for every kind
                total = total + likelihood.observed_log_prob(part, filled, ~gone)
            else:
                total = total + part.log_prob(mine)
        return total

    @torch.no_grad()
    def sample(self, sample_shape: Any = (), generator: torch.Generator | None = None) -> Tensor:
        """Rows without gaps."""
        parts: list[Any] = [part for _, part in self.parts]
        drawn = [part.sample(torch.Size(sample_shape), generator=generator).float() for part in parts]
        return torch.cat(drawn, -1).index_select(-1, self._back)

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Numbers of the groups' features in the order of the columns."""
        return torch.cat(list(parts), -1).index_select(-1, self._back)

    @property
    def mean(self) -> Tensor:
        """One row for a distribution of rows: the point estimate of each group."""
        estimates = [likelihood.point_estimate(part) for likelihood, part in self.parts]
        return self.joined([each if each.is_floating_point() else each.float() for each in estimates])


class Mixed(Likelihood):
    """A product of likelihoods over groups of features; values that are missing (NaN) leave it.

    Args:
        features: Number of features.
        columns: The likelihood of each, as `column_groups` takes it; empty if all are normal.

    Example:
        >>> likelihood = Mixed(3, columns="normal,bernoulli,categorical:4")
        >>> x = torch.tensor([[0.0, 1.0, 3.0], [0.0, torch.nan, torch.nan]])
        >>> likelihood(torch.zeros(2, likelihood.outputs)).log_prob(x).detach()
        tensor([-2.9984, -0.9189])
    """

    name = "mixed"
    options = ("columns",)
    order: Tensor
    back: Tensor

    def __init__(self, features: int, columns: str = "") -> None:
        super().__init__(features)
        self.groups = column_groups(columns or ",".join(["normal"] * features), features)
        self.parts = nn.ModuleList(group.make() for group in self.groups)
        self.keep_constants()

    def constants(self) -> dict[str, Tensor]:
        """Where the columns of the groups are, and the way back."""
        order = torch.tensor([feature for group in self.groups for feature in group.features])
        return {"order": order, "back": order.argsort()}

    @property
    def outputs(self) -> int:
        """Those of all groups."""
        return sum(self._outputs)

    @property
    def _outputs(self) -> list[int]:
        return [part.outputs for part in self._parts]

    @property
    def _parts(self) -> list[Likelihood]:
        return list(self.parts)  # type: ignore[arg-type]

    @property
    def domain(self) -> str:
        """What the rows hold, in words."""
        return "columns of several kinds (mixed)"

    def forward(self, h: Tensor) -> Distribution:
        """The product."""
        parts = [(part, part(mine)) for part, mine in zip(self._parts, h.split(self._outputs, -1), strict=True)]
        return Product(parts, self.order, self.back)

    def impossible(self, x: Tensor, *, whole: bool = False) -> Tensor:
        """What a column's own kind cannot hold; a missing value is possible."""
        mine = x.index_select(-1, self.order).split([part.features for part in self._parts], -1)
        bad = [
            part.impossible(torch.where(each.isnan(), 1.0, each)) for part, each in zip(self._parts, mine, strict=True)
        ]
        return torch.cat(bad, -1).index_select(-1, self.back)

    def check_rows(self, x: Tensor, first: int = 0, *, whole: bool = False) -> None:
        """Reject values that their columns cannot hold."""
        bad = self.impossible(x)
        if bool(bad.any()):
            row, column = bad.nonzero()[0].tolist()
            kind = next(part for part, group in zip(self._parts, self.groups, strict=True) if column in group.features)
            raise ValueError(
                f"Row {first + row} holds {float(x[row, column]):g} in column {column}, which is one of {kind.domain}. "
                "Give rows like those of the fit."
            )

    def split(self, each: Tensor) -> list[Tensor]:
        """Numbers of all features, apart for each group."""
        return list(each.index_select(-1, self.order).split([part.features for part in self._parts], -1))

    def start_at(self, mean: Tensor) -> Tensor:
        """The starts of all groups."""
        return torch.cat([part.start_at(mine) for part, mine in zip(self._parts, self.split(mean), strict=True)])

    def start_at_shares(self, mean: Tensor, shares: Tensor) -> Tensor:
        """The same with the shares of levels, shape (features, most levels)."""
        means, every = self.split(mean), shares.index_select(0, self.order).split([p.features for p in self._parts])
        return torch.cat(
            [
                part.start_at_shares(share) if isinstance(part, Levels) else part.start_at(mine)
                for part, mine, share in zip(self._parts, means, every, strict=True)
            ]
        )

    def start_from(self, spread: Tensor) -> None:
        """Start every group from the spread of its features."""
        for part, mine in zip(self._parts, self.split(spread), strict=True):
            part.start_from(mine)

    def point_estimate(self, distribution: Distribution) -> Tensor:
        """Those of all groups."""
        return distribution.mean
