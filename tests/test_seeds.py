"""A seed stands for one model: in every thread, whatever else draws random numbers, from Python and from the shell."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from joblib import Parallel, delayed
from torch import Tensor

from horoball import PoincareBall, PoincareGraphVAE, PoincareVAE, WrappedNormal, plotting
from horoball.datasets import branching_diffusion, preferential_attachment, random_tree
from horoball.geometry.random import generator_for, seed_from
from horoball.graphs import Graph, link_scores, reconstruction, rules_for, split_links, vgae_scores
from horoball.graphs.run import GraphRun
from horoball.hierarchy import delta, metrics, references
from horoball.hierarchy.space import Space
from horoball.likelihoods import LIKELIHOODS
from horoball.neighbors import Index
from horoball.report.analysis import compare_geometries
from horoball.tables import ArrayTable
from horoball.training import elbo, log_likelihood
from horoball.training.config import TrainConfig
from horoball.trees import verdict
from horoball.vae import VAE, ModelConfig
from horoball.vae.run import Run
from horoball.vae.train import fit, train
from tests.commands import done

RNG = np.random.default_rng(0)
ROWS = {
    "normal": RNG.normal(size=(120, 4)),
    "bernoulli": RNG.integers(0, 2, (120, 4)),
    "poisson": RNG.poisson(3.0, (120, 4)),
    "negative_binomial": RNG.poisson(3.0, (120, 4)),
    "zero_inflated_negative_binomial": RNG.poisson(3.0, (120, 4)) * RNG.integers(0, 2, (120, 4)),
    "zero_inflated_gamma": RNG.gamma(2.0, size=(120, 4)) * RNG.integers(0, 2, (120, 4)),
    "categorical": RNG.integers(0, 3, (120, 4)),
    "log_normal": RNG.lognormal(size=(120, 4)),
    "ordinal": RNG.integers(0, 3, (120, 4)),
    "circular": RNG.integers(0, 7, (120, 4)),
    "von_mises_fisher": RNG.normal(size=(120, 4)),
    "mixed": np.where(RNG.random((120, 4)) < 0.2, np.nan, RNG.normal(size=(120, 4))),
}
X = ROWS["normal"]
EDGES = [(i, (i - 1) // 2) for i in range(1, 31)]
FAST: dict[str, Any] = {"max_epochs": 2, "hidden": (8,)}
QUICK = ("--max-epochs", 2, "--quiet", "--seed", 7)


def weights(model: torch.nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().double() for p in model.parameters()])


def in_threads(calls: list[Callable[[], Any]]) -> list[Any]:
    return Parallel(n_jobs=4, backend="threading")(delayed(call)() for call in calls)


def fitted(likelihood: str = "normal", seed: int = 0, **options: Any) -> PoincareVAE:
    return PoincareVAE(likelihood=likelihood, random_state=seed, **FAST, **options).fit(ROWS[likelihood])


def graph_of(seed: int, **options: Any) -> torch.nn.Module:
    return PoincareGraphVAE(max_epochs=5, random_state=seed, **options).fit(EDGES).run_.model


FITS: dict[str, Callable[[], torch.nn.Module]] = {
    **{name: lambda name=name: fitted(name).model_ for name in ROWS},  # type: ignore[misc]
    "another seed": lambda: fitted(seed=1).model_,
    "wrapped": lambda: fitted(posterior="wrapped").model_,
    "distances": lambda: fitted(distance_weight=10.0).model_,
    "graph": lambda: graph_of(0),
    "graph convolution": lambda: graph_of(0, encoder="gcn"),
    "drawn pairs": lambda: graph_of(0, non_edges=3),
}


def test_fits_in_threads_are_those_of_one_thread() -> None:
    serial = [weights(fit()) for fit in FITS.values()]
    threaded = [weights(model) for model in in_threads(list(FITS.values()))]
    assert [name for name, one, two in zip(FITS, serial, threaded, strict=True) if not torch.equal(one, two)] == []
    assert not torch.equal(serial[0], serial[list(FITS).index("another seed")])


def test_scores_and_samples_in_threads_are_those_of_one_thread() -> None:
    models = {name: fitted(name) for name in ROWS}
    scores = {name: lambda m=m, name=name: m.score_samples(ROWS[name], samples=200) for name, m in models.items()}
    samples = {f"sample of {name}": lambda m=m: m.sample(2000, random_state=0) for name, m in models.items()}
    calls: dict[str, Callable[[], np.ndarray]] = scores | samples
    serial = [call() for call in calls.values()]
    for _ in range(2):
        threaded = in_threads(list(calls.values()))
        assert [
            name for name, one, two in zip(calls, serial, threaded, strict=True) if not np.array_equal(one, two)
        ] == []


def test_every_likelihood_is_among_them() -> None:
    assert set(ROWS) == set(LIKELIHOODS)


def states() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002  what is asked is whether anything uses it
    return torch.get_rng_state().tolist(), kind, keys.tolist(), rest, random.getstate()


@pytest.fixture(scope="module")
def table_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds")
    np.save(folder / "rows.npy", X)
    fitted().save(folder / "run")
    return folder


@pytest.fixture(scope="module")
def graph_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    (folder / "edges.csv").write_text("\n".join(["source,target", *(f"n{a},n{b}" for a, b in EDGES)]))
    PoincareGraphVAE(encoder="gcn", max_epochs=2, random_state=0).fit(EDGES).save(folder / "run")
    return folder


def fresh(folder: Path, suffix: str = "") -> Path:
    return folder / f"run{len(list(folder.iterdir()))}{suffix}"


def of_cells() -> None:
    anndata = pytest.importorskip("anndata")
    from horoball import cells

    some = cells.simulate(depth=1, cells=60, genes=20)
    assert isinstance(some, anndata.AnnData)
    model = cells.fit(some, batch_key="batch", random_state=None, **FAST)
    model.embed(some)
    cells.pseudotime(some, root=0)


def of_pictures() -> None:
    import matplotlib as mpl

    mpl.use("agg")
    plotting.cloud(WrappedNormal(torch.zeros(3, 2), torch.ones(3, 1), PoincareBall(1.0)), 10)


def of_a_graph() -> None:
    graph = random_tree(40, seed=1)
    preferential_attachment(40, 2, seed=1)
    split = split_links(graph, seed=1)
    for rule in rules_for(0.1).values():
        link_scores(rule(split.train, split.test.pairs), split.test.is_edge)
    model = PoincareGraphVAE(max_epochs=2).fit(graph)
    reconstruction(graph, model.run_.points(), model.run_.model.ball)
    model.predict_proba([(0, 1)])


CALLS: dict[str, Callable[[Path, Path], Any]] = {
    "fit": lambda table, graph: PoincareVAE(**FAST).fit(X),
    "fit of some landmarks": lambda table, graph: PoincareVAE(**FAST, distance_weight=5.0).fit(np.tile(X, (20, 1))),
    "transform": lambda table, graph: fitted().inverse_transform(fitted().transform(X)),
    "score_samples": lambda table, graph: (fitted().score_samples(X), fitted().score(X)),
    "sample": lambda table, graph: (fitted().sample(9), fitted().sample(9, random_state=0)),
    "sample of a generator": lambda table, graph: fitted().sample(9, random_state=np.random.default_rng()),
    "load": lambda table, graph: PoincareVAE.load(table / "run"),
    "fit of a given model": lambda table, graph: fit(
        VAE.from_config(ModelConfig(features=4, hidden=(8,)), generator=generator_for(0)), ArrayTable(X), TrainConfig(1)
    ),
    "graph": lambda table, graph: of_a_graph(),
    "load of a graph": lambda table, graph: PoincareGraphVAE.load(graph / "run"),
    "graph convolution": lambda table, graph: PoincareGraphVAE(encoder="gcn", max_epochs=1).fit(EDGES),
    "vgae_scores": lambda table, graph: vgae_scores(Graph.of(EDGES), torch.tensor([[0, 1]]), epochs=2),
    "branching_diffusion": lambda table, graph: branching_diffusion(depth=2, seed=3),
    "verdict": lambda table, graph: (verdict(X, seeds=1, draws=20), references(50, 3)),
    "delta": lambda table, graph: delta(Space.of_points(X), landmarks=20),
    "metrics": lambda table, graph: metrics(torch.from_numpy(X), torch.from_numpy(X[:, :2]), PoincareBall(1.0)),
    "candidates": lambda table, graph: compare_geometries(
        ArrayTable(X), {"hidden": (8,)}, TrainConfig(1), seeds=1, samples=5
    ),
    "neighbors": lambda table, graph: Index(PoincareBall(1.0)).add(torch.from_numpy(X)).search(torch.from_numpy(X), 3),
    "pictures": lambda table, graph: of_pictures(),
    "cells": lambda table, graph: of_cells(),
    "horoball fit": lambda table, graph: done("fit", table / "rows.npy", "-o", fresh(table), *QUICK),
    "horoball evaluate": lambda table, graph: done("evaluate", table / "run", table / "rows.npy", "--samples", 5),
    "horoball sample": lambda table, graph: done("sample", table / "run", "-o", fresh(table, ".parquet"), "-n", 5),
    "horoball embed": lambda table, graph: done(
        "embed", table / "run", table / "rows.npy", "-o", fresh(table, ".parquet")
    ),
    "horoball graph fit": lambda table, graph: done("graph", "fit", graph / "edges.csv", "-o", fresh(graph), *QUICK),
    "horoball graph evaluate": lambda table, graph: done("graph", "evaluate", graph / "run"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::horoball.graphs.LeakWarning")
def test_the_process_generators_are_left_as_they_were(name: str, table_run: Path, graph_run: Path) -> None:
    CALLS[name](table_run, graph_run)  # what is only imported now may draw as it likes
    before = states()
    CALLS[name](table_run, graph_run)
    assert states() == before


def test_the_process_generator_does_not_matter() -> None:
    torch.manual_seed(1)
    one = fitted()
    torch.manual_seed(2)
    two = fitted()
    assert torch.equal(weights(one.model_), weights(two.model_))


@pytest.mark.parametrize("posterior", ["riemannian", "wrapped"])
def test_bounds_of_a_model_follow_from_their_generator(posterior: str) -> None:
    config = ModelConfig(features=4, hidden=(8,), posterior=posterior)
    before, found = states(), []
    for _ in range(2):
        model = VAE.from_config(config, generator=generator_for(1))
        x, noise = torch.from_numpy(X).float(), generator_for(2)
        bound = elbo(model, x, generator=noise).value
        found.append((bound, log_likelihood(model, x, 10, generator=noise), model.generate(3, generator=noise)))
    assert states() == before
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


def test_random_states_of_scikit_learn_are_taken() -> None:
    assert seed_from(3) == seed_from(np.int64(3)) == 3
    assert seed_from(np.random.RandomState(0)) == seed_from(np.random.RandomState(0))
    assert seed_from(np.random.default_rng(0)) == seed_from(np.random.default_rng(0))
    assert seed_from(None) != seed_from(None)
    large = 2**63 - 1  # of torch's 64 bits
    assert train(ArrayTable(X), {"hidden": (8,)}, TrainConfig(1, seed=large)).record.training.seed == large
    with pytest.raises(ValueError, match="seed must be at least 0 and at most"):
        TrainConfig(1, seed=large + 1)
    for wrong in (-1, 1.5, "0", True):
        with pytest.raises(ValueError, match="random_state is a whole number"):
            PoincareVAE(random_state=wrong).fit(X)


def written(path: Path, x: np.ndarray) -> Path:
    if path.suffix == ".npy":
        np.save(path, x)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({f"x{i}": column for i, column in enumerate(x.T)}), path)
    else:
        lines = [",".join(f"x{i}" for i in range(x.shape[1])), *(",".join(map(repr, row)) for row in x.tolist())]
        path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("likelihood", ["normal", "bernoulli", "poisson"])
@pytest.mark.parametrize("suffix", [".csv", ".npy"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_command_and_the_estimator_fit_one_model_to_rows(
    tmp_path: Path, suffix: str, likelihood: str, dtype: type
) -> None:
    x = (ROWS[likelihood] + (1e3 / 3 if likelihood == "normal" else 0)).astype(dtype)
    done("fit", written(tmp_path / f"rows{suffix}", x), "-o", tmp_path / "run", *QUICK)
    run, model = Run.load(tmp_path / "run"), PoincareVAE(max_epochs=2, random_state=7).fit(x)
    assert torch.equal(weights(run.model), weights(model.model_))
    assert run.history == model.history_
    done("sample", tmp_path / "run", "-o", tmp_path / "new.parquet", "-n", 50, "--seed", 3)
    new = np.stack([column.to_numpy() for column in pq.read_table(tmp_path / "new.parquet").columns], 1)
    assert np.array_equal(new, model.sample(50, random_state=3))


@pytest.mark.parametrize("encoder", ["auto", "gcn"])
def test_the_command_and_the_estimator_fit_one_model_to_edges(graph_run: Path, tmp_path: Path, encoder: str) -> None:
    done("graph", "fit", graph_run / "edges.csv", "-o", tmp_path, "--encoder", encoder, *QUICK)
    run = GraphRun.load(tmp_path)
    pairs = [(f"n{a}", f"n{b}") for a, b in EDGES]
    for given in (pairs, str(graph_run / "edges.csv")):
        model = PoincareGraphVAE(max_epochs=2, random_state=7, encoder=encoder).fit(given)
        assert torch.equal(weights(run.model), weights(model.run_.model))
        assert np.array_equal(run.embed().numpy(), model.embedding_)


def test_the_command_and_python_fit_one_model_to_cells(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    from horoball import cells

    cells.simulate(depth=1, cells=80, genes=20).write_h5ad(tmp_path / "cells.h5ad")
    done("fit", tmp_path / "cells.h5ad", "-o", tmp_path / "run", "--batch", "batch", *QUICK)
    model = cells.fit(anndata.read_h5ad(tmp_path / "cells.h5ad"), max_epochs=2, random_state=7, batch_key="batch")
    assert torch.equal(weights(Run.load(tmp_path / "run").model), weights(model.run.model))
