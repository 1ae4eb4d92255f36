"""What a row gives beside what is modelled of it: the categories it belongs to, and how many counts it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Given", "one_hot"]


class Given(NamedTuple):
    """What p(x | z) is conditioned on; nothing, for most models.

    Note [Rows]: a row of a model with covariates is its features, followed by one column for each covariate that holds
    the number of the row's category. So a row carries all that is given, wherever rows go. The library is the sum of
    its features.

    Example:
        >>> Given(library=torch.tensor([1200.0, 5300.0])).covariates is None
        True
    """

    covariates: Tensor | None = None  # one-hot, (*rows, categories of all covariates)
    library: Tensor | None = None  # ℓ, (*rows)


def one_hot(codes: Tensor, sizes: Sequence[int]) -> Tensor:
    """Categories as zeros and ones, one block of columns for each covariate.

    Args:
        codes: Numbers of the categories, shape (*rows, covariates). A number that is none, as −1, makes zeros.
        sizes: How many categories each covariate has.

    Example:
        >>> one_hot(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), (2, 3))
        tensor([[0., 1., 1., 0., 0.],
                [1., 0., 0., 0., 1.]])
    """
    if codes.shape[-1] != len(sizes):
        raise ValueError(f"one_hot expects {len(sizes)} covariates, got {codes.shape[-1]}.")
    blocks = [codes[..., [k]] == torch.arange(size, device=codes.device) for k, size in enumerate(sizes)]
    return torch.cat(blocks, -1).to(codes.dtype)
