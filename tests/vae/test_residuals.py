"""Residuals that go together tell of gaps: the conditional normal distribution, its estimate, and their use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from horoball.storage.checkpoint import load_checkpoint, save_checkpoint
from horoball.tables.read import read
from horoball.training import TrainConfig
from horoball.training.state import FINAL
from horoball.vae.encoder import ColumnView
from horoball.vae.impute import impute
from horoball.vae.residuals import RESIDUALS, expected_covariance, filled_points, given_observed
from horoball.vae.run import Run
from horoball.vae.train import train


def covariance(size: int = 4) -> torch.Tensor:
    a = torch.randn(size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return a @ a.T + 0.3 * torch.eye(size)


def test_what_is_expected_is_what_the_normal_distribution_says() -> None:
    sigma = covariance()
    r = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    there = torch.tensor([[True, False, True, False], [False, True, True, True]])
    given = given_observed(sigma, r, there)
    for row in range(2):
        o, m = there[row], ~there[row]
        weights = sigma[m][:, o] @ torch.linalg.inv(sigma[o][:, o])
        torch.testing.assert_close(given.expected[:, row][:, m], r[:, row][:, o] @ weights.T)
        torch.testing.assert_close(given.expected[:, row][:, o], r[:, row][:, o])
        density = torch.distributions.MultivariateNormal(torch.zeros(int(o.sum())).double(), sigma[o][:, o])
        log_density = density.log_prob(r[:, row][:, o])
        torch.testing.assert_close(given.log_density[:, row].diff(), log_density.diff())


def test_a_covariance_is_found_through_gaps() -> None:
    generator = torch.Generator().manual_seed(0)
    sigma = covariance()
    x = torch.randn(2000, 4, generator=generator, dtype=torch.float64) @ torch.linalg.cholesky(sigma).T
    there = torch.rand(2000, 4, generator=generator) < 0.7
    found = expected_covariance(torch.where(there, x, 0.0).unsqueeze(0), there)
    assert float((found - sigma).abs().max()) < 0.15 * float(sigma.diagonal().max())


@pytest.fixture(scope="module")
def given() -> tuple[np.ndarray, np.ndarray, Run]:
    """Six columns of two factors, one of them positive, and a model too small to tell them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(300, 6))
    x[:, 5] = np.exp(2 * x[:, 5])
    gaps = np.where(rng.random(x.shape) < 0.2, np.nan, x)
    kinds = {f"x{i}": "real" for i in range(5)} | {"x5": "positive"}
    return x, gaps, train(read(gaps, columns=kinds), {"hidden": (8,)}, TrainConfig(max_epochs=3))


def test_gaps_are_filled_better_by_what_is_left_of_other_columns(given: tuple[np.ndarray, np.ndarray, Run]) -> None:
    x, gaps, run = given
    missing, table = np.isnan(gaps), run.read(gaps)

    def error(filled: np.ndarray) -> float:
        logs = [np.column_stack((each[:, :5], np.log(each[:, 5]))) for each in (filled, x)]
        return float(np.sqrt((((logs[0] - logs[1]) / logs[1].std(0))[missing] ** 2).mean()))

    together = error(impute(run, table).numpy())
    drawn = impute(run, table, draws=20).numpy()
    kept, run.residuals = run.residuals, None
    apart = error(impute(run, table).numpy())
    run.residuals = kept
    assert together < 0.5 * apart
    assert error(drawn.mean(0)) < 0.7 * apart
    assert (drawn[..., 5] > 0).all()
    spread = drawn[..., :5].std(0)[missing[:, :5]]
    assert 0.02 < float(np.median(spread)) < 1.0  # draws differ, and by less than the columns do


def test_the_covariance_is_kept_with_the_model_and_a_damaged_one_refused(
    given: tuple[np.ndarray, np.ndarray, Run], tmp_path: Path
) -> None:
    _, _, run = given
    run.save(tmp_path)
    kept = Run.load(tmp_path).residuals
    assert kept is not None
    assert run.residuals is not None
    assert torch.equal(kept, run.residuals)
    tensors, header = load_checkpoint(tmp_path / FINAL)
    for bad in (torch.eye(3).double(), -torch.eye(6).double(), torch.full((6, 6), torch.nan).double()):
        save_checkpoint(tmp_path / FINAL, tensors | {RESIDUALS: bad}, header)
        with pytest.raises(ValueError, match="its covariance of residuals"):
            Run.load(tmp_path)


def test_points_are_filled_by_the_rest_of_their_row() -> None:
    x = torch.randn(200, 1, generator=torch.Generator().manual_seed(0)) * torch.ones(3)
    gaps = x.clone()
    gaps[::4, 1] = torch.nan
    view = ColumnView("normal,normal,normal", 3)
    assert float((filled_points(view, gaps) - x).abs().max()) < 0.1
    assert torch.equal(filled_points(view, x), x)
    nothing = torch.full((3, 3), torch.nan)
    assert torch.equal(filled_points(view, nothing), torch.zeros(3, 3))


def test_no_column_drowns_the_others_in_a_map() -> None:
    amount = torch.randint(10_000, (200,), generator=torch.Generator().manual_seed(0))
    rare = np.arange(200) % 20 == 0
    table = read(pa.table({"amount": amount.numpy(), "rare": rare}), columns={"amount": "count"})
    run = train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1, distance_weight=0.0))
    x = torch.cat(list(run.blocks(table)))
    seen, raw = run.seen(table).var(0, correction=0), run.distance_view(x).var(0, correction=0)
    assert raw.max() > 1
    torch.testing.assert_close(seen, raw.clamp_max(1.0))  # what varies less stays as it is
