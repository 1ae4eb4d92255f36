"""PoincareGraphVAE: the model of a graph as an estimator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import horoball as hb
from horoball.datasets import preferential_attachment
from horoball.graphs import PoincareGraphVAE
from horoball.graphs.predictive import EdgeProbability
from tests.late import late

nx = late("networkx")

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of Fabric, at import
FAST = {"max_epochs": 3, "random_state": 0}
ANIMALS = [("animal", "dog"), ("animal", "cat"), ("cat", "lion"), ("", "animal"), ("Ωκεανός", "cat")]
GRAPH = preferential_attachment(30, 2, seed=0)


def test_it_is_at_the_top_of_the_library() -> None:
    assert hb.PoincareGraphVAE is PoincareGraphVAE


def test_every_node_has_a_place_in_the_ball_under_its_name() -> None:
    model = PoincareGraphVAE(3, **FAST)
    z = model.fit_transform(ANIMALS)
    assert z is model.embedding_
    assert z.dtype == np.float64
    assert z.shape == (6, 3)
    assert (np.linalg.norm(z, axis=1) < 1).all()
    assert model.nodes_.tolist() == ["", "animal", "cat", "dog", "lion", "Ωκεανός"]
    np.testing.assert_array_equal(PoincareGraphVAE(3, **FAST).fit_transform(ANIMALS), z)
    assert not np.array_equal(PoincareGraphVAE(3, max_epochs=3, random_state=1).fit_transform(ANIMALS), z)


def test_edges_in_any_form_give_the_same_model() -> None:
    edges = GRAPH.edges.numpy()
    expected = PoincareGraphVAE(**FAST).fit(edges)
    assert expected.nodes_.tolist() == list(range(30))
    graph = nx.Graph()
    graph.add_nodes_from(range(30))
    graph.add_edges_from(edges.tolist())
    frame = pd.DataFrame(edges, columns=["source", "target"])
    for other in (edges.tolist(), GRAPH.edges, GRAPH, graph, frame, scipy.sparse.csr_matrix(GRAPH.adjacency())):
        np.testing.assert_array_equal(PoincareGraphVAE(**FAST).fit_transform(other), expected.embedding_)


def test_probabilities_are_asked_for_by_name() -> None:
    model = PoincareGraphVAE(edges="tanh", **FAST).fit(ANIMALS)
    p = model.predict_proba([("cat", "lion"), ("lion", "cat"), ("", "Ωκεανός")])
    assert p.shape == (3,)
    assert p[0] == p[1]
    assert ((p > 0) & (p < 1)).all()
    assert p[0] == float(EdgeProbability(model.run_).of(torch.tensor([[2, 4]])))
    for asked, name in ((("cat", "unicorn"), "unicorn"), (("zzz", "cat"), "zzz"), ((3, 4), "3")):
        with pytest.raises(ValueError, match=f"^The graph has no node '{name}'. Ask for those in nodes_.$"):
            model.predict_proba([asked])


def test_numbers_are_asked_for_by_number() -> None:
    model = PoincareGraphVAE(**FAST).fit(GRAPH)
    pairs = np.array([[0, 29], [3, 7]])
    np.testing.assert_array_equal(model.predict_proba(pairs), model.predict_proba(pairs[:, ::-1].tolist()))
    for unknown in (30, -1):
        with pytest.raises(ValueError, match=f"no node {unknown}. Ask"):
            model.predict_proba([(0, unknown)])
    for asked in ([(0, 1.7)], [("0", "1")]):
        with pytest.raises(ValueError, match="The nodes are the numbers 0 to 29, got "):
            model.predict_proba(asked)
    for asked in ([0, 1], [(0, 1, 2)], []):
        with pytest.raises(ValueError, match=r"expects pairs of nodes, shape \(m, 2\)"):
            model.predict_proba(asked)


def test_numbers_with_gaps_are_names() -> None:
    model = PoincareGraphVAE(**FAST).fit([(10, 2**40), (2**40, -7)])
    assert model.nodes_.tolist() == ["-7", "10", str(2**40)]
    assert model.predict_proba([(10, -7), ("10", "-7")]).shape == (2,)


def test_before_the_fit_nothing_can_be_asked(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        PoincareGraphVAE().predict_proba([(0, 1)])
    with pytest.raises(NotFittedError):
        PoincareGraphVAE().save(tmp_path)


def test_a_clone_has_the_settings_and_not_the_fit() -> None:
    model = PoincareGraphVAE(4, c="learn", edges="fermi_dirac", batch_size=10, non_edges=3, **FAST).fit(GRAPH)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "run_")
    np.testing.assert_array_equal(copy.fit_transform(GRAPH), model.embedding_)
    assert copy.set_params(n_components=2).fit_transform(GRAPH).shape == (30, 2)


def test_save_and_load_give_the_same_model(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(6, 3))
    model = PoincareGraphVAE(3, c="learn", edges="fermi_dirac", hidden=8, **FAST).fit(ANIMALS, features=features)
    model.save(tmp_path)
    again = PoincareGraphVAE.load(tmp_path)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    assert again.nodes_.tolist() == model.nodes_.tolist()
    assert again.c_ == model.c_ != 1.0
    for name in ("n_components", "c", "edges", "posterior", "hidden", "prior_scale"):
        assert getattr(again, name) == getattr(model, name)
    asked = [("cat", "lion"), ("", "dog")]
    np.testing.assert_array_equal(again.predict_proba(asked), model.predict_proba(asked))
    json.dumps(again.run_.record.as_json())


def test_features_matter() -> None:
    x = np.random.default_rng(0).normal(size=(30, 4))
    model = PoincareGraphVAE(**FAST).fit(GRAPH, features=x)
    assert model.run_.model.config.features == 4
    assert not np.array_equal(model.embedding_, PoincareGraphVAE(**FAST).fit_transform(GRAPH, features=x + 1))
    with pytest.raises(ValueError, match="30"):
        PoincareGraphVAE(**FAST).fit(GRAPH, features=x[:5])


@pytest.mark.parametrize("posterior", ["wrapped", "riemannian"])
def test_the_euclidean_twin_fills_the_plane(posterior: str) -> None:
    model = PoincareGraphVAE(c=0.0, posterior=posterior, **FAST).fit(GRAPH)
    assert model.c_ == 0
    torch.testing.assert_close(torch.from_numpy(model.embedding_), model.run_.points() / 2)


def test_what_cannot_be_fitted_is_refused() -> None:
    for edges, message in (([], "no edges"), ([(0, 0)], "no edges"), ([(0, 1, 2, 3)], "Expected pairs of nodes")):
        with pytest.raises(ValueError, match=message):
            PoincareGraphVAE(**FAST).fit(edges)
    with pytest.raises(ValueError, match="Unknown edges"):
        PoincareGraphVAE(edges="cosh", **FAST).fit(GRAPH)


def test_the_encoder_suits_the_graph_and_may_be_chosen() -> None:
    free = PoincareGraphVAE(**FAST).fit(GRAPH)
    assert free.run_.record.model.encoder == "free"
    assert free.run_.record.training.learning_rate == 0.2
    with_features = PoincareGraphVAE(**FAST).fit(GRAPH, features=np.ones((GRAPH.nodes, 2)))
    assert with_features.run_.record.model.encoder == "gcn"
    paper = PoincareGraphVAE(encoder="gcn", edges="tanh", prior_scale=1.0, **FAST).fit(GRAPH)
    assert paper.run_.record.training.learning_rate == 0.01
    assert not paper.run_.record.model.learn_prior
    with pytest.raises(ValueError, match='encoder "free" does not look at features'):
        PoincareGraphVAE(encoder="free", **FAST).fit(GRAPH, features=np.ones((GRAPH.nodes, 2)))


def test_a_taxonomy_knows_who_is_below_whom(tmp_path: Path) -> None:
    pairs = [("cat", "animal"), ("dog", "animal"), ("lion", "cat"), ("tiger", "cat"), ("wolf", "dog")]
    model = PoincareGraphVAE(directed=True, max_epochs=100, random_state=0).fit(pairs)
    assert model.graph_.directed
    assert len(model.graph_.edges) == 8  # the closure
    for asked in (model, PoincareGraphVAE.load(_saved(model, tmp_path / "run"))):
        assert [name for name, _ in asked.parents("lion", 2)] == ["cat", "animal"]
        assert [name for name, _ in asked.ancestors("wolf")] == ["dog", "animal"]
        assert {name for name, _ in asked.descendants("cat")} == {"lion", "tiger"}
        assert asked.is_a("lion", "animal") > 0.9
        assert asked.is_a("animal", "lion") < 0.1
    radius = dict(zip(model.nodes_.tolist(), np.linalg.norm(model.embedding_, axis=1), strict=True))
    assert radius["animal"] < radius["cat"] < radius["lion"]


def _saved(model: PoincareGraphVAE, folder: Path) -> Path:
    model.save(folder)
    return folder


def test_a_directed_graph_with_cycles_is_fitted_as_it_is() -> None:
    cycle = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]
    with pytest.raises(ValueError, match="its own ancestor"):
        PoincareGraphVAE(directed=True, **FAST).fit(cycle)
    model = PoincareGraphVAE(directed=True, transitive=False, random_state=0).fit(cycle)
    assert len(model.graph_.edges) == 4
    assert len(model.parents("d")) == 1


def test_an_undirected_model_has_no_parents() -> None:
    with pytest.raises(ValueError, match="directed=True"):
        PoincareGraphVAE(**FAST).fit(ANIMALS).parents("cat")
