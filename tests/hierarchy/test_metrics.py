from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import cdist, squareform
from scipy.stats import spearmanr
from sklearn.manifold import trustworthiness
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from horoball.datasets import branching_diffusion
from horoball.geometry import PoincareBall, gyrovector
from horoball.hierarchy import (
    Space,
    dendrogram_purity,
    depth,
    distortion,
    metrics,
    nearest_ancestor,
    neighbor_accuracy,
    nested_labels,
    quality,
)
from tests.hierarchy.measured import cells, needs_data, poincare_map, principal

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Z = X[:, :2] + 0.3 * RNG.normal(size=(60, 2))
LABELS = (X[:, 0] > 0).astype(int) + 2 * (X[:, 1] > 0.3)


def test_quality_agrees_with_shared_neighbors_counted_as_sets() -> None:
    n = len(X)
    high, low = cdist(X, X).argsort(1)[:, 1:], cdist(Z, Z).argsort(1)[:, 1:]
    shared = [np.mean([len({*a[:k]} & {*b[:k]}) / k for a, b in zip(high, low, strict=True)]) for k in range(1, n)]
    best = int(np.argmax([q - (k + 1) / (n - 1) for k, q in enumerate(shared)]))
    found = quality(Space.of_points(X), Space.of_points(Z))
    assert found.k_max == best + 1
    assert found.q_local == pytest.approx(np.mean(shared[: best + 1]))
    assert found.q_global == pytest.approx(np.mean(shared[best:]))


@pytest.mark.parametrize("k", [1, 5, 20])
def test_trustworthiness_and_continuity_agree_with_scikit_learn(k: int) -> None:
    found = quality(Space.of_points(X), Space.of_points(Z), neighbors=k)
    assert found.trustworthiness == pytest.approx(trustworthiness(X, Z, n_neighbors=k))
    assert found.continuity == pytest.approx(trustworthiness(Z, X, n_neighbors=k))


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> tuple[object, ...]:
        a, b = Space.of_points(X), Space.of_points(Z)
        deep = np.linalg.norm(Z, axis=1)
        return quality(a, b), distortion(a, b), neighbor_accuracy(b, LABELS), *nearest_ancestor(b, deep)

    whole = found()
    monkeypatch.setattr("horoball.hierarchy.space._ELEMENTS", 500)
    assert found() == whole


def test_equal_distances_give_what_chance_gives() -> None:
    same = Space.of_matrix(np.ones((300, 300)) - np.eye(300))
    found = quality(same, Space.of_points(RNG.normal(size=(300, 2))))
    assert found.q_global == pytest.approx(0.5, abs=0.06)
    assert found.trustworthiness == pytest.approx(0.5, abs=0.05)


def test_distortion_agrees_with_its_definition() -> None:
    d, image = cdist(X, X)[np.triu_indices(60, 1)], cdist(Z, Z)[np.triu_indices(60, 1)]
    ratio = image / d
    found = distortion(Space.of_points(X), Space.of_points(Z))
    scales = found.scale * np.array([0.99, 1, 1.01])
    assert np.argmin([((s * ratio - 1) ** 2).mean() for s in scales]) == 1
    assert found.mean == pytest.approx(np.abs(found.scale * ratio - 1).mean())
    assert found.worst == pytest.approx(ratio.max() / ratio.min())
    assert found.rank_correlation == pytest.approx(spearmanr(d, image).statistic)
    assert distortion(Space.of_points(X), Space.of_points(0 * Z)).worst == math.inf


def test_accuracy_agrees_with_scikit_learn() -> None:
    expected = cross_val_score(KNeighborsClassifier(5), Z, LABELS, cv=LeaveOneOut()).mean()
    assert neighbor_accuracy(Space.of_points(Z), LABELS) == pytest.approx(expected)


def test_purity_agrees_with_clusters_listed_one_by_one() -> None:
    d = cdist(Z, Z)
    clusters = [{i} for i in range(60)]
    for left, right in linkage(squareform(d, checks=False), "average")[:, :2].astype(int):
        clusters.append(clusters[left] | clusters[right])
    shares = []
    for i in range(60):
        for j in range(i):
            if LABELS[i] == LABELS[j]:
                meeting = min((c for c in clusters if i in c and j in c), key=len)
                shares.append(np.mean([LABELS[k] == LABELS[i] for k in meeting]))
    space = Space.of_points(Z)
    assert dendrogram_purity(space, LABELS) == pytest.approx(np.mean(shares))
    both = np.stack((LABELS, LABELS % 2), 1)
    expected = (dendrogram_purity(space, LABELS) + dendrogram_purity(space, LABELS % 2)) / 2
    assert dendrogram_purity(space, both) == pytest.approx(expected)


