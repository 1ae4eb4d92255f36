"""The hierarchy itself: a tree of rows or groups with the support of every branch, named groups, new rows."""

from horoball.trees.branches import Branch, Difference, branches
from horoball.trees.drift import Drift
from horoball.trees.grow import tree, verdict
from horoball.trees.linkage import Candidate
from horoball.trees.placement import Placed, Placer, calibration_error
from horoball.trees.record import tree_from_json, tree_to_json
from horoball.trees.taxonomy import Group, Taxonomy, taxonomy
from horoball.trees.tree import Tree
from horoball.trees.verdict import Verdict

__all__ = [
    "Branch",
    "Candidate",
    "Difference",
    "Drift",
    "Group",
    "Placed",
    "Placer",
    "Taxonomy",
    "Tree",
    "Verdict",
    "branches",
    "calibration_error",
    "taxonomy",
    "tree",
    "tree_from_json",
    "tree_to_json",
    "verdict",
]
