"""The hierarchy itself: a tree of rows or groups, with a support for every branch."""

from horoball.hierarchy.trees.branches import Branch, Difference, branches
from horoball.hierarchy.trees.evidence import Candidate
from horoball.hierarchy.trees.grow import tree, verdict
from horoball.hierarchy.trees.record import tree_from_json, tree_to_json
from horoball.hierarchy.trees.tree import Tree
from horoball.hierarchy.trees.verdict import Verdict

__all__ = [
    "Branch",
    "Candidate",
    "Difference",
    "Tree",
    "Verdict",
    "branches",
    "tree",
    "tree_from_json",
    "tree_to_json",
    "verdict",
]
