"""Fully connected networks with ReLU between layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from horoball.nn.linear import linear

__all__ = ["mlp"]


def mlp(
    in_features: int,
    hidden: Sequence[int],
    out_features: int,
    first: nn.Module | None = None,
    *,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Linear layers with ReLU between them, as in the paper's architectures (App. C).

    Args:
        in_features: Size of the input.
        hidden: Sizes of the hidden layers; none for a single linear layer.
        out_features: Size of the output.
        first: A layer from in_features to the first hidden size, in place of a linear one.
        generator: Where the initial weights come from; torch's global generator if not given.

    Example:
        >>> [type(layer).__name__ for layer in mlp(784, [600], 10)]
        ['Linear', 'ReLU', 'Linear']
    """
    sizes = [in_features, *hidden, out_features]
    layers: list[nn.Module] = []
    for index, (size_in, size_out) in enumerate(pairwise(sizes)):
        if index:
            layers.append(nn.ReLU())
        layers.append(first if first is not None and index == 0 else linear(size_in, size_out, generator=generator))
    return nn.Sequential(*layers)
