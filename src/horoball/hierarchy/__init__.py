"""How hierarchical is it, and did an embedding keep it? δ-hyperbolicity, distortion, metrics, known labels."""

from horoball._moved import moved_names
from horoball.hierarchy.delta import Delta, Estimate, delta, references, suggest_c
from horoball.hierarchy.metrics import (
    Distortion,
    Metrics,
    Quality,
    dendrogram_purity,
    depth,
    distortion,
    metrics,
    nearest_ancestor,
    neighbor_accuracy,
    nested_labels,
    quality,
)
from horoball.hierarchy.space import Space

__all__ = [
    "Delta",
    "Distortion",
    "Estimate",
    "Metrics",
    "Quality",
    "Space",
    "delta",
    "dendrogram_purity",
    "depth",
    "distortion",
    "metrics",
    "nearest_ancestor",
    "neighbor_accuracy",
    "nested_labels",
    "quality",
    "references",
    "suggest_c",
]

__getattr__ = moved_names(__name__)
