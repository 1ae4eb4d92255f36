"""What a map of simulated cells is worth, for `benchmarks.cells`.

LISI is the inverse Simpson index of a cell's 90 nearest cells, which fall off exponentially with a perplexity of 30
(Korsunsky et al., 2019): how many batches, or types, there are in effect. Both are scaled as in scib, with 1 as best:
iLISI is (median − 1)/(batches − 1), cLISI is (types − median)/(types − 1).

`scib` has the metrics of scIB (Luecken et al., 2022) that distances or neighbors define, by geodesics of a model's own
space and with the code of scib-metrics: of types the agreement of Leiden clusters (NMI, ARI), silhouettes and cLISI, of
batches silhouettes within types, iLISI, kBET and the connectivity of types.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from benchmarks.cell_models import CHANGE, Data, Fitted, of_column
from horoball.cells.anndata import nearest
from horoball.geometry import PoincareBall
from horoball.geometry.coordinates import frechet_mean

__all__ = ["SCIB", "SCORES", "judged", "lisi", "scib"]

NEIGHBORS, AROUND, PERPLEXITY = 30, 90, 30.0
PAIRS = (("A1", "A2"), ("B1x", "B1y"), ("A3", "B2"))  # types whose genes are compared
SCIB = ("bio", "mixing", "scib")  # means over types, over batches, and 0.6 and 0.4 of them, as in scIB
SCORES = ("batch_excess", "ilisi", "same_type", "clisi", "pseudotime", "denoised", "genes_auc")


def judged(given: Data, found: Fitted) -> dict[str, float | None]:
    """All figures of a map; None where a model does not say, or the simulation does not know."""
    batch, kind = of_column(given.cells, "batch"), of_column(given.cells, "type")
    index, distance = nearest(found.z, found.ball, min(AROUND, len(batch) - 1))
    near = np.asarray(index)[:, :NEIGHBORS]
    chance = np.mean([(batch[kind == k] == b).mean() for b, k in zip(batch, kind, strict=True)])
    batches, types = len(set(batch)), len(set(kind))
    root = frechet_mean(found.z[torch.from_numpy(kind == given.root)], found.ball)
    reached = found.ball.dist(root.expand_as(found.z), found.z).numpy() if found.time is None else found.time
    figures: dict[str, float | None] = {
        "batch_excess": float((batch[near] == batch[:, None]).mean() - chance),
        "ilisi": (float(np.median(lisi(index, distance, batch))) - 1) / (batches - 1),
        "same_type": float((kind[near] == kind[:, None]).mean()),
        "clisi": (types - float(np.median(lisi(index, distance, kind)))) / (types - 1),
        "pseudotime": float(spearmanr(reached, given.cells.obs["time"]).statistic),
        "denoised": None,
        "genes_auc": None,
    }
    if given.shares is not None and found.expression is not None:
        figures["denoised"] = _correlation(found.expression(), given.shares)
    if given.shares is not None and found.changed is not None:
        areas = []
        for one, other in PAIRS:
            means = [np.log2(given.shares[kind == name].mean(0)) for name in (one, other)]
            areas.append(roc_auc_score(np.abs(means[0] - means[1]) >= CHANGE, found.changed(one, other)))
        figures["genes_auc"] = float(np.mean(areas))
    return figures


def lisi(index: np.ndarray, distance: np.ndarray, label: np.ndarray) -> np.ndarray:
    """How many labels there are, in effect, around each cell."""
    index, d = np.asarray(index), np.asarray(distance, np.float64)
    d = d - d.min(1, keepdims=True)
    low, high = np.zeros(len(d)), np.full(len(d), np.inf)
    rate = 1 / np.maximum(d.mean(1), 1e-12)
    wanted = np.log(min(PERPLEXITY, d.shape[1] / 3))
    for _ in range(50):  # bisection for the width at which the weights have the perplexity
        weight = np.exp(-d * rate[:, None])
        weight /= weight.sum(1, keepdims=True)
        entropy = -(weight * np.log(np.maximum(weight, 1e-300))).sum(1)
        wide = entropy > wanted
        low, high = np.where(wide, rate, low), np.where(wide, high, rate)
        rate = np.where(np.isinf(high), 2 * rate, (low + high) / 2)
    code = np.unique(label, return_inverse=True)[1]
    share = np.stack([(weight * (code[index] == k)).sum(1) for k in range(code.max() + 1)], 1)
    return 1 / (share**2).sum(1)


def scib(z: torch.Tensor, ball: PoincareBall, batch: np.ndarray, kind: np.ndarray) -> dict[str, float]:
    """Metrics of scIB, and their means."""
    import scib_metrics as library
    from scib_metrics.nearest_neighbors import NeighborsResults
    from sklearn.metrics import silhouette_samples

    between = ball.cdist(z, z).fill_diagonal_(0.0)
    distance, index = torch.sort(between)
    index[:, 0] = torch.arange(len(z))  # a cell among cells at the same place
    near = NeighborsResults(index[:, :AROUND].numpy(), distance[:, :AROUND].numpy())
    few, most = (NeighborsResults(near.indices[:, :k], near.distances[:, :k]) for k in (15, 50))
    d, of_batch = between.numpy(), []
    for name in set(kind):
        here = kind == name
        of_batch.append(1 - np.abs(silhouette_samples(d[np.ix_(here, here)], batch[here], metric="precomputed")).mean())
    clusters = library.nmi_ari_cluster_labels_leiden(few, kind, optimize_resolution=True, seed=0)
    found = {
        "nmi": clusters["nmi"],
        "ari": clusters["ari"],
        "asw_type": (silhouette_samples(d, kind, metric="precomputed").mean() + 1) / 2,
        "clisi": library.clisi_knn(near, kind),
        "asw_batch": np.mean(of_batch),
        "ilisi": library.ilisi_knn(near, batch),
        "kbet": library.kbet_per_label(most, batch, kind),
        "connectivity": library.graph_connectivity(few, kind),
    }
    named = {name: float(value) for name, value in found.items()}
    values = list(named.values())
    bio, mixing = float(np.mean(values[:4])), float(np.mean(values[4:]))
    return named | {"bio": bio, "mixing": mixing, "scib": 0.6 * bio + 0.4 * mixing}


def _correlation(found: np.ndarray, shares: np.ndarray) -> float:
    """Mean over genes of the correlation with the true shares."""
    pairs = [np.corrcoef(a, b)[0, 1] for a, b in zip(found.T, shares.T, strict=True) if a.std() > 0]
    return float(np.mean(pairs))
