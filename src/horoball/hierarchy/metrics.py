"""All metrics of an embedding at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.data.tables.number_arrays import check_unmasked
from horoball.hierarchy.delta import fixed_sample
from horoball.hierarchy.distortion import distortion
from horoball.hierarchy.labels import dendrogram_purity, neighbor_accuracy
from horoball.hierarchy.quality import quality
from horoball.hierarchy.space import Space
from horoball.manifolds import PoincareBall

__all__ = ["Metrics", "metrics"]


@dataclass(frozen=True)
class Metrics:
    """How well an embedding shows its data; see `quality`, `distortion`, `neighbor_accuracy`, `dendrogram_purity`.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(60, 2))
        >>> round(metrics(x, x, PoincareBall(0.0)).trustworthiness, 2)
        1.0
    """

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
        >>> from horoball.data import branching_diffusion
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