def test_nested_labels_are_ancestors() -> None:
    tree = branching_diffusion(depth=3, copies=2)
    nested = nested_labels(tree.parent, tree.node)
    assert nested.shape == (30, 3)
    assert np.array_equal(nested[:, -1], tree.node)
    above = nested[:, 1] != nested[:, 0]
    assert np.array_equal(tree.parent.numpy()[nested[above, 1]], nested[above, 0])
    with pytest.raises(ValueError, match="circle of parents"):
        nested_labels([1, 0])


def test_ancestors_are_the_nearest_points_above() -> None:
    ball, z = PoincareBall(0.7), torch.from_numpy(Z)
    deep = depth(z, ball)
    assert np.allclose(deep, np.linalg.norm(Z, axis=1))
    d = gyrovector.dist(ball.to_ball(z).unsqueeze(1), ball.to_ball(z), c=0.7).numpy()
    for i, ancestor in enumerate(nearest_ancestor(Space.of_points(z, ball), deep)):
        above = [j for j in range(60) if deep[j] < deep[i]]
        assert ancestor == (min(above, key=lambda j: d[i, j]) if above else i)
    assert depth(z, ball, root=z[3])[3] == 0


@pytest.mark.parametrize("c", [0.0, 0.5])
def test_charts_give_the_same_metrics(c: float) -> None:
    ball, z = PoincareBall(c), torch.from_numpy(Z)
    tangent = metrics(X, z, ball, labels=LABELS).as_dict()
    assert metrics(X, ball.to_ball(z), ball, labels=LABELS, chart="ball").as_dict() == pytest.approx(tangent)
    d = gyrovector.dist(ball.to_ball(z).unsqueeze(1), ball.to_ball(z), c=c).numpy()
    assert neighbor_accuracy(Space.of_matrix((d + d.T) / 2), LABELS) == tangent["neighbor_accuracy"]


def test_a_sample_is_fixed_and_rows_must_match() -> None:
    ball = PoincareBall()
    one, two = (metrics(X, Z, ball, labels=LABELS, points=40) for _ in range(2))
    assert one == two
    assert one.points == 40
    assert metrics(Space.of_points(X), Z, ball).neighbor_accuracy is None
    with pytest.raises(ValueError, match="one row of z"):
        metrics(X[:-1], Z, ball)
    with pytest.raises(ValueError, match="60 labels"):
        metrics(X, Z, ball, labels=LABELS[:-1])


# 5-NN accuracy, Q_local, Q_global of two principal components, as measured elsewhere. The parts of krumsiek11_blobs
# were not joined there.
PUBLISHED = {
    "Olsson": (0.793, 0.579, 0.903),
    "krumsiek11_blobs": (0.873, 0.675, 0.827),
    "Moignard2015": (0.549, 0.553, 0.872),
}
SLOW = {"krumsiek11_blobs", "Moignard2015"}


@needs_data
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in PUBLISHED]
)
def test_figures_of_principal_components_are_found_again(name: str) -> None:
    x, labels = cells(name)
    data = principal(x, 20) if name == "Olsson" else x
    found = metrics(data, principal(x, 2), PoincareBall(0.0), labels=labels, points=1500, join=False)
    assert (found.neighbor_accuracy, found.q_local, found.q_global) == pytest.approx(PUBLISHED[name], abs=0.01)


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "figures"), [("Olsson", (0.861, 0.647, 0.927)), ("Moignard2015", (0.650, 0.640, 0.927))]
)
def test_figures_of_poincare_maps_are_found_again(name: str, figures: tuple[float, ...]) -> None:
    x, labels = cells(name)
    data = principal(x, 20) if name == "Olsson" else x
    found = metrics(data, poincare_map(name), PoincareBall(1.0), labels=labels, chart="ball", points=1500)
    assert (found.neighbor_accuracy, found.q_local, found.q_global) == pytest.approx(figures, abs=0.01)


def test_missing_labels_are_a_label_of_their_own() -> None:
    line = Space.of_points(np.arange(8.0)[:, None])
    known, holes = list("aaaabbbb"), ["a", "a", "a", "a", None, float("nan"), None, None]
    assert neighbor_accuracy(line, holes, neighbors=3) == neighbor_accuracy(line, known, neighbors=3)
    assert dendrogram_purity(line, holes) == dendrogram_purity(line, known)


def test_masks_are_refused() -> None:
    masked = np.ma.masked_greater(X, 2.0)
    with pytest.raises(ValueError, match=r"^x has \d+ masked value.*Masks are not read"):
        metrics(masked, Z, PoincareBall(0.0))
    with pytest.raises(ValueError, match=r"^z has 1 masked value. Masks are not read"):
        metrics(X, np.ma.masked_equal(Z, Z[3, 1]), PoincareBall(0.0))
    for make in (Space.of_points, Space.of_neighbors):
        with pytest.raises(ValueError, match="Masks are not read"):
            make(masked)
