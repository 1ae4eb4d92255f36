"""Graphs: reading, the model and its training, links and lineages, and the estimator PoincareGraphVAE."""

from typing import TYPE_CHECKING, Any

from horoball.graphs.baselines import (
    BASELINES,
    adamic_adar,
    common_neighbors,
    degree_deficit,
    isolated_end,
    preferential_attachment,
    rules_for,
    shortest_path,
    vgae_scores,
)
from horoball.graphs.evaluation import (
    LeakWarning,
    LinkScores,
    LinkSplit,
    Pairs,
    Ranking,
    Reconstruction,
    link_scores,
    ranking,
    reconstruction,
    split_links,
)
from horoball.graphs.fit import fit_graph
from horoball.graphs.graph import Graph
from horoball.graphs.model import FermiDiracEdges, FreeEncoder, GraphConfig, GraphEncoder, GraphVAE, TanhEdges
from horoball.graphs.read import read_graph
from horoball.graphs.start import path_axes

if TYPE_CHECKING:
    from horoball.graphs.estimator import PoincareGraphVAE

__all__ = [
    "BASELINES",
    "FermiDiracEdges",
    "FreeEncoder",
    "Graph",
    "GraphConfig",
    "GraphEncoder",
    "GraphVAE",
    "LeakWarning",
    "LinkScores",
    "LinkSplit",
    "Pairs",
    "PoincareGraphVAE",
    "Ranking",
    "Reconstruction",
    "TanhEdges",
    "adamic_adar",
    "common_neighbors",
    "degree_deficit",
    "fit_graph",
    "isolated_end",
    "link_scores",
    "path_axes",
    "preferential_attachment",
    "ranking",
    "read_graph",
    "reconstruction",
    "rules_for",
    "shortest_path",
    "split_links",
    "vgae_scores",
]


def __getattr__(name: str) -> Any:
    """Import the estimator when it is asked for: not all need scikit-learn, which it imports."""
    if name != "PoincareGraphVAE":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from horoball.graphs.estimator import PoincareGraphVAE

    return PoincareGraphVAE
