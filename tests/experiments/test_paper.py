"""Short runs of the experiments on the tree and on MNIST, and what they are counted from."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
import torch

from experiments import beyond, branching, figure7, mnist, mnist_samples, runs, table1, table2, table3
from experiments.claims import Claim, Part
from horoball.datasets import Images
from horoball.datasets import mnist as images
from horoball.vae import VAE, ModelConfig

needs_data = pytest.mark.skipif("HOROBALL_DATA" not in os.environ, reason="needs MNIST in HOROBALL_DATA")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(mnist, "WEIGHTS", tmp_path / "weights")


@pytest.mark.parametrize("setting", [table1.settings(1)[5], *beyond.branching_settings(1)][:4])
def test_a_short_run_on_the_tree(setting: runs.Setting) -> None:
    found = branching.run(**setting, epochs=2, samples=10)  # type: ignore[arg-type]
    assert 50 < found["nll"] < 90
    learns = setting.get("learn", "")
    assert math.isclose(found["c"], float(setting["c"]), rel_tol=1e-6) == (learns != "c")
    assert math.isclose(found["prior_scale"], float(setting["prior_scale"]), rel_tol=1e-6) == (learns != "prior")


def test_a_split_of_the_tree_is_that_of_the_paper() -> None:
    tree, train, test = branching.split(3)
    assert (len(tree.x), len(train), len(test)) == (635, 444, 191)
    assert len({*train.tolist(), *test.tolist()}) == 635


@pytest.fixture
def few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {train: Images(*(part[:4000] for part in images(train))) for train in (True, False)}
    for module in (mnist, table3):
        monkeypatch.setattr(module, "digits", few.__getitem__)


@needs_data
@pytest.mark.usefixtures("few_digits")
def test_short_runs_on_mnist() -> None:
    for setting in (
        next(figure7.settings(1)),
        mnist.setting(10, 1.0, 0, posterior="wrapped", scale="full"),
        mnist.setting(2, 0.0, 0, start="spread"),
    ):
        found = mnist.run(**setting, epochs=1, samples=5, images=20)  # type: ignore[arg-type]
        assert 80 < found["nll"] < 300
        assert found["elbo"] < -found["nll"] + 5
        assert abs(found["rounding"]) < 0.5
        assert 0 < found["half"] < 10
        assert ("integral" in found) == (setting["d"] == 2)


@needs_data
@pytest.mark.usefixtures("few_digits")
def test_some_images_tell_the_bound_on_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist, "_ROUGH", 10)
    whole, part = (mnist.run(5, 1.0, 0, epochs=1, samples=100, images=n) for n in (4000, 400))
    assert whole["half"] == 0
    assert 0 < part["half"] < 0.3
    assert abs(part["nll"] - whole["nll"]) < 2 * part["half"]  # four standard errors


@needs_data
@pytest.mark.usefixtures("few_digits")
def test_a_model_of_mnist_is_trained_once_and_classified() -> None:
    first = table3.run(c=1.4, seed=0, trainings=1, epochs=1, passes=1)
    (weights,) = mnist.WEIGHTS.iterdir()
    written = weights.stat().st_mtime_ns
    assert table3.run(c=1.4, seed=0, trainings=1, epochs=1, passes=1) == first
    assert weights.stat().st_mtime_ns == written
    (counts,) = first["confusion"]
    assert sum(map(sum, counts)) == 4_000
    assert sum(counts[digit][digit] for digit in range(10)) > 1_200


def test_posterior_samples_lie_in_the_ball_and_favor_no_image() -> None:
    model = VAE.from_config(ModelConfig(features=4, d=3, c=0.2, hidden=(8,)))
    torch.manual_seed(0)
    x = mnist_samples.posterior_samples(model, torch.rand(10, 4), 25)
    assert (x.shape, x.dtype) == ((25, 3), torch.float64)
    assert len(x.unique(dim=0)) == 25
    assert (x.norm(dim=-1) < 1 / math.sqrt(0.2)).all()


def test_settings_leave_out_what_is_as_in_the_main_table() -> None:
    assert mnist.setting(2, 0, 1, posterior="wrapped") == {"d": 2, "c": 0.0, "seed": 1}
    assert mnist.setting(2, 1.4, 1, posterior="riemannian") == {"d": 2, "c": 1.4, "seed": 1}
    assert mnist.setting(2, 0, 1, posterior="wrapped", scale="full")["posterior"] == "wrapped"
    cells = {(s["d"], s["c"], s.get("posterior", "riemannian" if s["c"] else "")) for s in table2.settings(1)}
    assert cells == {(d, c, normal) for d in table2.DIMENSIONS for normal, c in table2.PAPER}


def test_tables_are_made_from_the_runs() -> None:
    for setting in [mnist.setting(2, 0.0, seed) for seed in (0, 1)] + [mnist.setting(2, 1.4, 1)]:
        runs._one("mnist", setting, _thirty)
    assert mnist.found(d=2, c=0.0) == {0: 30.0, 1: 31.0}
    assert "| 30.50 ± 6.35 (2) | not run | not run | not run |" in table2.table()
    assert "| minus the N-VAE's, paired | +1.40 |" in table2.table()


def test_runs_on_part_of_the_images_are_shown_as_such_until_there_is_a_whole_one() -> None:
    part = mnist.setting(2, 0.7, 0, images=1000)
    runs._one("mnist", part, lambda **_: {"nll": 40.0, "half": 0.1})
    assert "| ≈ 40.00 (1) |" in table2.table()
    runs._one("mnist", mnist.setting(2, 0.7, 0), lambda **_: {"nll": 41.0, "half": 0.0})
    assert mnist.found(d=2, c=0.7) == {0: 41.0}
    assert "| 41.00 (1) |" in table2.table()


def _thirty(d: int, c: float, seed: int) -> dict[str, float]:
    return {"nll": 30.0 + seed + c}


def test_a_claim_holds_if_its_interval_lies_on_the_claimed_side() -> None:
    below, across, few = ({0: -1.0, 1: -1.1, 2: -0.9}, {0: -1.0, 1: 1.0, 2: 0.1}, {0: -1.0, 1: -1.0})
    assert Part("", below).holds is True
    assert Part("", below, "above").holds is False
    assert Part("", across).holds is False
    assert Part("", few).holds is None
    assert Part("", {0: 0.01, 1: -0.01, 2: 0.0}, "about").holds is True
    assert Part("", below, "about").holds is False
    verdicts = [
        Claim("", "", [Part("", differences) for differences in parts]).verdict
        for parts in ([below, below], [below, across], [across, across], [below, {}], [few], [{}])
    ]
    assert verdicts == [
        "reproduced",
        "partly",
        "not reproduced",
        "reproduced (1 of 2 parts have enough runs)",
        "too few runs to tell",
        "not run",
    ]
