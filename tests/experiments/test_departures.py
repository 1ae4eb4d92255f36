"""The variants of the two-dimensional models do what their names say, and the cheap likelihood is the likelihood."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from experiments import departures, estimators, mnist, runs
from experiments.disc_likelihood import disc_log_likelihood, disc_points
from experiments.released_layer import RELEASES, ReleasedGyroplane
from horoball.datasets import Images
from horoball.distributions import RiemannianNormal
from horoball.geometry import PoincareBall
from horoball.training import log_likelihood
from horoball.vae import VAE, ModelConfig


def as_printed(z: Tensor, w: Tensor, b: Tensor, c: float, release: str) -> Tensor:
    """The releases' layer step by step: exp₀, transport, Möbius sum, asinh."""
    x, root = PoincareBall(c).to_ball(z), math.sqrt(c)
    norm = (w * b).norm(dim=-1, keepdim=True)
    point = torch.tanh(root * norm) / (root * norm) * w * b
    normal = (1 - c * point.square().sum(-1, keepdim=True)) * w
    a, p = (normal, point) if release == "first" else (point, normal)
    u, v = -p, x.unsqueeze(1)
    uv, uu, vv = (u * v).sum(-1, keepdim=True), u.square().sum(-1, keepdim=True), v.square().sum(-1, keepdim=True)
    total = ((1 + 2 * c * uv + c * vv) * u + (1 - c * uu) * v) / (1 + 2 * c * uv + c * c * uu * vv)
    if release == "swapped":
        total = total * ((1 - 4e-3) / (root * total.norm(dim=-1, keepdim=True))).clamp_max(1.0)
    sine = 2 * root * (total * a).sum(-1) / ((1 - c * total.square().sum(-1)) * a.norm(dim=-1))
    return torch.asinh(sine) / root


