"""Metrics of an embedding: distortion of distances, quality of neighbors, known labels, and all at once."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.hierarchy.delta import fixed_sample
from horoball.hierarchy.space import Space
from horoball.tables.cell_values import category_names
from horoball.tables.numbers import check_unmasked


@dataclass(frozen=True)
class Distortion:
    """How an embedding stretches distances."""

    scale: float  # s, by which the embedding's distances are multiplied
    mean: float  # of |s·d'/d − 1|
    worst: float  # the largest d'/d over the smallest, whatever s
    rank_correlation: float  # Spearman's, of d' with d; NaN if all distances are equal on one side


def distortion(data: Space, embedding: Space, *, sources: int = 500, seed: int = 0) -> Distortion:
    """Distortion after the best scaling, and the rank correlation of distances.

    d are the distances in the data, d' in the embedding, from some points to all. s minimizes the mean of
    (s·d'/d − 1)². Pairs at distance 0 or infinity in the data are left out.

    Args:
        data: Distances in the data; geodesics as a rule.
        embedding: Distances in the embedding, of the same points in the same order.
        sources: Points from which distances are taken; a fixed sample if there are more.
        seed: Seed of the sample.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 3))
        >>> found = distortion(Space.of_points(x), Space.of_points(x[:, :2]))
        >>> print(f"{found.mean:.2f} {found.rank_correlation:.2f}")
        0.20 0.79
    """
    if embedding.n != data.n:
        raise ValueError(f"distortion needs the same points twice, got {data.n} and {embedding.n}.")
    everything = np.arange(data.n)
    before, after = [], []
    for rows in data.row_blocks(fixed_sample(data.n, sources, seed)):
        d = data.between(rows, everything)
        used = (d > 0) & np.isfinite(d) & (rows[:, None] != everything)
        before.append(d[used])
        after.append(embedding.between(rows, everything)[used])
    d, image = np.concatenate(before), np.concatenate(after)
    ratio = image / d
    if not ratio.any():
        return Distortion(math.nan, math.nan, math.inf, math.nan)  # all points embedded at one place
    scale = float(ratio.sum() / (ratio**2).sum())
    smallest = float(ratio.min())
    flat = d.min() == d.max() or image.min() == image.max()  # equal distances have no order to keep
    return Distortion(
        scale=scale,
        mean=float(np.abs(scale * ratio - 1).mean()),
        worst=float(ratio.max()) / smallest if smallest > 0 else math.inf,
        rank_correlation=math.nan if flat else float(np.corrcoef(_ranked(d), _ranked(image))[0, 1]),
    )


def _ranked(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, equal values at the mean of theirs; scipy.stats has it, and takes most of a second to import."""
    _, of, count = np.unique(values, return_inverse=True, return_counts=True)
    ranked: np.ndarray = (np.cumsum(count) - (count - 1) / 2)[of]
    return ranked


@dataclass(frozen=True)
class Quality:
    """Scalars of the co-ranking matrix; 1 is a perfect embedding."""

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


def neighbor_accuracy(embedding: Space, labels: ArrayLike, *, neighbors: int = 5) -> float:
    """Share of points whose label is that of most of their nearest neighbors, themselves left out.

    Where labels have equally many votes, the first in their order is taken, as scikit-learn does.

    Args:
        embedding: Distances in the embedding.
        labels: One label per point.
        neighbors: k.

    Example:
        >>> neighbor_accuracy(Space.of_points(np.arange(8.0)[:, None]), list("aaaabbbb"), neighbors=3)
        0.875
    """
    _, code = np.unique(_one_per_point(embedding, labels), return_inverse=True)
    k = min(neighbors, embedding.n - 1)
    everything = np.arange(embedding.n)
    right = 0
    for rows in embedding.row_blocks():
        d = embedding.between(rows, everything)
        d[np.arange(len(rows)), rows] = np.inf
        nearest = np.argpartition(d, k - 1, axis=1)[:, :k]
        votes = np.zeros((len(rows), code.max() + 1), np.int64)
        np.add.at(votes, (np.arange(len(rows))[:, None], code[nearest]), 1)
        right += int((votes.argmax(1) == code[rows]).sum())
    return right / embedding.n


