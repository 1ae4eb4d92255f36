"""Whether neighbors stay neighbors: ranks of distances in the data against ranks in the embedding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from horoball.hierarchy.space import Space

__all__ = ["Quality", "quality", "ranks"]


@dataclass(frozen=True)
class Quality:
    """Scalars of the co-ranking matrix; 1 is a perfect embedding.

    Example:
        >>> line = Space.of_points(np.arange(30.0)[:, None] ** 1.5)
        >>> quality(line, line).q_local
        1.0
    """

    q_local: float  # mean of Q_NX(k) for k ≤ K_max
    q_global: float  # mean of Q_NX(k) for k ≥ K_max
    k_max: int  # where Q_NX(k) − k/(n − 1) is largest
    trustworthiness: float  # 1 less a penalty for neighbors in the embedding that are far in the data
    continuity: float  # 1 less a penalty for neighbors in the data that are far in the embedding


def quality(data: Space, embedding: Space, *, neighbors: int = 20) -> Quality:
    """Local and global quality of an embedding (Lee and Verleysen), and trustworthiness and continuity.

    Q_NX(k) is the mean share of a point's k nearest neighbors in the data that are among its k nearest in the
    embedding; for a random embedding it is k/(n − 1). K_max parts small neighborhoods from large ones.

    Args:
        data: Distances in the data; geodesics as a rule.
        embedding: Distances in the embedding, of the same points in the same order.
        neighbors: k of trustworthiness and continuity, lowered to what n allows, k < n/2.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 3))
        >>> found = quality(Space.of_points(x), Space.of_points(x[:, :2]))
        >>> print(f"{found.q_local:.2f} {found.q_global:.2f} {found.trustworthiness:.2f} {found.continuity:.2f}")
        0.47 0.83 0.85 0.96
    """
    n = data.n
    if embedding.n != n or n < 5:
        raise ValueError(f"quality needs the same points twice, five or more, got {n} and {embedding.n}.")
    k = min(neighbors, (n - 1) // 2)
    both = np.zeros(n, np.int64)  # pairs by the larger of their two ranks
    intruders = missing = 0
    rng = np.random.default_rng(0)
    everything = np.arange(n)
    for rows in data.row_blocks():
        in_data = ranks(data.between(rows, everything), rows, rng)
        in_embedding = ranks(embedding.between(rows, everything), rows, rng)
        both += np.bincount(np.maximum(in_data, in_embedding).ravel(), minlength=n)
        intruders += int(np.maximum(in_data[in_embedding <= k] - k, 0).sum())
        missing += int(np.maximum(in_embedding[in_data <= k] - k, 0).sum())
    sizes = np.arange(1, n)
    shared = np.cumsum(both[1:]) / (sizes * n)
    best = int(np.argmax(shared - sizes / (n - 1)))
    penalty = 2 / (n * k * (2 * n - 3 * k - 1))
    return Quality(
        q_local=float(shared[: best + 1].mean()),
        q_global=float(shared[best:].mean()),
        k_max=best + 1,
        trustworthiness=1 - penalty * intruders,
        continuity=1 - penalty * missing,
    )


def ranks(distances: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Ranks of distances from some points: 0 for the point itself, 1 for its nearest neighbor.

    Equal distances come in random order. Any order by position would favor rows that stand together in a file; parts
    that no path joins, at distance infinity, are where this matters.

    Args:
        distances: From each of the rows to all points, shape (b, n).
        rows: Which points the rows are.
        rng: Breaks ties.

    Example:
        >>> ranks(np.array([[0.0, 5.0, 3.0]]), np.array([0]), np.random.default_rng(0))
        array([[0, 2, 1]], dtype=int32)
    """
    d = distances.copy()
    d[np.arange(len(rows)), rows] = -1
    order = np.argsort(d, axis=1)
    ordered = np.take_along_axis(d, order, 1)
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(1)
    if tied.any():
        order[tied] = np.lexsort((rng.random((int(tied.sum()), d.shape[1])), d[tied]))
    rank = np.empty(d.shape, np.int32)
    np.put_along_axis(rank, order, np.arange(d.shape[1], dtype=np.int32)[None], 1)
    return rank
