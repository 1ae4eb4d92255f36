"""Parts of a model from outside: encoders, decoders, priors and spaces, in the estimator, the command and files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Independent, MultivariateNormal, Normal, StudentT, kl_divergence

import horoball as hb
from horoball.distributions import WrappedNormal
from horoball.geometry import MANIFOLDS, PoincareBall
from horoball.likelihoods import LIKELIHOODS, from_torch
from horoball.plugins import UnknownNameError
from horoball.vae import VAE, ModelConfig, parts
from horoball.vae.encoder import Encoder, Prior
from horoball.vae.model import Decoder

FAST = {"max_epochs": 2, "hidden": (16,), "random_state": 0, "distance_weight": 0.0}

PLUGIN = """
import torch
from torch import nn
from horoball.vae.parts import register_decoder, register_encoder, register_prior
from horoball.vae.priors import MixturePrior

@register_encoder
class Wide(nn.Module):
    name = "wide"

    def __init__(self, features, outputs, width=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, outputs))

    def forward(self, x):
        return self.layers(x)

@register_decoder
class Flat(nn.Linear):
    name = "flat"

    def __init__(self, d, outputs):
        super().__init__(d, outputs)

@register_prior
class Three(MixturePrior):
    name = "three"

    def __init__(self, d, manifold, posterior):
        super().__init__(d, manifold, posterior=posterior, components=3)
