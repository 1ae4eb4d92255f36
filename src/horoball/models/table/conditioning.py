"""What a row gives beside what is modeled of it: the categories it belongs to, and how many counts it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Conditioning", "one_hot"]


class Conditioning(NamedTuple):
    """What p(x | z) is conditioned on; nothing, for most models.

    Note [Rows]: a row of a model with covariates is its features, followed by one column for each covariate that holds
    the number of the row's category. So a row carries all that is given, wherever rows go. The library is the sum of
    its features.

    Example:
        >>> Conditioning(library=torch.tensor([1200.0, 5300.0])).covariates is None
        True
    """

    covariates: Tensor | None = None  # one-hot, (*rows, categories of all covariates)
    library: Tensor | None = None  # ℓ, (*rows)


def one_hot(codes: Tensor, sizes: Sequence[int]) -> Tensor:
    """Categories as zeros and ones, one block of columns for each covariate.

    Args:
        codes: Numbers of the categories, shape (*rows, covariates). A number that is none, as −1, makes zeros.
        sizes: How many categories each covariate has. Of 1, the number itself is taken: the covariate is one.

    Example:
        >>> one_hot(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), (2, 3))
        tensor([[0., 1., 1., 0., 0.],
                [1., 0., 0., 0., 1.]])
    """
    if codes.shape[-1] != len(sizes):
        raise ValueError(f"one_hot expects {len(sizes)} covariates, got {codes.shape[-1]}.")
    blocks = [
        codes[..., [k]] if size == 1 else (codes[..., [k]] == torch.arange(size, device=codes.device)).to(codes.dtype)
        for k, size in enumerate(sizes)
    ]
    return torch.cat(blocks, -1)
