"""Doctoral advisors in computer science and their students, 1025 people, in the disc with real geodesics as edges.

Run it with `python examples/graph.py`; `python examples/graph.py flat.png 0` draws the Euclidean twin.
"""

from __future__ import annotations

import sys

import matplotlib as mpl
from scipy.sparse.csgraph import shortest_path

import horoball as hb
from horoball import plotting
from horoball.datasets import paper_graph
from horoball.graphs import reconstruction

mpl.use("agg")


def main(path: str = "csphd.png", c: str = "1", max_epochs: int = 1000) -> None:
    """Fit the graph, and color it by paths from its middle, the node with the shortest paths to all others."""
    graph = paper_graph("csphd")
    model = hb.PoincareGraphVAE(2, c=float(c), beta=0.1, prior_scale=2.0, max_epochs=max_epochs, random_state=0)
    x = model.fit_transform(graph)
    found = reconstruction(graph, model.run_.points(), model.run_.model.ball)
    print(f"MAP {found.map:.3f}, mean rank {found.mean_rank:.1f}, distortion {found.distortion.mean:.3f}")

    hops = shortest_path(graph.adjacency(), unweighted=True)
    middle = int(hops.mean(1).argmin())
    ax = plotting.edges(x, graph.edges.numpy(), c=float(c), width=0.5)
    ax = plotting.points(x, c=float(c), labels=hops[middle], ax=ax, size=9)
    ax.figure.axes[-1].set_ylabel("edges from the middle of the graph")
    ax.figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
