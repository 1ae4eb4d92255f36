"""Extensions from outside the package: what a plugin registers is used by the estimators and the command."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from horoball import PoincareBall, PoincareGraphVAE, PoincareVAE, plugins
from horoball.distributions import POSTERIORS, RiemannianNormal, WrappedNormal
from horoball.likelihoods import LIKELIHOODS, Normal
from horoball.plugins import Registry, UnknownNameError
from horoball.tables import ArrayTable
from horoball.vae import ModelConfig
from horoball.vae.onnx import EncoderProgram
from tests.commands import run

MOST_LINES = 40  # of an extension
FAST = {"max_epochs": 3, "hidden": (16,), "random_state": 0}

LIKELIHOOD = '''
"""A geometric likelihood of counts."""
import torch
from torch.distributions import Geometric as TorchGeometric
from horoball.distributions.base import Features
from horoball.likelihoods import Likelihood, register_likelihood

@register_likelihood
class Geometric(Likelihood):
    """Failures before the first success, with logits h."""

    name = "geometric"
    preference = 15
    log_input = True
    domain = "counts (geometric)"

    def forward(self, h):
        return Features(TorchGeometric(logits=h, validate_args=False), 1, validate_args=False)

    @classmethod
    def suits(cls, summary):
        huge = summary.whole and float(summary.low.min()) == 0 and float(summary.high.max()) > 1000
        return "a count is above 1000" if huge else None

    @classmethod
    def check(cls, summary, **options):
        if not summary.whole or float(summary.low.min()) < 0:
            raise ValueError("The likelihood geometric needs counts.")

    def impossible(self, x, *, whole=False):
        return super().impossible(x) | (x < 0) | (x != x.round())

    def start_at(self, mean):
        return -mean.clamp_min(1e-3).log()
'''

POSTERIOR = '''
"""A wrapped Laplace distribution: independent Laplace noise in the tangent space."""
import torch
from horoball.distributions import BallNormal, register_posterior

@register_posterior
class WrappedLaplace(BallNormal):
    """z = exp(v) at loc, with v of independent Laplace coordinates."""

    name = "laplace"
    arg_constraints = {}
    _parameters = ("scale",)

    def __init__(self, loc, scale, ball, validate_args=None):
        batch = torch.broadcast_shapes(loc.shape[:-1], scale.shape[:-1])
        self.scale = scale.expand(*batch, 1)
        super().__init__(loc, ball, batch, validate_args)

    @classmethod
    def isotropic(cls, loc, scale, ball):
        return cls(loc, scale, ball, validate_args=False)

    def _draw(self, shape, generator=None):
        u = torch.rand(shape, dtype=self.loc.dtype, generator=generator).clamp(1e-6, 1 - 1e-6) - 0.5
        v = -self.scale * u.sign() * torch.log1p(-2 * u.abs())
        return v, self._log_density(v)

    def _log_density(self, v):
        return -(v.abs() / self.scale + torch.log(2 * self.scale)).sum(-1) - self.ball.log_volume(v)
'''


class Plugin:
    """A package installed in a folder: a module, and the metadata that names it."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder
        metadata = folder / "horoball_plugin-0.1.dist-info"
        metadata.mkdir(parents=True)
        (folder / "horoball_plugin.py").write_text(source, encoding="utf-8")
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: horoball-plugin\nVersion: 0.1\n")
        (metadata / "entry_points.txt").write_text(f"[{plugins.GROUP}]\nmine = horoball_plugin\n")

    def command(self, *arguments: object, installed: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the command in a process that finds the plugin, or does not."""
        paths = [str(self.folder)] * installed + [path for path in sys.path if path]
        return subprocess.run(
            [sys.executable, "-m", "horoball", *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder.parent,  # which `python -m` can import from
        )


@pytest.fixture
def unregistered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Plugins are looked for again, and forgotten after the test."""
    monkeypatch.setattr(plugins, "_loaded", False)
    yield
    sys.modules.pop("horoball_plugin", None)


@pytest.fixture
def installed(unregistered: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugin:
    """A plugin with a likelihood and a posterior family, installed in this process."""
    plugin = Plugin(tmp_path / "site", LIKELIHOOD + POSTERIOR)
    monkeypatch.syspath_prepend(str(plugin.folder))
    return plugin


def counts(rows: int = 80) -> np.ndarray:
    return np.random.default_rng(0).geometric(0.2, (rows, 4)) - 1.0


@pytest.mark.parametrize("source", [LIKELIHOOD, POSTERIOR], ids=["likelihood", "posterior"])
def test_an_extension_is_short_and_touches_nothing_private_of_the_package(source: str) -> None:
    assert len(source.strip().splitlines()) <= MOST_LINES
    imported = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    assert not [alias.name for node in imported for alias in node.names if alias.name.startswith("_")]


@pytest.mark.parametrize("options", [{"likelihood": "geometric"}, {"posterior": "laplace"}], ids=str)
def test_an_estimator_uses_a_plugin_and_keeps_it(installed: Plugin, tmp_path: Path, options: dict[str, str]) -> None:
    x = counts()
    model = PoincareVAE(**options, **FAST).fit(x)
    model.save(tmp_path / "run")
    again = PoincareVAE.load(tmp_path / "run")
    assert {name: again.get_params()[name] for name in options} == options
    np.testing.assert_array_equal(again.transform(x), model.transform(x))
    np.testing.assert_array_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))
    assert np.isfinite(again.score_samples(x, samples=5)).all()
    assert again.inverse_transform(np.zeros((1, 2))).shape == (1, 4)
    z, _, _, valid = EncoderProgram(again.run_)(torch.from_numpy(x).float())
    assert bool(valid.all())
    np.testing.assert_array_equal(z.detach().numpy(), model.transform(x))


