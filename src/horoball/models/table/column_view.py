"""What an encoder sees of a row of a mixed table: numbers of each column's kind, and which values are missing."""

from __future__ import annotations

import torch
from torch import Tensor

from horoball.likelihoods.mixed import column_groups
from horoball.numerics.constants import Constants

__all__ = ["ColumnView"]


class ColumnView(Constants):
    """Rows as the encoder's network sees them: numbers as they are, categories one-hot, months on a circle.

    A missing value is seen as 0 in all numbers of its column, and as 1 in a mark of its own.

    Args:
        columns: The likelihood of each column; see `horoball.likelihoods.mixed.column_groups`.
        features: Number of columns.

    Example:
        >>> view = ColumnView("normal,categorical:3", 2)
        >>> view(torch.tensor([[0.5, 2.0], [torch.nan, 0.0]]))
        tensor([[0.5000, 0.0000, 0.0000, 1.0000, 0.0000, 0.0000],
                [0.0000, 1.0000, 0.0000, 0.0000, 1.0000, 0.0000]])
    """

    order: Tensor
    owners: Tensor

    def __init__(self, columns: str, features: int) -> None:
        super().__init__()
        self.groups = column_groups(columns, features)
        self.keep_constants()
        self.numbers, self.size = len(self.owners), len(self.owners) + features

    def constants(self) -> dict[str, Tensor]:
        """Where the columns of the groups are, and whose each number is."""
        order = [feature for group in self.groups for feature in group.features]
        owners = [group.features[i] for group in self.groups for i in group.kind.network_owners(group.sizes)]
        return {"order": torch.tensor(order), "owners": torch.tensor(owners)}

    def values(self, x: Tensor) -> Tensor:
        """The numbers alone, without marks, shape (*batch, numbers)."""
        there = ~x.isnan()
        sizes = [len(group.features) for group in self.groups]
        parts = torch.where(there, x, 1.0).index_select(-1, self.order).split(sizes, -1)
        seen = [group.kind.network_input(part, group.sizes) for group, part in zip(self.groups, parts, strict=True)]
        return torch.where(there.index_select(-1, self.owners), torch.cat(seen, -1), 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Numbers and marks, shape (*batch, size)."""
        return torch.cat((self.values(x), x.isnan().to(x.dtype)), -1)
