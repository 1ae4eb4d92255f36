"""Tables whose tree is known, and how a tree compares with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from horoball.datasets import branching_diffusion, paper_graph
from horoball.trees import Tree

__all__ = ["KINDS", "Agreement", "Known", "agreement"]

_TRIPLETS = 20_000


@dataclass(frozen=True)
class Known:
    """Rows, and the clades of the tree they come from."""

    x: np.ndarray  # (rows, columns), standardized
    clades: np.ndarray  # (clades, rows), bool; all rows, and single rows, left out


def branching(seed: int, depth: int, branches: int, features: int, copies: int) -> Known:
    """The paper's branching diffusion, with `copies` observations of every node."""
    data = branching_diffusion(depth, branches, features, copies, seed=seed)
    return _known(data.x.double().numpy(), _below(data.parent.numpy())[:, data.node.numpy()])


def noisy(seed: int, columns: int = 0, error: float = 0.0) -> Known:
    """The branching diffusion of the paper with columns of pure noise, or with a larger error of observation."""
    known = branching(seed, 6, 2, 50, 5)
    rng = np.random.default_rng((seed, 1))
    x = known.x + error * rng.standard_normal(known.x.shape)
    return _known(np.concatenate([x, rng.standard_normal((len(x), columns))], axis=1), known.clades)


def nested(seed: int, groups: tuple[int, ...], error: float, noise: int, rows: int) -> Known:
    """Normal clusters within clusters, of unequal sizes, in 20 columns and some of noise."""
    rng = np.random.default_rng((seed, 2))
    center, path = np.zeros((1, 20)), np.zeros((1, 0), np.int64)
    for level, count in enumerate(groups):
        center = np.repeat(center, count, 0) + 2.0 ** (1 - level) * rng.standard_normal((len(center) * count, 20))
        path = np.column_stack([np.repeat(path, count, 0), np.tile(np.arange(count), len(path))])
    share = rng.gamma(2.0, size=len(center))
    at = np.repeat(np.arange(len(center)), 2)
    at = np.concatenate([at, rng.choice(len(center), rows - len(at), p=share / share.sum())])
    x = center[at] + error * rng.standard_normal((rows, 20))
    x = np.concatenate([x, x.std() * rng.standard_normal((rows, noise))], axis=1)
    levels = [np.unique(path[at, : level + 1], axis=0, return_inverse=True)[1].ravel() for level in range(len(groups))]
    return _known(x, np.concatenate([np.arange(of.max() + 1)[:, None] == of for of in levels]))


def phylogenetic(seed: int) -> Known:
    """A diffusion down the paper's phylogenetic tree of 344 nodes, three observations of a node."""
    rng = np.random.default_rng((seed, 3))
    graph = paper_graph("phylogenetic")
    neighbors: list[list[int]] = [[] for _ in range(graph.nodes)]
    for a, b in graph.edges.tolist():
        neighbors[a].append(b)
        neighbors[b].append(a)
    parent, order = np.zeros(graph.nodes, np.int64), [0]
    for node in order:
        for other in neighbors[node]:
            if other != parent[node] and other != 0:
                parent[other] = node
                order.append(other)
    y = np.zeros((graph.nodes, 50))
    inside = np.eye(graph.nodes, dtype=bool)
    for node in order[1:]:
        y[node] = y[parent[node]] + rng.standard_normal(50)
    for node in order[:0:-1]:
        inside[parent[node]] |= inside[node]
    at = np.repeat(np.arange(graph.nodes), 3)
    return _known(y[at] + 0.2**0.5 * rng.standard_normal((len(at), 50)), inside[:, at])


KINDS: dict[str, Callable[[int], Known]] = {
    "branching, 127 nodes": lambda seed: branching(seed, 6, 2, 50, 5),
    "branching, 31 nodes, 20 columns": lambda seed: branching(seed, 4, 2, 20, 8),
    "branching, 121 nodes, three ways": lambda seed: branching(seed, 4, 3, 30, 4),
    "branching, 100 noise columns": lambda seed: noisy(seed, columns=100),
    "branching, large error": lambda seed: noisy(seed, error=0.5),
    "phylogenetic tree": phylogenetic,
    "nested clusters 5 × 5, 20 noise columns": lambda seed: nested(seed, (5, 5), 0.7, 20, 400),
    "nested clusters 4 × 4 × 4, 10 noise columns": lambda seed: nested(seed, (4, 4, 4), 0.25, 10, 600),
}


@dataclass(frozen=True)
class Agreement:
    """How a tree compares with the known one."""

    recall: float  # share of the true clades that it has, row for row
    triplets: float  # share of triplets resolved by the truth that it resolves alike
    true: np.ndarray  # of its inner nodes but the root: whether the truth has it
    conflict: np.ndarray  # whether the truth has a clade that it cuts through


def agreement(tree: Tree, known: Known, *, unrooted: bool = False) -> Agreement:
    """Compare a tree with the known one; of an unrooted one, either side of a branch may be the clade."""
    found = _members(tree)
    present = {clade.tobytes() for clade in found} | ({(~clade).tobytes() for clade in found} if unrooted else set())
    truth = {clade.tobytes() for clade in known.clades}
    shared = found.astype(np.float32) @ known.clades.T.astype(np.float32)
    crossing = (shared > 0) & (shared < found.sum(1)[:, None]) & (shared < known.clades.sum(1))
    rng = np.random.default_rng(0)
    rows = rng.integers(0, tree.leaves, (_TRIPLETS, 3))
    rows = rows[(rows[:, 0] != rows[:, 1]) & (rows[:, 0] != rows[:, 2]) & (rows[:, 1] != rows[:, 2])]
    asked, answered = _resolved(known.clades, rows), _resolved(found, rows)
    clear = asked >= 0
    return Agreement(
        recall=float(np.mean([clade.tobytes() in present for clade in known.clades])),
        triplets=float((asked == answered)[clear].mean()),
        true=np.array([clade.tobytes() in truth for clade in found]),
        conflict=crossing.any(1),
    )


def _members(tree: Tree) -> np.ndarray:
    inside = np.zeros((tree.nodes - tree.leaves - 1, tree.leaves), bool)
    for row in range(len(inside)):
        inside[row, tree.members(tree.leaves + row)] = True
    return inside


def _resolved(clades: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Which pair of a triplet parts last, 0 to 2; −1 if all three part at once."""
    n = clades.shape[1]
    meeting = np.full((n, n), n, np.int64)  # size of the smallest clade that holds both
    for clade in clades[np.argsort(-clades.sum(1), kind="stable")]:
        inside = np.flatnonzero(clade)
        meeting[np.ix_(inside, inside)] = len(inside)
    pairs = np.stack([meeting[rows[:, a], rows[:, b]] for a, b in ((0, 1), (0, 2), (1, 2))], axis=1)
    least = pairs.min(1)
    return np.where((pairs == least[:, None]).sum(1) > 1, -1, pairs.argmin(1))


def _known(x: np.ndarray, clades: np.ndarray) -> Known:
    size = clades.sum(1)
    return Known((x - x.mean(0)) / x.std(0), np.unique(clades[(size > 1) & (size < len(x))], axis=0))


def _below(parent: np.ndarray) -> np.ndarray:
    """Which nodes are below each node or are it; parents come before children."""
    inside = np.eye(len(parent), dtype=bool)
    for node in range(len(parent) - 1, 0, -1):
        inside[parent[node]] |= inside[node]
    return inside