def test_a_likelihood_of_a_plugin_rejects_what_is_outside_of_its_domain(installed: Plugin) -> None:
    model = PoincareVAE(likelihood="geometric", **FAST).fit(counts())
    with pytest.raises(ValueError, match=r"Row 0 holds 0.5, but the model is one of counts \(geometric\)"):
        model.transform(np.full((1, 4), 0.5))
    with pytest.raises(ValueError, match="geometric needs counts"):
        PoincareVAE(likelihood="geometric", **FAST).fit(counts() - 0.5)


def test_auto_asks_plugins_by_their_preference(installed: Plugin) -> None:
    x = counts()
    assert PoincareVAE(**FAST).fit(x).likelihood_ == "negative_binomial"
    x[0, 0] = 5000
    assert PoincareVAE(**FAST).fit(x).likelihood_ == "geometric"


@pytest.mark.parametrize("encoder", ["free", "gcn"])
def test_a_graph_uses_a_posterior_of_a_plugin(installed: Plugin, tmp_path: Path, encoder: str) -> None:
    edges = [(0, 1), (1, 2), (2, 3), (1, 4)]
    model = PoincareGraphVAE(encoder=encoder, posterior="laplace", max_epochs=3, random_state=0).fit(edges)
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(PoincareGraphVAE.load(tmp_path / "run").embedding_, model.embedding_)


def test_the_command_uses_a_plugin_and_says_what_is_missing_without_it(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path / "site", LIKELIHOOD + POSTERIOR)
    data, folder = tmp_path / "counts.csv", tmp_path / "run"
    np.savetxt(data, counts(), "%d", ",", header="a,b,c,d", comments="")
    chosen = ["--likelihood", "geometric", "--posterior", "laplace"]
    small = ["--max-epochs", 2, "--hidden", 8, "--quiet"]
    fitted = plugin.command("fit", data, "-o", folder, *chosen, *small)
    assert fitted.returncode == 0, fitted.stderr
    assert "geometric" in fitted.stdout
    assert "laplace" in fitted.stdout
    embedded = plugin.command("embed", folder, data, "-o", tmp_path / "map.csv")
    assert embedded.returncode == 0, embedded.stderr
    without = plugin.command("embed", folder, data, "-o", tmp_path / "other.csv", installed=False)
    assert without.returncode == 1
    assert "Unknown posterior 'laplace'" in without.stderr
    assert "needs that package installed" in without.stderr
    refused = run("fit", data, "-o", tmp_path / "new", *chosen[:2])
    assert refused.exit_code == 2
    assert (
        "Choose one of: normal, bernoulli, poisson, negative_binomial, zero_inflated_negative_binomial"
        in refused.stderr
    )


@pytest.mark.parametrize(
    ("estimator", "options", "rows"),
    [
        (PoincareVAE, {"likelihood": "geometric", "hidden": (8,)}, counts()),
        (PoincareVAE, {"posterior": "laplace", "hidden": (8,)}, counts()),
        (PoincareGraphVAE, {"posterior": "laplace"}, [(0, 1), (1, 2)]),
    ],
    ids=["likelihood", "posterior", "graph"],
)
def test_a_run_of_a_missing_plugin_is_a_typed_error_that_says_to_install_it(
    installed: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, estimator: type, options: dict, rows: object
) -> None:
    estimator(**options, max_epochs=1, random_state=0).fit(rows).save(tmp_path / "run")
    name = options.get("likelihood") or options["posterior"]
    for registry in (LIKELIHOODS, POSTERIORS):
        registry._classes.pop(name, None)
    with pytest.raises(UnknownNameError, match=rf"{name}'\. Choose one of: .* needs that package installed"):
        estimator.load(tmp_path / "run")


