"""How well scores of pairs tell edges from non-edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from torch import Tensor

__all__ = ["LinkScores", "link_scores"]


class LinkScores(NamedTuple):
    """Area under the ROC curve and average precision, both from 0 to 1.

    Example:
        >>> link_scores([0.9, 0.8, 0.3, 0.1], [True, True, False, False])
        LinkScores(auc=1.0, ap=1.0)
    """

    auc: float  # chance that an edge scores above a non-edge; ties count half
    ap: float  # mean over the edges of the precision at the edge's score


def link_scores(score: ArrayLike | Tensor, is_edge: ArrayLike | Tensor) -> LinkScores:
    """AUC and AP of scores; higher ones say that a pair is an edge.

    Pairs of one score are taken together: in the AUC a tie counts half, and the precision at a score is that of all
    pairs with this score or a higher one. Equal scores for all pairs give the AUC ½ and the AP of the share of edges.

    Args:
        score: One number a pair, shape (k,).
        is_edge: Whether each pair is an edge, shape (k,); both kinds have to be there.

    Example:
        >>> link_scores([2.0, 1.0, 1.0, 0.0], [True, True, False, False])
        LinkScores(auc=0.875, ap=0.8333333333333333)
    """
    s, edge = _vector(score), _vector(is_edge)
    if s.shape != edge.shape or s.ndim != 1:
        raise ValueError(f"link_scores expects one score and one truth a pair, got shapes {s.shape} and {edge.shape}.")
    if not np.isin(edge, (0, 1)).all():
        raise ValueError("link_scores expects is_edge to hold True and False only. Pass the scores first.")
    edge = edge.astype(bool)
    s = s.astype(np.float64)
    if np.isnan(s).any():
        raise ValueError(
            f"link_scores expects numbers, got {int(np.isnan(s).sum())} NaN of {len(s)}. A NaN has no place in an "
            "order; find the pairs that have it first."
        )
    edges, others = int(edge.sum()), int((~edge).sum())
    if not edges or not others:
        raise ValueError(
            f"link_scores needs edges and non-edges, got {edges} and {others}. Hold out a larger part of the edges."
        )
    auc = (rankdata(s)[edge].sum() - edges * (edges + 1) / 2) / (edges * others)
    order = np.argsort(-s)
    ordered, found = s[order], np.cumsum(edge[order])
    last = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(s) - 1)  # where a run of equal scores ends
    gained = np.diff(found[last], prepend=0)
    return LinkScores(float(auc), float((gained * found[last] / (last + 1)).sum() / edges))


def _vector(x: ArrayLike | Tensor) -> np.ndarray:
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
