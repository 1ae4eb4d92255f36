"""Sampled neighbours, through PyTorch Geometric's own loader and a sampler that stands in for pyg-lib."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from horoball.data import Graph, Order, preferential_attachment
from horoball.data.neighbour_pairs import NeighbourSource
from horoball.models import GraphConfig, GraphVAE
from horoball.models.graph_convolution import propagation
from horoball.training import TrainConfig
from horoball.training.graph_objective import GraphObjective
from horoball.training.loop import run_loop
from horoball.training.subgraph_objective import SubgraphObjective

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch_geometric import typing
    from torch_geometric.data import Data
    from torch_geometric.loader import LinkLoader
    from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, NegativeSampling, SamplerOutput
    from torch_geometric.sampler.neighbor_sampler import edge_sample


class Neighbours(BaseSampler):
    """Neighbours without replacement, hop by hop; what pyg-lib does, in Python."""

    def __init__(self, graph: Graph, neighbours: tuple[int, ...]) -> None:
        matrix = graph.adjacency()
        self.around, self.neighbours = np.split(matrix.indices, matrix.indptr[1:-1]), neighbours

    def sample_from_nodes(self, index: Any, **kwargs: Any) -> SamplerOutput:
        """Not asked for."""
        raise NotImplementedError

    def sample_from_edges(self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None) -> SamplerOutput:
        """PyG's own negatives and numbering around our neighbours."""
        return edge_sample(index, self._sampled, len(self.around), False, None, neg_sampling)

    def _sampled(self, seeds: Tensor, _: Any) -> SamplerOutput:
        places = {node: place for place, node in enumerate(seeds.tolist())}
        edges, front = [], list(places)
        for most in self.neighbours:
            nodes, front = front, []
            for node in nodes:
                around = self.around[node]
                for other in (around if most < 0 else around[torch.randperm(len(around))[:most].numpy()]).tolist():
                    if other not in places:
                        places[other] = len(places)
                        front.append(other)
                    edges.append((places[other], places[node]))
        row, column = torch.tensor(edges).T
        return SamplerOutput(torch.tensor(list(places)), row, column, None)


def _source(graph: Graph, neighbours: tuple[int, int], non_edges: int = 10) -> NeighbourSource:
    edge_index = torch.cat((graph.edges, graph.edges.flip(1))).T.contiguous()
    loader = LinkLoader(
        Data(edge_index=edge_index, num_nodes=graph.nodes),
        Neighbours(graph, neighbours),
        edge_label_index=graph.edges.T,
        neg_sampling=NegativeSampling("binary", non_edges),
    )
    return NeighbourSource(graph, neighbours, non_edges, loader)


GRAPH = preferential_attachment(40, 2)
CONFIG = TrainConfig(max_epochs=30, batch_size=20, learning_rate=1e-2)


def _model(features: int = 0) -> GraphVAE:
    torch.manual_seed(0)
    return GraphVAE.from_config(GraphConfig(nodes=GRAPH.nodes, features=features, encoder="gcn"))


@pytest.mark.skipif(typing.WITH_PYG_LIB, reason="pyg-lib is there")
def test_without_pyg_lib_the_error_says_what_to_do() -> None:
    with pytest.raises(ImportError, match=r"needs pyg-lib.*pip install pyg-lib -f https.*fit_graph"):
        NeighbourSource(GRAPH)


@pytest.mark.skipif(not typing.WITH_PYG_LIB, reason="needs pyg-lib")
def test_the_loader_itself() -> None:
    batch = next(NeighbourSource(GRAPH).batches(Order(16)))
    assert len(batch.edges) == 16
    assert len(batch.drawn) == 160


@pytest.mark.parametrize("features", [0, 3])
def test_with_all_neighbours_the_posteriors_are_those_of_the_whole_graph(features: int) -> None:
    x = torch.randn(GRAPH.nodes, 3, generator=torch.Generator().manual_seed(1)) if features else None
    graph, model = Graph(GRAPH.edges, GRAPH.nodes, features=x), _model(features)
    batch = next(_source(graph, (-1, -1)).batches(Order(5)))
    ends = torch.cat((batch.edges, batch.drawn)).flatten().unique()
    nodes = next(_source(GRAPH, (-1, -1)).batches(Order(5))).known  # the same draw, by numbers
    part, whole = model.posterior(batch.known, batch.matrix), model.posterior(x, propagation(GRAPH))
    torch.testing.assert_close(part.loc[ends], whole.loc[nodes[ends]])
    torch.testing.assert_close(part.scale[ends], whole.scale[nodes[ends]])


