"""Is it hierarchical, which tree is it, and did an embedding keep it? δ-hyperbolicity, a verdict, trees, metrics."""

from horoball.hierarchy.curvature import suggest_c
from horoball.hierarchy.delta import Delta, Estimate, delta
from horoball.hierarchy.distortion import Distortion, distortion
from horoball.hierarchy.labels import dendrogram_purity, neighbor_accuracy, nested_labels
from horoball.hierarchy.metrics import Metrics, metrics
from horoball.hierarchy.quality import Quality, quality
from horoball.hierarchy.readout import depth, nearest_ancestor
from horoball.hierarchy.references import references
from horoball.hierarchy.space import Space
from horoball.hierarchy.taxonomies import Group, Placed, Placer, Taxonomy, calibration_error, taxonomy
from horoball.hierarchy.trees import (
    Branch,
    Candidate,
    Difference,
    Tree,
    Verdict,
    branches,
    tree,
    tree_from_json,
    tree_to_json,
    verdict,
)

__all__ = [
    "Branch",
    "Candidate",
    "Delta",
    "Difference",
    "Distortion",
    "Estimate",
    "Group",
    "Metrics",
    "Placed",
    "Placer",
    "Quality",
    "Space",
    "Taxonomy",
    "Tree",
    "Verdict",
    "branches",
    "calibration_error",
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
    "taxonomy",
    "tree",
    "tree_from_json",
    "tree_to_json",
    "verdict",
]