"""
CHOSEN = {"encoder": 'wide:{"width": 8}', "decoder": "flat", "prior": "three"}


def rows(n: int = 80) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 4)) @ np.diag([3.0, 1.0, 1.0, 0.5])


@pytest.fixture
def registered() -> Iterator[None]:
    """What PLUGIN registers, for one test."""
    exec(compile(PLUGIN, "plugin", "exec"), {"__name__": "plugin"})  # noqa: S102
    yield
    for registry, name in ((parts.ENCODERS, "wide"), (parts.DECODERS, "flat"), (parts.PRIORS, "three")):
        registry._classes.pop(name, None)


@pytest.mark.parametrize("part", CHOSEN)
def test_a_registered_part_is_used_kept_and_read_back(registered: None, tmp_path: Path, part: str) -> None:
    x = rows()
    model = hb.PoincareVAE(**{part: CHOSEN[part]}, **FAST).fit(x)
    model.save(tmp_path / "run")
    again = hb.PoincareVAE.load(tmp_path / "run")
    assert again.get_params()[part] == CHOSEN[part]
    np.testing.assert_array_equal(again.transform(x), model.transform(x))
    np.testing.assert_array_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))
    assert np.isfinite(again.score_samples(x, samples=5)).all()
    assert again.inverse_transform(np.zeros((1, 2))).shape == (1, 4)
    assert again.tree(x, draws=2).leaves == len(x)
    assert "<html" in again.view(x).html


def test_a_part_that_is_not_registered_again_is_a_typed_error(registered: None, tmp_path: Path) -> None:
    hb.PoincareVAE(encoder="wide", **FAST).fit(rows()).save(tmp_path / "run")
    parts.ENCODERS._classes.pop("wide")
    with pytest.raises(UnknownNameError, match=r"Unknown encoder 'wide'.*needs that package installed"):
        hb.PoincareVAE.load(tmp_path / "run")


@pytest.mark.parametrize("spec", ["wide:{", "wide:[1]", 'wide:{"depth": 3}', "wide:" + "x" * 10_000])
def test_settings_of_a_file_are_checked_before_they_are_used(registered: None, spec: str) -> None:
    with pytest.raises(ValueError, match="takes settings as JSON, such as wide"):
        ModelConfig(features=2, encoder=spec)


@pytest.mark.parametrize("name", ["os", "os:system", "builtins.eval", "../evil"])
@pytest.mark.parametrize("kind", parts.Parts._fields)
def test_a_file_cannot_name_a_module(kind: str, name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"Unknown {kind}"):
        ModelConfig(features=2, **{kind: name})


def test_classes_functions_and_modules_are_parts_as_well(registered: None, tmp_path: Path) -> None:
    x, wide = rows(), parts.ENCODERS["wide"]
    named = hb.PoincareVAE(encoder=CHOSEN["encoder"], **FAST).fit(x)
    bound = hb.PoincareVAE(encoder=partial(wide, width=8), **FAST).fit(x)
    bound.save(tmp_path / "run")
    assert hb.PoincareVAE.load(tmp_path / "run").encoder == named.encoder
    made = hb.PoincareVAE(encoder=lambda features, outputs: nn.Linear(features, outputs), **FAST).fit(x)
    module = nn.Linear(4, 3)
    before = module.weight.detach().clone()
    given = hb.PoincareVAE(encoder=module, **FAST).fit(x)
    assert torch.equal(module.weight, before)  # a copy is trained, as scikit-learn wants it
    for model in (made, given):
        assert model.transform(x).shape == (80, 2)
        with pytest.raises(ValueError, match=r"The encoder of this model has no name.*register_encoder"):
            model.save(tmp_path / "other")


def test_images_are_seen_in_their_shape() -> None:
    images = np.random.default_rng(0).normal(size=(60, 1, 4, 4)).astype(np.float32)
    seen: list[tuple[int, ...]] = []

    class Convolution(nn.Module):
        def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(shape[0], 2, 3, padding=1), nn.Flatten(), nn.Linear(32, outputs))

        def forward(self, x: Tensor) -> Tensor:
            seen.append(tuple(x.shape[1:]))
            return self.layers(x)

    model = hb.PoincareVAE(encoder=Convolution, **FAST).fit(images)
    assert model.transform(images[:3]).shape == (3, 2)
    assert set(seen) == {(1, 4, 4)}
    with pytest.raises(ValueError, match="the MLP takes plain rows"):
        hb.PoincareVAE(**FAST).fit(images)


def test_an_encoder_may_give_posteriors_and_a_prior_may_be_one_of_torch() -> None:
    class Gives(nn.Linear):
        def forward(self, x: Tensor) -> Independent:
            loc, raw = super().forward(x).chunk(2, -1)
            return Independent(Normal(loc, raw.exp()), 1)

    prior = MultivariateNormal(torch.zeros(2), torch.eye(2))
    model = hb.PoincareVAE(encoder=lambda features: Gives(features, 4), prior=prior, **FAST).fit(rows())
    assert np.isfinite(model.score_samples(rows(), samples=5)).all()
    assert model.sample(3).shape == (3, 4)


def test_a_distribution_of_torch_is_a_likelihood() -> None:
    try:
        from_torch("t4", StudentT, df=4.0)
        model = hb.PoincareVAE(likelihood="t4", **FAST).fit(rows())
        assert np.isfinite(model.score_samples(rows(), samples=5)).all()
        h = torch.randn(3, 8)
        expected = StudentT(4.0, h[:, :4], h[:, 4:].exp()).log_prob(torch.ones(3, 4)).sum(-1)
        torch.testing.assert_close(LIKELIHOODS["t4"](4)(h).log_prob(torch.ones(3, 4)), expected)
    finally:
        LIKELIHOODS._classes.pop("t4", None)


def test_what_a_part_lacks_is_said_when_a_model_is_made() -> None:
    ball = PoincareBall(1.0)
    good = {
        "encoder": Encoder(3, 2, ball, [8]),
        "decoder": Decoder(2, 3, ball, [8]),
        "prior": Prior(2, ball),
        "likelihood": LIKELIHOODS["normal"](3),
    }
    VAE(**good)
    for kind, wrong, says in (
        ("encoder", nn.Module(), r"An encoder \(horoball.vae.parts.Encoder\) needs forward"),
        ("decoder", lambda z: z, "A model's decoder is an nn.Module, got function"),
        ("prior", nn.Linear(1, 1), r"A prior \(horoball.vae.parts.Prior\) needs ball"),
        ("prior", MultivariateNormal(torch.zeros(2), torch.eye(2)), "Wrap it: horoball.vae.parts.GivenPrior"),
        ("likelihood", Normal, "horoball.likelihoods.from_torch"),
    ):
        with pytest.raises(TypeError, match=says):
            VAE(**good | {kind: wrong})


class Plane:
    """A flat space that says no more than it has to."""

    injectivity_radius = float("inf")

    def dist(self, z: Tensor, y: Tensor) -> Tensor:
        return torch.linalg.vector_norm(z - y, dim=-1)

    def exp(self, z: Tensor, v: Tensor) -> Tensor:
        return z + v

    def log(self, z: Tensor, y: Tensor) -> Tensor:
        return y - z

    def log_volume(self, v: Tensor) -> Tensor:
        return v.new_zeros(v.shape[:-1])


def test_nothing_of_the_ball_is_assumed_of_another_space() -> None:
    q = WrappedNormal(torch.zeros(2), torch.ones(1), Plane())  # type: ignore[arg-type]
    expected = MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.ones(2))
    torch.testing.assert_close(q.log_prob(torch.ones(2)), expected)
    for refused in (q.entropy, lambda: kl_divergence(q, q)):
        with pytest.raises(NotImplementedError, match=r"known on PoincareBall, not on Plane\. Estimate it"):
            refused()
    round_one = type("Sphere", (Plane,), {"injectivity_radius": 3.14, "c": 1.0, "is_euclidean": False})()
    with pytest.raises(ValueError, match=r"injectivity radius of 3\.14"):
        WrappedNormal(torch.zeros(2), torch.ones(1), round_one)
    with pytest.raises(TypeError, match="RiemannianNormal is known on PoincareBall, not on Sphere"):
        hb.RiemannianNormal(torch.zeros(2), torch.ones(1), round_one)
    with pytest.raises(TypeError, match="needs dist, exp, injectivity_radius, log, log_volume; object"):
        WrappedNormal(torch.zeros(2), torch.ones(1), object())  # type: ignore[arg-type]


def test_a_space_from_outside_is_one_for_a_model() -> None:
    options = FAST | {"posterior": "wrapped", "decoder": "log0"}
    model = hb.PoincareVAE(manifold=Plane, **options).fit(rows())
    assert model.transform(rows()).shape == (80, 2)
    assert np.isfinite(model.score_samples(rows(), samples=5)).all()
    assert "<html" in model.view(rows()).html
    assert model.tree(rows(), draws=2).leaves == 80
    assert "plane" not in MANIFOLDS
    with pytest.raises(ValueError, match='Use the decoder "log0"'):
        hb.PoincareVAE(manifold=Plane, **FAST | {"posterior": "wrapped"}).fit(rows())


def test_the_command_takes_parts_of_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "my_parts.py").write_text(PLUGIN)
    data, folder = tmp_path / "rows.csv", tmp_path / "run"
    np.savetxt(data, rows(), "%.4f", ",", header="a,b,c,d", comments="")

    def command(*arguments: object) -> subprocess.CompletedProcess[str]:
        paths = os.pathsep.join(path for path in [str(tmp_path), *sys.path] if path)
        line = [sys.executable, "-m", "horoball", *map(str, arguments)]
        return subprocess.run(
            line, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False, cwd=tmp_path
        )

    small = ["--max-epochs", 1, "--distance-weight", 0, "--quiet", "-o", folder]
    chosen = [word for kind, spec in CHOSEN.items() for word in (f"--{kind}", spec)]
    fitted = command("fit", data, "--plugin", "my_parts", *chosen, *small)
    assert fitted.returncode == 0, fitted.stderr
    embedded = command("--plugin", "./my_parts.py", "embed", folder, data, "-o", tmp_path / "map.csv")
    assert embedded.returncode == 0, embedded.stderr
    without = command("embed", folder, data, "-o", tmp_path / "other.csv")
    assert without.returncode == 1
    assert "Unknown encoder 'wide'" in without.stderr or "Unknown" in without.stderr
    refused = command("--plugin", "nothing_of_this_name", "embed", folder, data, "-o", tmp_path / "other.csv")
    assert refused.returncode == 2
    assert "nothing_of_this_name" in refused.stderr
