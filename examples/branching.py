"""A tree of 127 nodes, each seen five times with noise in 50 dimensions, found again.

Run it with `python examples/branching.py`.
"""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np

import horoball as hb
from horoball import plotting
from horoball.datasets import branching_diffusion

mpl.use("agg")


def main(path: str = "branching.png", max_epochs: int = 200) -> None:
    """Fit a map without looking at the tree, then draw the tree on it."""
    tree = branching_diffusion(seed=0)
    node, parent, depth = tree.node.numpy(), tree.parent.numpy(), tree.depth.numpy()
    model = hb.PoincareVAE(max_epochs=max_epochs, random_state=0)
    z = model.fit_transform(tree.x.numpy())
    centers = np.stack([z[node == k].mean(0) for k in range(len(parent))])
    ax = plotting.tree_edges(centers, parent, width=0.9)
    ax = plotting.points(z, labels=[f"depth {k}" for k in depth[node]], ax=ax, size=14)
    ax.figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
