"""The distance term: its formula, its landmarks, and what it does to a map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from horoball.datasets import branching_diffusion
from horoball.hierarchy import metrics
from horoball.tables import ArrayTable, Order, geodesics
from horoball.tables.covariates import Covariates
from horoball.tables.table import held_out
from horoball.training import TrainConfig
from horoball.vae import VAE, ModelConfig, fit, layout
from horoball.vae.distances import DistanceTerm
from horoball.vae.layout import with_landmarks
from horoball.vae.options import map_weight
from horoball.vae.run import Run
from horoball.vae.train import train


def model(c: float = 1.0) -> VAE:
    torch.manual_seed(0)
    return VAE.from_config(ModelConfig(features=5, hidden=(16,), c=c))


@pytest.mark.parametrize("c", [0.0, 1.0])
def test_the_term_is_its_formula(c: float) -> None:
    vae, x = model(c), torch.randn(7, 5)
    term = DistanceTerm(x[:3])
    with torch.no_grad():
        term.log_scale.fill_(0.3)
        mu, g = vae.posterior(x).loc, torch.rand(7, 3)
        got = term(vae.ball.cdist(mu, mu[:3]), g)
        s = float(np.exp(0.3))
        for i in range(7):
            pairs = [(float(vae.ball.dist(mu[i], mu[k])) / s - float(g[i, k])) ** 2 for k in range(3)]
            expected = np.mean([p / (float(g[i, k]) ** 2 + 0.01) for k, p in enumerate(pairs)])
            np.testing.assert_allclose(float(got[i]), expected, rtol=1e-5)


def test_the_scale_of_a_map_does_not_count() -> None:
    vae, x = model(0.0), torch.randn(20, 5)
    term = DistanceTerm(x)
    with torch.no_grad():
        mu, g = vae.posterior(x).loc, torch.cdist(x, x)
        before = term(vae.ball.cdist(mu, mu), g)
        for parameter in (vae.encoder.network[-1].weight, vae.encoder.network[-1].bias):  # type: ignore[union-attr]
            parameter *= 3
        term.log_scale += np.log(3)
        torch.testing.assert_close(term(vae.ball.cdist(vae.posterior(x).loc, vae.posterior(x).loc), g), before)


def test_landmarks_are_all_rows_of_a_small_table_and_some_of_a_large_one() -> None:
    x = torch.randn(60, 4)
    table, term = with_landmarks(ArrayTable(x))
    assert table.side is not None
    expected = geodesics(x.numpy(), 20).T
    torch.testing.assert_close(table.side, torch.from_numpy(expected / np.median(expected[expected > 0])))
    assert torch.equal(term.landmarks, x)
    large, few = with_landmarks(ArrayTable(torch.randn(2100, 3)))
    assert large.side is not None
    assert large.side.shape == (2100, 512)
    assert few.landmarks is None  # no row is moved at every step


def test_rows_of_a_step_are_compared_through_the_landmark_nearest_to_either() -> None:
    line = torch.arange(40.0)
    marks = torch.tensor([0.0, 13.0, 26.0, 39.0])
    g = (line[:, None] - marks).abs()
    others, between = DistanceTerm().among(g)
    assert torch.equal(others, torch.arange(40))
    assert torch.equal(between.diagonal(), torch.full((40,), torch.inf))
    assert torch.equal(between, between.mT)
    exact = (line[:, None] - line).abs()
    apart = exact > 13
    assert float((between - exact)[apart].abs().max()) <= 6.5  # half a landmark's part of the line, at most
    nearest = g.argmin(1)
    i, j = 7, 31
    assert float(between[i, j]) == float(g[i, nearest[j]] + g[j, nearest[i]]) / 2
    g[20:, :2], g[:20, 2:] = torch.inf, torch.inf  # two categories
    between = DistanceTerm().among(g)[1]
    assert bool(between[:20, 20:].isinf().all())
    assert bool(between[:13, 14:20].isfinite().all())
    some, few = DistanceTerm(at_once=5).among(g, torch.Generator().manual_seed(0))
    assert few.shape == (40, 20)
    assert torch.equal(few, between[:, some])


def test_every_category_has_landmarks_and_many_rows_go_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_ALL", 100)
    monkeypatch.setattr(layout, "LANDMARKS", 60)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3)).astype(np.float32)
    batches = Covariates.of({"batch": np.repeat(["a", "b"], [780, 20])})
    table = ArrayTable(x, covariates=batches)
    whole = layout.surveyed(table)
    assert (whole.landmarks >= 780).sum() >= 8
    monkeypatch.setattr(layout, "_MAX_MULTIPLICATIONS", 1e5)
    monkeypatch.setattr(layout, "_SAMPLE", 300)
    monkeypatch.setattr(layout, "_FEW", 60)
    part = layout.surveyed(table)
    assert np.array_equal(part.landmarks, whole.landmarks)
    known = whole.lengths.isfinite()
    assert torch.equal(part.lengths.isfinite(), known)
    assert np.corrcoef(part.lengths[known], whole.lengths[known])[0, 1] > 0.9


def test_distances_go_with_their_rows() -> None:
    x = torch.arange(30.0).reshape(30, 1)
    table = ArrayTable(x, side=x * 2)
    for part in table.split(0.3):
        assert part is not None
        for batch in part.batches(Order(4)):
            assert batch.side is not None
            assert torch.equal(batch.side, 2 * batch.x)


def test_a_map_is_more_faithful_with_the_term() -> None:
    table = ArrayTable(branching_diffusion(depth=4, seed=1).x)
    config = TrainConfig(max_epochs=40, seed=0)
    runs = [train(table, {"hidden": (64,)}, config.replace(distance_weight=w)) for w in (0.0, 100.0)]
    assert "distance" in runs[1].history[-1]
    assert "distance" not in runs[0].history[-1]
    x = torch.cat(list(table.blocks()))
    plain, faithful = (
        metrics(x, torch.cat(list(run.embed(table))), run.model.ball, chart="ball").rank_correlation for run in runs
    )
    assert faithful > plain + 0.02


def test_a_run_with_the_term_is_resumed_exactly(tmp_path: Path) -> None:
    table = ArrayTable(branching_diffusion(depth=3).x)
    config = TrainConfig(max_epochs=4, distance_weight=10.0)
    whole = train(table, {"hidden": (8,)}, config, tmp_path / "whole")
    train(table, {"hidden": (8,)}, config.replace(max_epochs=2), tmp_path / "parts")
    parts = train(table, {"hidden": (8,)}, config, tmp_path / "parts", resume=True)
    for (name, one), two in zip(whole.model.state_dict().items(), parts.model.state_dict().values(), strict=True):
        assert torch.equal(one, two), name
    assert Run.load(tmp_path / "parts").history == whole.history


def test_a_table_without_distances_is_refused() -> None:
    vae = model()
    with pytest.raises(ValueError, match="numbers beside the rows"):
        fit(vae, ArrayTable(torch.randn(30, 5)), TrainConfig(max_epochs=1), term=DistanceTerm(torch.randn(3, 5)))
    with pytest.raises(ValueError, match="distance_weight"):
        TrainConfig(distance_weight=-1.0)


def test_the_weight_of_a_map() -> None:
    assert map_weight(ArrayTable(torch.zeros(100, 4)), 2) == 50.0
    assert map_weight(ArrayTable(torch.zeros(100, 4)), 4) == 0.0
    assert map_weight(ArrayTable(torch.zeros(10, 4)), 2) == 0.0


def test_equal_rows_are_no_trouble() -> None:
    x = torch.zeros(80, 3)
    x[:40, 0] = 1.0
    run = train(
        ArrayTable(x), {"hidden": (8,), "likelihood": "normal"}, TrainConfig(max_epochs=2, distance_weight=50.0)
    )
    assert np.isfinite(run.history[-1]["loss"])


def test_a_table_of_mostly_equal_rows_trains() -> None:
    x = torch.zeros(200, 5)
    x[:40] = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    run = train(ArrayTable(x), {"hidden": (8,)}, TrainConfig(max_epochs=2, distance_weight=50.0))
    assert np.isfinite(run.history[-1]["loss"])


def test_rows_that_are_held_out_are_no_landmarks() -> None:
    x = torch.randn(40, 3)
    table = ArrayTable(x)
    held = held_out(40, 0.25)
    _, term = with_landmarks(table, candidates=np.setdiff1d(np.arange(40), held))
    assert len(term.landmarks) == 30
    part, rest = table.split(0.25)
    assert rest is not None
    assert torch.equal(torch.cat(list(part.blocks())), term.landmarks)


def test_a_run_is_resumed_with_the_term_it_had(tmp_path: Path) -> None:
    table, config = ArrayTable(torch.randn(60, 5)), TrainConfig(max_epochs=1)
    weighed = config.replace(distance_weight=5.0)
    train(table, {"hidden": (8,)}, weighed, tmp_path / "a")
    with pytest.raises(ValueError, match=r"has distance_weight = 5\.0, not 0\.0\. Resume with"):
        train(table, {"hidden": (8,)}, config.replace(max_epochs=2), tmp_path / "a", resume=True)
    beside, term = with_landmarks(table)
    fit(model(), beside, weighed, tmp_path / "b", term=term)
    with pytest.raises(ValueError, match="has a distance term"):
        fit(model(), table, config, tmp_path / "b", resume=True)
    fit(model(), table, config, tmp_path / "c")
    with pytest.raises(ValueError, match="has no distance term"):
        fit(model(), beside, weighed, tmp_path / "c", term=term, resume=True)


def test_distances_that_are_not_known_are_left_out() -> None:
    vae, x = model(), torch.randn(7, 5)
    term, g = DistanceTerm(x[:3]), torch.cdist(x, x[:3])
    loc = vae.posterior(x).loc
    g[:, 2] = torch.inf
    g[6] = torch.inf  # of a row that knows no landmark
    got = term(vae.ball.cdist(loc, loc[:3]), g)
    near = DistanceTerm(x[:2])(vae.ball.cdist(loc, loc[:2]), torch.cdist(x, x[:2]))
    torch.testing.assert_close(got[:6], near[:6])
    assert float(got[6].detach()) == 0
    got.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in (*vae.encoder.parameters(), term.log_scale))


def test_distances_are_known_within_categories_only() -> None:
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    batch = np.arange(60) % 3
    batch[0] = 3  # a category of one row
    table = ArrayTable(x, covariates=Covariates.of({"batch": batch}))
    beside, term = with_landmarks(table)
    assert beside.side is not None
    assert term.landmarks.shape == (60, 4)
    assert np.array_equal(beside.side.isfinite().numpy(), (batch[:, None] == batch[None]) & (batch != 3))
    members = np.flatnonzero(batch == 1)
    alone = geodesics(x.numpy()[members])
    side = beside.side.numpy()[np.ix_(members, members)]
    np.testing.assert_allclose(side / side.max(), alone / alone.max(), rtol=1e-5)
    run = train(table, {"hidden": (8,)}, TrainConfig(max_epochs=2, distance_weight=50.0))
    assert np.isfinite(run.history[-1]["loss"])


def test_a_sparse_table_of_counts_stays_sparse_beside_its_distances() -> None:
    counts = np.random.default_rng(0).poisson(0.3, (100, 70)).astype(np.float32)
    counts[:, 0] += 1
    table, term = with_landmarks(ArrayTable(csr_matrix(counts)), log=True, library=True)
    assert hasattr(table.matrix(), "tocsr")
    assert torch.equal(term.landmarks, torch.from_numpy(counts))
    dense, _ = with_landmarks(ArrayTable(counts), log=True, library=True)
    assert torch.equal(table.side, dense.side)
    assert map_weight(table, 2, library=True) == 50.0
    assert map_weight(ArrayTable(np.zeros((100, 2000))), 2, library=True) == 200.0


def test_compiling_does_not_go_with_the_term() -> None:
    with pytest.raises(ValueError, match="compile does not go"):
        TrainConfig(compile=True, distance_weight=1.0)