def released(c: float, release: str) -> ReleasedGyroplane:
    torch.manual_seed(0)
    layer = ReleasedGyroplane(2, 60, PoincareBall(c), release).double()
    with torch.no_grad():
        layer.w.mul_(1.5)  # so that some points of the second release lie outside the ball
    return layer


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("c", [0.1, 1.4])
def test_the_layer_of_a_release_is_the_formula_of_its_code(c: float, release: str) -> None:
    layer = released(c, release)
    z = torch.randn(30, 2, dtype=torch.float64)
    torch.testing.assert_close(layer(z), as_printed(z, layer.w, layer.b, c, release), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("release", RELEASES)
def test_without_curvature_the_layer_of_a_release_is_its_limit(release: str) -> None:
    nearly, flat = released(1e-8, release), released(0.0, release)
    z = torch.randn(30, 2, dtype=torch.float64)
    torch.testing.assert_close(flat(z), nearly(z), rtol=1e-5, atol=1e-5)


def test_the_first_release_starts_as_the_paper_s_layer_with_its_start() -> None:
    first = departures.departing(1.4, 0, layer="first").decoder.network[0]  # type: ignore[index]
    same = departures.departing(1.4, 0, start="released").decoder.network[0]  # type: ignore[index]
    z = torch.randn(30, 2)
    torch.testing.assert_close(first(z), same(z), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("c", departures.CURVATURES)
def test_every_departure_departs(c: float) -> None:
    x = torch.rand(3, 784)
    plain = departures.departing(c, 0)
    doubled = departures.departing(c, 0, mean="ball")
    torch.testing.assert_close(doubled.posterior(x).loc, 2 * plain.posterior(x).loc)
    assert departures.departing(c, 0, floor=5.0).posterior(x).scale.min() == 5  # type: ignore[union-attr]
    assert departures.departing(c, 0, scale="diagonal").posterior(x).scale.shape == (3, 2)  # type: ignore[union-attr]
    z = torch.randn(30, 2)
    outputs = [
        departures.departing(c, 0, **options).decoder(z)
        for options in ({}, {"layer": "first"}, {"layer": "swapped"}, {"start": "spread"})
    ]
    assert all(not torch.allclose(a, b) for number, a in enumerate(outputs) for b in outputs[:number])


def test_variants_have_names_of_their_own() -> None:
    for number in (0, 1):
        names = [runs.slug(departures.setting(1.4, 0, **both[number])) for both in departures.VARIANTS.values()]
        assert len(set(names)) >= len(names) - 2  # of the N-VAE, two releases differ in its optimizer or scale alone
    with pytest.raises(ValueError, match="Unknown release"):
        ReleasedGyroplane(2, 3, PoincareBall(1.0), "third")


@pytest.mark.parametrize("distance", [0.0, 1.5])
@pytest.mark.parametrize("c", [0.0, 1.4])
def test_a_normal_as_wide_as_the_spacing_has_an_integral_of_one(c: float, distance: float) -> None:
    ball = PoincareBall(c)
    z, area = disc_points(ball, 3.0, 0.2)
    q = RiemannianNormal(torch.tensor([distance, 0.0]).double(), torch.tensor([0.2]).double(), ball)
    assert float((q.log_prob(z).exp() * area).sum()) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("c", [0.0, 1.4])
def test_the_integral_over_the_disc_is_the_bound_of_many_samples(c: float) -> None:
    torch.manual_seed(0)
    model = VAE.from_config(ModelConfig(features=20, d=2, c=c, hidden=(16,), likelihood="bernoulli"))
    with torch.no_grad():
        model.decoder.network[0].weight.mul_(3)  # type: ignore[index]
        model.decoder.network[2].weight.mul_(3)  # type: ignore[index]
    x = torch.rand(8, 20)
    fine, coarse = (disc_log_likelihood(model, x, spacing) for spacing in (0.05, 0.1))
    torch.testing.assert_close(coarse, fine, rtol=0, atol=5e-3)
    torch.testing.assert_close(log_likelihood(model, x, 20_000), fine, rtol=0, atol=0.03)


@pytest.fixture
def few_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    few = Images(torch.rand(200, 784), torch.zeros(200, dtype=torch.long))
    monkeypatch.setattr(mnist, "digits", lambda train: few)
    monkeypatch.setattr(mnist, "WEIGHTS", tmp_path / "weights")
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(departures, "disc_log_likelihood", lambda model, x, spacing=None: model.embed(x).sum(-1))


@pytest.mark.usefixtures("few_digits")
def test_a_longer_training_goes_on_from_a_shorter_one() -> None:
    options: dict[str, Any] = {"optimizer": "amsgrad", "layer": "first"}
    straight = departures.run(1.4, 0, 10, **options)
    (mnist.WEIGHTS / f"departures-{runs.slug(departures.setting(1.4, 0, 10, **options))}.safetensors").unlink()
    runs._one(departures.STUDY, departures.setting(1.4, 0, 5, **options), departures.run)
    begun = []
    restore = departures._restore
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(departures, "_restore", lambda *args: begun.append(restore(*args)) or begun[0])
        assert departures.run(1.4, 0, 10, **options) == straight
    assert begun == [5]


@pytest.mark.usefixtures("few_digits")
def test_tables_of_departures_and_estimators_stand_with_what_has_been_run() -> None:
    assert departures.table().count("\n") == 1  # nothing was
    assert estimators.table().count("\n") == 1
    runs._one(departures.STUDY, departures.setting(1.4, 0, layer="first"), lambda **_: {"nll": 142.0})
    runs._one(departures.STUDY, departures.setting(1.4, 0), lambda **_: {"nll": 144.0})
    assert "| the first release's layer | 142.00 (1) | −2.00 (1) | not run | not run | not run |" in departures.table()
    nll = {"100 samples": [1.5, 2.5], "5000 samples": [1.0, 2.0], "disc": [0.9, 1.9]}
    measured = {"nll": nll, "milliseconds": {"disc": 0.5}}
    runs._one(estimators.STUDY, {"d": 2, "c": 1.4, "epochs": 80, "seed": 0}, lambda **_: measured)
    assert "| 100 samples | 2.00 ± 0.98 | +0.500 ± 0.000 | 0.50 |  |" in estimators.table()
