"""How well edges are told from non-edges, what simple rules reach, and how much of a graph an embedding holds."""

from horoball.graphs.baselines import (
    BASELINES,
    adamic_adar,
    common_neighbors,
    degree_deficit,
    isolated_end,
    preferential_attachment,
    rules_for,
    shortest_path,
)
from horoball.graphs.link_scores import LinkScores, link_scores
from horoball.graphs.ranking import Ranking, ranking
from horoball.graphs.reconstruction import Reconstruction, reconstruction
from horoball.graphs.vgae import vgae_scores

__all__ = [
    "BASELINES",
    "LinkScores",
    "Ranking",
    "Reconstruction",
    "adamic_adar",
    "common_neighbors",
    "degree_deficit",
    "isolated_end",
    "link_scores",
    "preferential_attachment",
    "ranking",
    "reconstruction",
    "rules_for",
    "shortest_path",
    "vgae_scores",
]
