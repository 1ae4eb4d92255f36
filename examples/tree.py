"""The tree of 31 nodes that rows with noise were drawn from, found again with the support of every branch.

Run it with `python examples/tree.py`.
"""

from __future__ import annotations

import sys

import matplotlib as mpl
import matplotlib.pyplot as plt

import horoball as hb
from horoball import plotting
from horoball.datasets import branching_diffusion

mpl.use("agg")


def main(path: str = "tree.png", max_epochs: int = 200, draws: int = 100) -> None:
    """Fit a map without looking at the nodes, then find the tree of the groups that the rows of each node are."""
    data = branching_diffusion(depth=4, seed=0)
    x, node, parent = data.x.numpy(), data.node.numpy(), data.parent.numpy()
    main_branch = []
    for k in node:
        while k > 6:  # up to depth 2
            k = parent[k]
        main_branch.append(f"branch {k}" if k > 2 else "trunk")
    model = hb.PoincareVAE(max_epochs=max_epochs, random_state=0)
    z = model.fit_transform(x)
    tree = model.tree(x, labels=[f"node {k}" for k in node], draws=draws)
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 7), layout="constrained", width_ratios=(1, 1.15))
    plotting.points(z, labels=main_branch, ax=left, size=18, legend=False)
    plotting.tree(tree, main_branch, ax=right)
    figure.savefig(path, dpi=100)
    print(tree)


if __name__ == "__main__":
    main(*sys.argv[1:])
