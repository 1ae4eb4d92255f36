"""Is it hierarchical, and did an embedding keep the hierarchy? δ-hyperbolicity, a verdict, and metrics."""

from horoball.hierarchy.curvature import suggest_c
from horoball.hierarchy.delta import Delta, Estimate, delta
from horoball.hierarchy.distortion import Distortion, distortion
from horoball.hierarchy.labels import dendrogram_purity, neighbour_accuracy, nested_labels
from horoball.hierarchy.metrics import Metrics, metrics
from horoball.hierarchy.quality import Quality, quality
from horoball.hierarchy.readout import depth, nearest_ancestor
from horoball.hierarchy.references import references
from horoball.hierarchy.space import Space
from horoball.hierarchy.verdict import Verdict, verdict

__all__ = [
    "Delta",
    "Distortion",
    "Estimate",
    "Metrics",
    "Quality",
    "Space",
    "Verdict",
    "delta",
    "dendrogram_purity",
    "depth",
    "distortion",
    "metrics",
    "nearest_ancestor",
    "neighbour_accuracy",
    "nested_labels",
    "quality",
    "references",
    "suggest_c",
    "verdict",
]