def dendrogram_purity(embedding: Space, labels: ArrayLike) -> float:
    """How pure the clusters are in which points of one label meet, in the embedding's dendrogram.

    The dendrogram is that of average linkage. Two points of one label first meet in some cluster; the share of
    the label in it is averaged over all such pairs (Heller and Ghahramani, 2005). Nested labels, one column per level,
    give the mean over levels.

    Args:
        embedding: Distances in the embedding; all are held at once, so a few thousand points.
        labels: One label per point, or one per point and level: `nested_labels` makes them from a tree.

    Example:
        >>> dendrogram_purity(Space.of_points([[0.0], [1.0], [5.0], [6.0]]), ["a", "a", "b", "b"])
        1.0
    """
    labels = _one_per_point(embedding, labels)
    d = embedding.matrix()
    merges = linkage(squareform((d + d.T) / 2, checks=False), "average")[:, :2].astype(np.int64)
    levels = labels[:, None] if labels.ndim == 1 else labels
    return float(np.mean([merges_purity(merges, level) for level in levels.T]))


def nested_labels(parent: ArrayLike, node: ArrayLike | None = None) -> np.ndarray:
    """The ancestors of each point in a tree of labels, one column per level below the root.

    Args:
        parent: The parent of each node; a root is its own.
        node: The node of each point; every node once if not given.

    Returns:
        Shape (points, levels). A point above a level has its own node there.

    Example:
        >>> nested_labels([0, 0, 0, 1, 1])
        array([[0, 0],
               [1, 1],
               [2, 2],
               [1, 3],
               [1, 4]])
    """
    above = np.asarray(parent, np.int64)
    path = [np.arange(len(above))]
    while (above[path[-1]] != path[-1]).any():
        if len(path) > len(above):
            raise ValueError("Expected a tree, got a circle of parents. A root is its own parent.")
        path.append(above[path[-1]])
    up = np.stack(path)  # up[s]: s steps toward the root
    depth = (up[1:] != up[:-1]).sum(0)
    levels = np.arange(1, max(2, len(path)))
    ancestors = up[np.maximum(depth[:, None] - levels, 0), np.arange(len(above))[:, None]]
    return ancestors if node is None else ancestors[np.asarray(node, np.int64)]


def _one_per_point(embedding: Space, labels: ArrayLike) -> np.ndarray:
    values = np.asarray(labels)
    if values.dtype == object and values.ndim == 1:
        values = category_names(values)  # missing ones are a label of their own
    if values.ndim not in (1, 2) or len(values) != embedding.n:
        raise ValueError(f"Expected {embedding.n} labels, one per point, got shape {values.shape}.")
    return values


def merges_purity(merges: np.ndarray, labels: np.ndarray) -> float:
    """Dendrogram purity of a linkage, given by its merges; see `dendrogram_purity`.

    Args:
        merges: Pairs of nodes, shape (n − 1, 2), as scipy numbers them.
        labels: One label per point.

    Example:
        >>> merges_purity(np.array([[0, 1], [2, 3], [4, 5]]), np.array(["a", "a", "b", "b"]))
        1.0
    """
    _, code = np.unique(labels, return_inverse=True)
    n = len(code)
    counts = np.zeros((2 * n - 1, code.max() + 1))
    counts[np.arange(n), code] = 1
    pure = pairs = 0.0
    for step, (left, right) in enumerate(merges):
        meeting = counts[left] * counts[right]
        counts[n + step] = counts[left] + counts[right]
        pure += float(meeting @ counts[n + step] / counts[n + step].sum())
        pairs += float(meeting.sum())
    return pure / pairs if pairs else 1.0


def depth(z: Tensor, ball: PoincareBall, *, root: Tensor | None = None) -> np.ndarray:
    """How deep points are: their distance from the origin, or from a root.

    The origin is where the prior puts its mass, not the root of the data: give a root if one is known.

    Args:
        z: Points in the tangent chart, shape (n, d).
        ball: Their ball.
        root: A point in the tangent chart, shape (d,).

    Example:
        >>> depth(torch.tensor([[3.0, 4.0], [0.0, 1.0]]), PoincareBall())
        array([5., 1.])
    """
    z = z.detach().cpu().double()
    with torch.no_grad():
        return ball.dist(z, (torch.zeros_like(z[0]) if root is None else root).to(z)).numpy()


def nearest_ancestor(space: Space, depths: ArrayLike) -> np.ndarray:
    """For each point the nearest of those that are less deep; a point that no other is above has itself.

    Following it leads to the root, so it makes a tree of the points. It is one reading of an embedding, not a
    parent that was learned: the nearest point above may be a sibling's.

    Args:
        space: Distances in the embedding.
        depths: Depth of each point, from `depth`.

    Example:
        >>> z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.1]])
        >>> ball = PoincareBall()
        >>> nearest_ancestor(Space.of_points(z, ball), depth(z, ball))
        array([0, 0, 0, 1])
    """
    deep = np.asarray(depths, np.float64)
    if deep.shape != (space.n,):
        raise ValueError(f"Expected {space.n} depths, one per point, got shape {deep.shape}.")
    everything = np.arange(space.n)
    ancestor = np.empty(space.n, np.int64)
    for rows in space.row_blocks():
        d = np.where(deep < deep[rows, None], space.between(rows, everything), np.inf)
        nearest = d.argmin(1)
        ancestor[rows] = np.where(np.isfinite(d[np.arange(len(rows)), nearest]), nearest, rows)
    return ancestor