def test_the_matrix_has_the_full_one_as_its_expectation() -> None:
    full, mean, draws = propagation(GRAPH).to_dense(), torch.zeros(40, 40), 300
    source, seen = _source(GRAPH, (2, 2), 1), torch.zeros(40)
    for epoch in range(draws):
        batch = next(source.batches(Order(3, seed=1, epoch=epoch)))
        ends = torch.cat((batch.edges, batch.drawn)).flatten().unique()  # others may have got no neighbours
        rows = torch.zeros(len(batch.known), 40).index_add_(1, batch.known, batch.matrix.to_dense())
        mean[batch.known[ends]] += rows[ends]
        seen[batch.known[ends]] += 1
    often = seen > 50
    assert often.sum() > 20
    error = (mean / seen.unsqueeze(1) - full)[often]
    assert error.abs().max() < 0.15
    assert error.mean().abs() < 2e-3


def test_with_all_neighbours_the_loss_is_that_of_the_whole_graph_in_expectation() -> None:
    model, source = _model(), _source(GRAPH, (-1, -1))
    whole, part = GraphObjective(model, GRAPH, CONFIG), SubgraphObjective(model, CONFIG)
    with torch.no_grad():
        model.get_parameter("encoder.second.bias")[model.encoder.d :] = -9.0  # hardly any noise: pairs are what varies
        exact = torch.stack([whole(GRAPH.edges) for _ in range(200)])  # but for the divergence, which is sampled
        found = torch.stack(
            [
                sum(part(*batch.inputs) for batch in source.batches(Order(20, epoch=epoch))) / source.steps(Order(20))
                for epoch in range(40)
            ]
        )
    error = (found.mean(0) - exact.mean(0)).abs() / (found.var(0) / 40 + exact.var(0) / 200).sqrt()
    assert error.max() < 3.5, error


@pytest.mark.parametrize("ranks", [2, 7])
def test_ranks_share_the_edges(ranks: int) -> None:
    source = _source(GRAPH, (3, 3))
    counted, total = 0, 0.0
    for rank in range(ranks):
        batches = list(source.batches(Order(20, rank=rank, ranks=ranks)))
        assert len(batches) == source.steps(Order(20))
        counted += sum(len(batch.edges) for batch in batches)
        total += batches[0].weights[1] * len(batches[0].drawn)
    assert counted == len(GRAPH.edges)
    assert total == pytest.approx(40 * 40)


def test_batches_depend_on_their_numbers_alone() -> None:
    source = _source(GRAPH, (2, 2))
    first = list(source.batches(Order(20, epoch=3)))
    torch.manual_seed(17)
    again = list(source.batches(Order(20, epoch=3, start=1)))
    for a, b in zip(first[1:], again, strict=True):
        assert torch.equal(a.known, b.known)
        assert torch.equal(a.drawn, b.drawn)


def test_training_lowers_the_loss_and_non_edges_are_none() -> None:
    model, source = _model(), _source(GRAPH, (3, 3))
    for batch in source.batches(Order(20)):
        there = batch.known[batch.non_edges]
        assert not GRAPH.holds(there).any()
        assert (there[:, 0] != there[:, 1]).all()
        assert GRAPH.holds(batch.known[batch.edges]).all()
    before = _exact(model)
    run_loop(SubgraphObjective(model, CONFIG), source, CONFIG)
    assert _exact(model) < 0.9 * before


def _exact(model: GraphVAE) -> float:
    """The loss over all pairs and neighbours."""
    torch.manual_seed(0)
    with torch.no_grad():
        return float(sum(GraphObjective(model, GRAPH, CONFIG)(GRAPH.edges)[0] for _ in range(10)) / 10)
