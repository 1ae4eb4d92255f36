"""Euclidean layers with weights from a given generator: torch's linear, and a perceptron with ReLU in between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


def linear(
    in_features: int,
    out_features: int,
    bias: bool = True,
    *,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Linear:
    """`torch.nn.Linear`, whose constructor can only draw from the global generator; the weights are the same.

    Args:
        in_features: Size of the input.
        out_features: Size of the output.
        bias: Whether there is a bias.
        generator: Where the initial weights come from; torch's global generator if not given.
        device: Where the weights are.
        dtype: Their dtype.

    Example:
        >>> layer = linear(3, 2, generator=torch.Generator().manual_seed(0))
        >>> _ = torch.manual_seed(0)
        >>> torch.equal(layer.weight, nn.Linear(3, 2).weight)
        True
    """
    layer: nn.Linear = _Undrawn(in_features, out_features, bias, device, dtype)
    layer.__class__ = nn.Linear
    reset_linear(layer.weight, layer.bias, generator)
    return layer


class _Undrawn(nn.Linear):
    """A linear layer whose weights are not drawn yet; `nn.utils.skip_init` would import sympy, which takes a second."""

    def reset_parameters(self) -> None:
        pass


def reset_linear(weight: Tensor, bias: Tensor | None, generator: torch.Generator | None = None) -> None:
    """Draw weights as `torch.nn.Linear.reset_parameters` does, from a given generator.

    Example:
        >>> weight = torch.empty(2, 3)
        >>> reset_linear(weight, None, torch.Generator().manual_seed(0)); bool(weight.abs().max() < 3**-0.5)
        True
    """
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    if bias is not None:
        bound = 1 / math.sqrt(max(1, weight.shape[1]))
        nn.init.uniform_(bias, -bound, bound, generator=generator)


def mlp(
    in_features: int,
    hidden: Sequence[int],
    out_features: int,
    first: nn.Module | None = None,
    *,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """Linear layers with ReLU between them, as in the paper's architectures (App. C).

    Args:
        in_features: Size of the input.
        hidden: Sizes of the hidden layers; none for a single linear layer.
        out_features: Size of the output.
        first: A layer from in_features to the first hidden size, in place of a linear one.
        generator: Where the initial weights come from; torch's global generator if not given.
        device: Where the weights are.
        dtype: Their dtype.

    Example:
        >>> [type(layer).__name__ for layer in mlp(784, [600], 10)]
        ['Linear', 'ReLU', 'Linear']
    """
    sizes = [in_features, *hidden, out_features]
    layers: list[nn.Module] = []
    for index, (size_in, size_out) in enumerate(pairwise(sizes)):
        if index:
            layers.append(nn.ReLU())
        plain = first is None or index > 0
        layers.append(
            linear(size_in, size_out, generator=generator, device=device, dtype=dtype) if plain else first  # type: ignore[arg-type]
        )
    return nn.Sequential(*layers)
