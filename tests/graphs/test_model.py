"""The graph convolution beside PyTorch Geometric's, and the model made of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from horoball.datasets import preferential_attachment
from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.geometry import PoincareBall
from horoball.graphs import Graph, GraphConfig, GraphVAE
from horoball.graphs.fit import GraphObjective
from horoball.training import TrainConfig
from tests.late import late

convolution = late("horoball.graphs.convolution")  # and PyTorch Geometric with it

NODES = 40


def joined() -> Graph:
    """A graph whose last two nodes have no edge."""
    return Graph.of(preferential_attachment(NODES - 2, 2, seed=0).edges, NODES)


def both_ways(graph: Graph) -> Tensor:
    return torch.cat((graph.edges, graph.edges.flip(1))).T


def parts(layer: torch.nn.Module, x: Tensor | None, edges: Tensor) -> tuple[Tensor, ...]:
    """What comes out, and the gradients of a sum that tells all outputs apart."""
    out = layer(x, edges)
    learned = [parameter for _, parameter in sorted(layer.named_parameters())]
    total = (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum()
    wanted = [*learned, x] if x is not None and x.requires_grad else learned
    return out, *torch.autograd.grad(total, wanted)


def test_the_propagation_matrix_is_the_normalized_adjacency() -> None:
    graph = joined()
    a = torch.from_numpy(graph.adjacency().toarray()) + torch.eye(NODES)
    scale = a.sum(0).rsqrt()
    matrix = convolution.propagation(graph)
    torch.testing.assert_close(matrix.to_dense(), scale[:, None] * a * scale)
    assert matrix.values().numel() == 2 * len(graph.edges) + NODES


def test_without_features_it_is_pygs_convolution_of_unit_vectors() -> None:
    graph = joined()
    ours, theirs = convolution.GraphConvolution(NODES, 5, featureless=True), convolution.GCNConv(NODES, 5)
    with torch.no_grad():
        theirs.lin.weight.copy_(ours.lin.weight.T)
        theirs.bias.copy_(ours.bias.normal_())
    out, of_bias, of_weight = parts(ours, None, convolution.propagation(graph))
    expected, expected_of_bias, expected_of_weight = parts(theirs, torch.eye(NODES), both_ways(graph))
    for found, exact in ((out, expected), (of_bias, expected_of_bias), (of_weight, expected_of_weight.T)):
        torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-6)


def test_with_features_it_is_pygs_convolution() -> None:
    graph, x = joined(), torch.randn(NODES, 7, requires_grad=True)
    ours, theirs = convolution.GraphConvolution(7, 5), convolution.GCNConv(7, 5)
    theirs.load_state_dict(ours.state_dict())
    expected = parts(theirs, x, both_ways(graph))
    for edges in (convolution.propagation(graph), both_ways(graph)):
        for found, exact in zip(parts(ours, x, edges), expected, strict=True):
            torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-6)


def test_a_part_of_a_graph_is_given_by_its_nodes_and_an_edge_index() -> None:
    layer = convolution.GraphConvolution(NODES, 5, featureless=True)
    nodes, part = torch.tensor([30, 3, 17, 8]), Graph.of([(0, 1), (1, 2), (1, 3)])
    rows = convolution.GraphConvolution(4, 5, featureless=True)
    with torch.no_grad():
        rows.lin.weight.copy_(layer.lin.weight[nodes])
        rows.bias.copy_(layer.bias.normal_())
    expected = rows(None, convolution.propagation(part))
    torch.testing.assert_close(layer(nodes, both_ways(part)), expected)
    layer(nodes, both_ways(part)).sum().backward()
    touched = layer.lin.weight.grad.abs().sum(1).nonzero().flatten()
    assert touched.tolist() == nodes.sort().values.tolist()
    whole = joined()
    torch.testing.assert_close(layer(None, both_ways(whole)), layer(None, convolution.propagation(whole)))


@pytest.mark.parametrize("c", [0.0, 1.0])
@pytest.mark.parametrize(("name", "kind"), [("wrapped", WrappedNormal), ("riemannian", RiemannianNormal)])
@pytest.mark.parametrize("features", [0, 3])
def test_every_node_has_a_posterior_and_a_place(features: int, name: str, kind: type, c: float) -> None:
    graph = Graph.of(joined().edges, NODES, features=torch.randn(NODES, features) if features else None)
    model = GraphVAE.from_config(GraphConfig(NODES, features, d=3, c=c, posterior=name))
    q = model.posterior(graph.features, convolution.propagation(graph))
    assert isinstance(q, kind)
    assert q.loc.shape == model.embed(graph).shape == (NODES, 3)
    assert q.rsample().shape == (NODES, 3)
    p = model.edge_probability(model.embed(graph), graph.edges)
    assert p.shape == (len(graph.edges),)
    assert bool(((p > 0) & (p < 1)).all())
    losses = GraphObjective(model, graph, TrainConfig())(graph.edges)
    losses[0].backward()
    assert bool(losses.isfinite().all())
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


def test_the_size_of_a_model_with_features_is_not_that_of_the_graph() -> None:
    def size(nodes: int) -> int:
        return sum(p.numel() for p in GraphVAE.from_config(GraphConfig(nodes, features=3)).parameters())

    assert size(10) == size(1000) == 3 * 32 + 32 + 32 * 4 + 4


@pytest.mark.parametrize("posterior", ["wrapped", "riemannian"])
def test_no_curvature_is_the_euclidean_model_and_small_ones_lead_to_it(posterior: str) -> None:
    graph = joined()
    found = []
    for c in (0.0, 1e-8, 1e-4):
        torch.manual_seed(0)
        model = GraphVAE.from_config(GraphConfig(NODES, d=3, c=c, posterior=posterior))
        torch.manual_seed(1)
        losses = GraphObjective(model, graph, TrainConfig())(graph.edges)
        losses[0].backward()
        found.append((losses.detach(), model.encoder.first.lin.weight.grad))  # type: ignore[union-attr]
    assert PoincareBall(0.0).is_euclidean
    for flat, curved in zip(found[0], found[1], strict=True):
        torch.testing.assert_close(curved.double(), flat.double(), rtol=1e-4, atol=1e-4)
    for flat, curved in zip(found[0], found[2], strict=True):
        torch.testing.assert_close(curved.double(), flat.double(), rtol=1e-2, atol=1e-2)


def test_the_euclidean_model_is_written_down_plainly() -> None:
    graph = joined()
    model = GraphVAE.from_config(GraphConfig(NODES, d=3, c=0.0))
    q = model.posterior(None, convolution.propagation(graph))
    torch.manual_seed(1)
    losses = GraphObjective(model, graph, TrainConfig(beta=0.5))(graph.edges)
    torch.manual_seed(1)
    z, log_q = q.rsample_and_log_prob()
    expected_log_q = torch.distributions.Normal(q.loc, q.scale).log_prob(z).sum(-1)
    torch.testing.assert_close(log_q, expected_log_q, rtol=1e-4, atol=1e-4)
    kl = (expected_log_q - torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1)).sum()
    tanh = torch.cdist(z.double(), z.double(), compute_mode="donot_use_mm_for_euclid_dist").tanh()
    edge = torch.from_numpy(graph.adjacency().toarray()) > 0
    off = ~torch.eye(NODES, dtype=torch.bool)
    reconstruction = -(torch.log1p(-tanh)[edge].sum() + tanh.log()[~edge & off].sum())
    torch.testing.assert_close(
        losses, torch.stack((reconstruction + 0.5 * kl, reconstruction, kl)), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nodes": 1}, "two nodes or more"),
        ({"d": 0}, "d must be at least 1 "),
        ({"hidden": 0}, "hidden must be at least 1 "),
        ({"edges": "cosh"}, "Unknown edges 'cosh'. Choose one of: tanh, fermi_dirac"),
        ({"posterior": "cauchy"}, "Unknown posterior"),
        ({"prior_scale": 0.0}, "prior_scale must be at least 0.001"),
    ],
)
def test_what_no_model_can_be_made_from_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphConfig(**({"nodes": 5} | fields))  # type: ignore[arg-type]


def test_a_configuration_comes_back_from_json() -> None:
    config = GraphConfig(7, d=5, c=0.5, learn_c=True, edges="fermi_dirac")
    assert GraphConfig(**config.as_dict()) == config
    assert config.replace(d=2).d == 2


@pytest.mark.parametrize("c", [0.0, 1.0])
def test_nodes_may_have_posteriors_of_their_own(c: float) -> None:
    graph = joined()
    model = GraphVAE.from_config(GraphConfig(NODES, d=3, c=c, encoder="free", learn_prior=True))
    assert model.propagation(graph) is None
    assert model.embed(graph).shape == (NODES, 3)
    losses = GraphObjective(model, graph, TrainConfig())(graph.edges)
    losses[0].backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
    nodes = torch.tensor([5, 3])
    torch.testing.assert_close(model.posterior(nodes, None).loc, model.posterior(None, None).loc[nodes])
    with pytest.raises(ValueError, match="does not look at features"):
        GraphConfig(NODES, features=3, encoder="free")