def test_a_run_cannot_name_a_module_to_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of likelihoods and families are looked up, never imported: a folder on the path changes nothing."""
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for field in ("likelihood", "posterior"):
        for name in ("evil", "evil:Evil", "evil.Evil", "x" * 10_000):
            with pytest.raises(UnknownNameError, match=f"Unknown {field} ") as told:
                ModelConfig(features=2, **{field: name})
            assert len(str(told.value)) < 400
    assert "evil" not in sys.modules


def test_a_broken_plugin_is_named_each_time_and_leaves_other_names_alone(
    unregistered: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Plugin(tmp_path / "site", "import nothing_of_this_name")
    monkeypatch.syspath_prepend(str(plugin.folder))
    assert LIKELIHOODS["normal"] is Normal
    for _ in range(2):
        with pytest.raises(ImportError, match="of the package 'horoball-plugin' cannot be imported: ModuleNotFound"):
            LIKELIHOODS["geometric"]
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    told = run("fit", tmp_path / "x.csv", "-o", tmp_path / "run", "--likelihood", "geometric")
    assert (told.exit_code, "'horoball-plugin'" in told.stderr, "Traceback" in told.stderr) == (2, True, False)


def test_a_name_belongs_to_one_class() -> None:
    registry: Registry[type] = Registry("shape")

    def shape(module: str) -> type:
        return type("Round", (), {"name": "round", "__module__": module})

    first = registry.register(shape("a"))
    again = registry.register(shape("a"))  # as a notebook's cell does that is run twice
    assert registry["round"] is again is not first
    with pytest.raises(ValueError, match=r"The shape 'round' is a\.Round already\. Choose another name for b\.Round"):
        registry.register(shape("b"))
    with pytest.raises(TypeError, match="needs a class attribute `name`"):
        registry.register(ModuleType)


@pytest.mark.parametrize("family", [RiemannianNormal, WrappedNormal], ids=lambda family: family.name)
@pytest.mark.parametrize("d", [1, 3])
def test_every_family_makes_itself_from_a_network_of_its_size(family: type, d: int) -> None:
    for scale in family.scales:
        outputs = torch.randn(5, family.network_size(d, scale), generator=torch.Generator().manual_seed(0))
        q = family.from_network(outputs, d, PoincareBall(1.0), scale)
        assert torch.equal(q.loc, outputs[:, :d])
        assert q.mean_scale.shape == (5,)
        prior = family.isotropic(torch.zeros(d), torch.ones(1), PoincareBall(1.0))
        assert bool(prior.log_prob(q.rsample()).isfinite().all())


@pytest.mark.parametrize("name", list(LIKELIHOODS))
def test_every_likelihood_says_all_of_itself(name: str) -> None:
    kind = LIKELIHOODS[name]
    assert set(kind.options) <= {"learn_scale", "classes", "library", "columns"}
    likelihood = kind(2)
    x = torch.tensor([[0.5, 1.0]] if name == "log_normal" else [[0.0, 1.0]])
    likelihood.check_rows(x)
    likelihood.start_from(torch.ones(2))
    start: Tensor = likelihood.start_at(torch.tensor([0.2, 0.8]))
    assert likelihood.point_estimate(likelihood(start)).shape == (2,)
    if name == "mixed":  # the one in which values may be missing
        likelihood.check_rows(torch.tensor([[0.0, torch.nan]]), first=7)
        return
    with pytest.raises(ValueError, match="Row 7 holds nan, but the model is one of numbers; none may be missing"):
        likelihood.check_rows(torch.tensor([[0.0, torch.nan]]), first=7)


def test_help_names_all_likelihoods_and_families_without_torch() -> None:
    source = (
        "import sys, contextlib, horoball.cli\n"
        "with contextlib.suppress(SystemExit):\n    horoball.cli.app(['fit', '--help'])\n"
        "assert 'torch' not in sys.modules"
    )
    told = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout
    for name in [*LIKELIHOODS, *POSTERIORS]:
        assert name in told


def test_a_divergence_that_is_not_registered_is_sampled(installed: Plugin) -> None:
    family = POSTERIORS["laplace"]
    q = family.isotropic(torch.zeros(2), torch.ones(1), PoincareBall(1.0))
    with pytest.raises(NotImplementedError):
        kl_divergence(q, q)
    table = ArrayTable(counts())
    model = PoincareVAE(posterior="laplace", **FAST).fit(counts())
    assert all(np.isfinite(line["kl"]) for line in model.history_)
    assert next(model.run_.embed(table)).shape == (80, 2)
