"""Trains a small model of a graph, as a process of its own or several that do it together."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from horoball.datasets import preferential_attachment
from horoball.graphs import Graph, GraphConfig, GraphVAE, fit_graph
from horoball.training import TrainConfig


def graph() -> Graph:
    """An edge more than three batches of 50: the last of an epoch has one, and so a second rank none."""
    whole = preferential_attachment(60, 3, seed=0)
    return whole.with_edges(whole.edges[:151])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--non-edges", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = GraphVAE.from_config(GraphConfig(60, d=3, learn_c=True, edges="fermi_dirac"))
    options.folder.mkdir(parents=True, exist_ok=True)
    config = TrainConfig(max_epochs=5, batch_size=50, learning_rate=1e-2, validation=0.0)
    fit_graph(model, graph(), config, options.folder, non_edges=options.non_edges)


if __name__ == "__main__":
    main()
