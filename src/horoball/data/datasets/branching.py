"""The branching diffusion process of the paper's first experiment: a tree of points, observed with noise."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Branching", "branching_diffusion"]


class Branching(NamedTuple):
    """Observations of a tree; rows of x belong to nodes, nodes to parents.

    Example:
        >>> branching_diffusion(depth=2).parent
        tensor([0, 0, 0, 1, 1, 2, 2])
    """

    x: Tensor  # (nodes · copies, features), each feature standardized
    node: Tensor  # the node of each row
    parent: Tensor  # of each node; the root is its own
    depth: Tensor  # of each node


def branching_diffusion(
    depth: int = 6, branching: int = 2, features: int = 50, copies: int = 5, scale: float = 1.0, seed: int = 0
) -> Branching:
    """A diffusion down a tree: y_i ~ N(y_parent, σ²), x_ij ~ N(y_i, σ²/5); features standardized (App. C.1).

    Args:
        depth: Levels below the root, which is 0; depth 6 with two branches makes 127 nodes.
        branching: Children of a node.
        features: Size of an observation.
        copies: Noisy observations of a node.
        scale: σ; after standardizing it does not matter [errata:8].
        seed: Seed of the random numbers.

    Example:
        >>> branching_diffusion().x.shape  # 127 nodes, 5 copies
        torch.Size([635, 50])
    """
    if depth < 0 or branching < 1 or features < 1 or copies < 1 or not scale > 0:
        raise ValueError("branching_diffusion needs depth >= 0, scale > 0 and branching, features and copies >= 1.")
    generator = torch.Generator().manual_seed(seed)
    parents, depths, level = [0], [0], [0]
    for step in range(1, depth + 1):
        level = [len(parents) + i for i, _ in enumerate(level * branching)]
        first = level[0]
        previous = first - len(level) // branching
        parents += [previous + i // branching for i in range(len(level))]
        depths += [step] * len(level)
    parent = torch.tensor(parents)
    y = torch.zeros(len(parents), features)
    for child in range(1, len(parents)):
        y[child] = y[parents[child]] + scale * torch.randn(features, generator=generator)
    node = torch.arange(len(parents)).repeat_interleave(copies)
    x = y[node] + scale * 0.2**0.5 * torch.randn(len(node), features, generator=generator)
    spread = x.std(0, correction=0) if len(x) > 1 else torch.ones(features)
    return Branching((x - x.mean(0)) / spread, node, parent, torch.tensor(depths))
