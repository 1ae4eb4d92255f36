"""Every part from outside in every place it can go: each cell of the table of docs/extending.md is a test.

What is used is public: the files of examples/extensions, and these tests, import what the reference lists.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import horoball as hb
from horoball.distributions.normal import POSTERIORS
from horoball.geometry.manifold import MANIFOLDS, Manifold
from horoball.likelihoods import LIKELIHOODS
from horoball.plugins import import_plugin
from horoball.tables import formats
from horoball.training.hooks import LOGGERS, OPTIMIZERS
from horoball.vae.parts import DECODERS, ENCODERS, PRIORS
from tests.commands import done, run
from tests.extension_table import END, EXTENSIONS, FOLDER, PAGE, ROOT, START, WAYS, Extension, table
from tests.goldens.names import documented

FAST: dict[str, Any] = {"hidden": 8, "distance_weight": 0.0, "max_epochs": 1}
FILES = sorted(path for path in (ROOT / FOLDER).glob("*.py") if path.name != "__init__.py")
MOST_LINES = 100


def pixels() -> np.ndarray:
    """Images of 4 × 4: a bright column or row, as the likelihoods and the networks of all examples take them."""
    rng = np.random.default_rng(0)
    return (np.kron(np.eye(4), np.ones(4))[np.arange(60) % 4] + 0.1 * rng.normal(size=(60, 16))).astype(np.float32)


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """What examples register is forgotten after these tests, and was not there before: pages register the same."""
    registries: list[Any] = [ENCODERS, DECODERS, PRIORS, POSTERIORS, LIKELIHOODS, MANIFOLDS, OPTIMIZERS, LOGGERS]
    with pytest.MonkeyPatch.context() as patch:
        for registry in registries:
            kept = {
                n: kind for n, kind in registry._classes.items() if kind.__module__.startswith(("horoball", "torch"))
            }
            patch.setattr(registry, "_classes", kept)
        patch.setattr(
            formats, "_readers", {ending: read for ending, read in formats._readers.items() if ending != ".dta"}
        )
        yield
    for path in FILES:
        sys.modules.pop(path.stem, None)


class Fitted:
    """A table, and models with a part from outside: one by the estimator, one by the command."""

    def __init__(self, extension: Extension, folder: Path) -> None:
        self.part, self.file, self.options = extension
        self.plugin = ROOT / FOLDER / f"{self.file}.py"
        self.folder, self.x = folder, pixels()
        if self.part == "format":
            import pandas as pd

            self.data = folder / "rows.dta"
            pd.DataFrame(self.x, columns=[f"x{i}" for i in range(16)]).to_stata(self.data, write_index=False)
        else:
            self.data = folder / "rows.csv"
            np.savetxt(self.data, self.x, "%.6f", ",", header=",".join(f"x{i}" for i in range(16)), comments="")
        import_plugin(str(self.plugin))
        given: dict[str, Any] = {**self.options}
        if "logger" in given:
            given["loggers"] = given.pop("logger")
        self.rows: Any = hb.tables.read(self.data) if self.part == "format" else self.x
        self.model = hb.PoincareVAE(**given, **FAST, random_state=0).fit(self.rows)

    def command(self, verb: str, *arguments: object) -> str:
        return str(done("--plugin", self.plugin, verb, *arguments).stdout)

    @property
    def run(self) -> Path:
        folder = self.folder / "run"
        if not folder.exists():
            chosen = [word for name, value in self.options.items() for word in (f"--{name}", value)]
            fast = [word for name, value in FAST.items() for word in (f"--{name.replace('_', '-')}", value)]
            self.command("fit", self.data, "-o", folder, *chosen, *fast, "--quiet")
        return folder


@pytest.fixture(scope="module", params=EXTENSIONS, ids=lambda extension: extension.part)
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fitted]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp(request.param.part)
        patch.chdir(folder)  # where a logger writes that was given no folder
        yield Fitted(request.param, folder)


@pytest.mark.parametrize("way", WAYS)
def test_a_part_from_outside_goes(way: str, fitted: Fitted, tmp_path: Path) -> None:
    model, rows = fitted.model, fitted.rows
    if way == "estimator":
        z = model.transform(rows)
        assert z.shape == (60, 2)
        assert np.isfinite(z).all()
        assert np.isfinite(model.score_samples(rows, samples=5)).all()
        assert model.sample(3, random_state=0).shape == (3, 16)
        assert model.inverse_transform(z[:2]).shape == (2, 16)
    elif way == "command":
        fitted.command("embed", fitted.run, fitted.data, "-o", tmp_path / "map.csv")
        assert len((tmp_path / "map.csv").read_text().splitlines()) == 61
        for part, spec in fitted.options.items():
            if part != "logger":
                assert spec.partition(":")[0] in fitted.command("info", fitted.run)
    elif way == "saving":
        model.save(tmp_path / "run")
        again = hb.PoincareVAE.load(tmp_path / "run")
        np.testing.assert_array_equal(again.transform(rows), model.transform(rows))
        np.testing.assert_array_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))
        loaded = hb.PoincareVAE.load(fitted.run)
        assert np.isfinite(loaded.transform(rows)).all()
        assert loaded.transform(rows).shape == (60, 2)
    else:
        assert model.tree(rows, draws=2).leaves == 60
        assert "<html" in model.view(rows).html
        fitted.command("tree", fitted.run, fitted.data, "-o", tmp_path / "tree.nwk", "--draws", 2)
        fitted.command("view", fitted.run, fitted.data, "-o", tmp_path / "map.html")
        assert (tmp_path / "tree.nwk").stat().st_size > 0


def test_what_an_example_registers_is_used(fitted: Fitted) -> None:
    model = fitted.model.model_
    said = {
        "encoder": type(model.encoder.network).__name__,
        "decoder": type(model.decoder.network).__name__,
        "prior": type(model.prior).__name__,
        "posterior": type(model.posterior(torch.zeros(1, 16))).__name__,
        "likelihood": model.likelihood.name,
        "manifold": type(model.ball).__name__,
        "optimizer": fitted.model.run_.record.training.optimizer,
        "logger": (fitted.run / "lines.txt").read_text().split()[0] if fitted.part == "logger" else "",
        "format": hb.tables.read(fitted.data).columns[0],
    }
    expected = {
        "encoder": "Convolutions",
        "decoder": "Deconvolutions",
        "prior": "Flow",
        "posterior": "WrappedLaplace",
        "likelihood": "student_t",
        "manifold": "Sphere",
        "optimizer": "lion",
        "logger": "epoch",
        "format": "x0",
    }
    assert said[fitted.part] == expected[fitted.part]


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(START)[2].partition(END)[0] == table(), "Run python -m tests.extension_table."
    for path in FILES:
        assert f'--8<-- "{FOLDER}/{path.name}"' in text, path.name


@pytest.mark.parametrize("path", [*FILES, Path(__file__)], ids=lambda path: path.stem)
def test_extensions_import_public_names_alone(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    if path != Path(__file__):
        assert len(source.splitlines()) <= MOST_LINES
    public = set(documented())
    public |= {name.rpartition(".")[0] for name in public}  # modules with something public
    short = {(name.rpartition(".")[2], id(value)) for name in public if (value := _value(name)) is not None}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("horoball"):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                assert name in public or (alias.name, id(_value(name))) in short, f"{name} is not in the reference."


def _value(name: str) -> Any:
    home, _, last = name.rpartition(".")
    return getattr(import_module(home), last, None) if home and not home[home.rfind(".") + 1].isupper() else None


# --------------------------------------------------------------------------------------------------------------------
# The sphere
# --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def sphere() -> Any:
    import_plugin(str(ROOT / FOLDER / "sphere.py"))
    return sys.modules["sphere"]


def test_the_sphere_is_one(sphere: Any) -> None:
    space = sphere.Sphere()
    assert isinstance(space, Manifold)
    z, y = torch.randn(2, 200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    p, q = (torch.cat((v * torch.sinc(v.norm(dim=-1, keepdim=True) / math.pi), v.norm(dim=-1, keepdim=True).cos()), -1)
            for v in (z, y))  # fmt: skip
    torch.testing.assert_close(space.dist(z, y), torch.linalg.cross(p, q).norm(dim=-1).atan2((p * q).sum(-1)))
    short = z[(z.norm(dim=-1) < 3)]
    torch.testing.assert_close(space.exp(short, space.log(short, y[: len(short)])), y[: len(short)])
    torch.testing.assert_close(space.dist(z, z), torch.zeros(200, dtype=torch.float64), atol=1e-7, rtol=0)


@pytest.mark.parametrize("scale", [0.1, 0.5, 3.0])
def test_the_density_of_the_sphere_integrates_to_one(sphere: Any, scale: float) -> None:
    q = sphere.Fisher(torch.tensor([0.7, -1.0]).double(), torch.tensor([scale]).double(), sphere.Sphere())
    r, turn = np.polynomial.legendre.leggauss(200), (np.arange(200) + 0.5) * (2 * math.pi / 200)
    radius = torch.from_numpy((r[0] + 1) * math.pi / 2)[:, None].expand(200, 200)
    angle = torch.from_numpy(turn).expand(200, 200)
    z = torch.stack((radius * angle.cos(), radius * angle.sin()), -1)
    weight = torch.from_numpy(r[1])[:, None] * math.pi / 2 * (2 * math.pi / 200) * radius.sin()
    assert float((q.log_prob(z).exp() * weight).sum()) == pytest.approx(1.0, abs=1e-6)
    drawn, log_q = q.rsample_and_log_prob((4000,), torch.Generator().manual_seed(0))
    torch.testing.assert_close(q.log_prob(drawn), log_q, atol=1e-5, rtol=1e-4)
    k = scale**-2
    height = q.ball.dist(drawn, q.loc).cos().mean()  # E[cos r] = coth κ − 1/κ
    assert float(height) == pytest.approx(1 / math.tanh(k) - 1 / k, abs=0.03)


# --------------------------------------------------------------------------------------------------------------------
# Lightning
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # of Lightning's, about workers and loggers
def test_a_model_is_trained_by_the_trainer_of_lightning(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="lightning is not installed")
    import_plugin(str(ROOT / FOLDER / "lightning_trainer.py"))
    z = sys.modules["lightning_trainer"].main(max_epochs=1, default_root_dir=tmp_path, logger=False)
    assert z.shape == (1797, 2)
    assert bool((z.norm(dim=1) < 1).all())


def test_names_that_are_not_registered_are_refused_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n2,1\n")
    for option, known in (("optimizer", OPTIMIZERS), ("logger", LOGGERS)):
        assert "nothing" not in list(known)
        told = run("fit", tmp_path / "rows.csv", "-o", tmp_path / "run", f"--{option}", "nothing")
        assert told.exit_code != 0
        assert "Unknown" in told.stderr