@dataclass(frozen=True)
class Metrics:
    """How well an embedding shows its data; see `quality`, `distortion`, `neighbor_accuracy`, `dendrogram_purity`."""

    points: int  # that were measured
    q_local: float
    q_global: float
    k_max: int
    trustworthiness: float
    continuity: float
    rank_correlation: float
    mean_distortion: float
    worst_distortion: float
    neighbor_accuracy: float | None = None  # with labels
    dendrogram_purity: float | None = None  # with labels

    def as_dict(self) -> dict[str, float | None]:
        """The fields by their names."""
        return asdict(self)


def metrics(
    x: ArrayLike | Tensor | Space,
    z: ArrayLike | Tensor,
    ball: PoincareBall,
    *,
    labels: ArrayLike | None = None,
    chart: Literal["tangent", "ball"] = "tangent",
    neighbors: int = 20,
    points: int = 3000,
    join: bool = True,
    seed: int = 0,
) -> Metrics:
    """Metrics of an embedding in a ball; c = 0 is the Euclidean one.

    The conventions: distances in the data are geodesics of the graph of the 20 nearest neighbors, not counting the
    point itself, on columns as they are given; those in the embedding are the ball's. Accuracy is that of the 5 nearest
    neighbors, each point left out in turn. More points than `points` are replaced by a fixed sample
    `numpy.random.default_rng(seed).choice(n, points, replace=False)`, and the graph is made on the sample.

    Args:
        x: Points of the data, shape (n, features), or a `Space`, whose distances are used as they are.
        z: The embedding, shape (n, d).
        ball: The ball of the embedding.
        labels: One label per point, or one per point and level, of which the last is used for the accuracy.
        chart: What z is: vectors from the origin in metric units, or ball coordinates.
        neighbors: Neighbors in the graph; trustworthiness and continuity look at as many.
        points: Points to measure at most.
        join: Whether parts of the graph are linked; otherwise they are infinitely far apart, in random order.
        seed: Seed of the sample.

    Example:
        >>> from horoball.datasets import branching_diffusion
        >>> tree = branching_diffusion(depth=4)
        >>> plane = torch.pca_lowrank(tree.x, 2, niter=20)[0]
        >>> found = metrics(tree.x, plane, PoincareBall(0.0), labels=tree.node)
        >>> found.points, found.q_global > found.q_local
        (155, True)
    """
    check_unmasked(z, "z")
    check_unmasked(x, "x")
    embedded = torch.as_tensor(z).detach().cpu().double()
    embedded = ball.from_ball(embedded) if chart == "ball" else embedded
    n = len(embedded)
    index = fixed_sample(n, points, seed)
    data = _space_of_data(x, n, index, neighbors, join)
    embedding = Space.of_points(embedded[torch.from_numpy(index)], ball)
    ranked = quality(data, embedding, neighbors=neighbors)
    stretched = distortion(data, embedding, seed=seed)
    accuracy = purity = None
    if labels is not None:
        known = np.asarray(labels)
        if len(known) != n:
            raise ValueError(f"Expected {n} labels, one per point, got {len(known)}.")
        known = known[index]
        accuracy = neighbor_accuracy(embedding, known if known.ndim == 1 else known[:, -1])
        purity = dendrogram_purity(embedding, known)
    return Metrics(
        points=len(index),
        q_local=ranked.q_local,
        q_global=ranked.q_global,
        k_max=ranked.k_max,
        trustworthiness=ranked.trustworthiness,
        continuity=ranked.continuity,
        rank_correlation=stretched.rank_correlation,
        mean_distortion=stretched.mean,
        worst_distortion=stretched.worst,
        neighbor_accuracy=accuracy,
        dendrogram_purity=purity,
    )


def _space_of_data(x: ArrayLike | Tensor | Space, n: int, index: np.ndarray, neighbors: int, join: bool) -> Space:
    if isinstance(x, Space):
        rows = x.n
    else:
        values = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
        rows = len(values)
    if rows != n:
        raise ValueError(f"metrics expects one row of z for each row of x, got {n} and {rows}.")
    return x.take(index) if isinstance(x, Space) else Space.of_neighbors(values[index], neighbors, join=join)
