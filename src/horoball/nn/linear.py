"""torch's linear layer, with its initial weights from a given generator."""

from __future__ import annotations

import math

import torch
from torch import nn

__all__ = ["linear"]


def linear(
    in_features: int, out_features: int, bias: bool = True, *, generator: torch.Generator | None = None
) -> nn.Linear:
    """`torch.nn.Linear`, whose constructor can only draw from the global generator; the weights are the same.

    Args:
        in_features: Size of the input.
        out_features: Size of the output.
        bias: Whether there is a bias.
        generator: Where the initial weights come from; torch's global generator if not given.

    Example:
        >>> layer = linear(3, 2, generator=torch.Generator().manual_seed(0))
        >>> _ = torch.manual_seed(0)
        >>> torch.equal(layer.weight, nn.Linear(3, 2).weight)
        True
    """
    layer = nn.utils.skip_init(nn.Linear, in_features, out_features, bias, device=torch.get_default_device())
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
    if bias:
        bound = 1 / math.sqrt(max(1, in_features))
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return layer
