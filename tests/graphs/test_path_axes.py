"""The start of a map: main axes of path lengths."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse.csgraph import shortest_path

from horoball.datasets import random_tree
from horoball.graphs import Graph, path_axes


def test_a_path_is_laid_out_along_its_axis() -> None:
    x = path_axes(Graph.of([(i, i + 1) for i in range(200)]), 2)[:, 0]
    assert abs(np.corrcoef(x, np.arange(201))[0, 1]) > 0.95
    assert abs(float(x.square().mean()) - 1) < 1e-5


def test_distances_follow_path_lengths_in_a_tree() -> None:
    tree = random_tree(400, seed=1)
    lengths = shortest_path(tree.adjacency(), unweighted=True)
    near = np.triu_indices(400, 1)
    correlations = []
    for d in (2, 10):
        x = path_axes(tree, d)
        correlations.append(np.corrcoef(torch.cdist(x, x).numpy()[near], lengths[near])[0, 1])
    assert correlations[0] > 0.5
    assert correlations[1] > 0.8


def test_parts_stars_and_few_nodes_have_finite_axes() -> None:
    parts = Graph.of([(0, 1), (1, 2), (3, 4)], nodes=6)
    star = Graph.of([(0, i) for i in range(1, 50)])
    for graph in (parts, star, Graph.of([(0, 1)]), Graph.of([(0, 1), (1, 2), (0, 2)])):
        x = path_axes(graph, 5)
        assert x.shape == (graph.nodes, 5)
        assert torch.isfinite(x).all()
    x = path_axes(parts, 2)
    assert float((x[0] - x[3]).norm()) > float((x[0] - x[1]).norm())


def test_the_seed_chooses_landmarks() -> None:
    tree = random_tree(300)
    assert torch.equal(path_axes(tree, 2, seed=3), path_axes(tree, 2, seed=3))
    assert not torch.equal(path_axes(tree, 2, seed=3), path_axes(tree, 2, seed=4))
