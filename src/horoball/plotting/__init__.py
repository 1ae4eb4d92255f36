"""Pictures of the disc, with matplotlib: `pip install "horoball[plot]"`.

Points are given in ball coordinates, as `PoincareVAE.transform` returns them, with the c of their ball; for c = 0 they
are points of the plane. Every function draws on `ax`, makes one if there is none, and returns it, so that pictures are
put together: points on a density, edges under points. Embeddings of more than two dimensions are projected, and the
picture says so.
"""

from horoball.plotting.lines import density, distance_map, edges, gyroplanes, tree, tree_edges
from horoball.plotting.marks import cloud, disc, points, thumbnails

__all__ = [
    "cloud",
    "density",
    "disc",
    "distance_map",
    "edges",
    "gyroplanes",
    "points",
    "thumbnails",
    "tree",
    "tree_edges",
]
