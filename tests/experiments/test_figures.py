"""Every figure of the paper, drawn once with short trainings and few pixels."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments import branching, figure7, mnist, runs, table3
from experiments.figures import FIGURES, MissingError, latent_maps, save
from experiments.figures import __main__ as command
from experiments.figures.baselines import gplvm, pca
from experiments.figures.cached import model_of_tree
from experiments.figures.latent_maps import dividing
from horoball.datasets import Images, branching_diffusion
from horoball.datasets import mnist as images
from horoball.geometry import PoincareBall
from horoball.nn import Gyroplane
from horoball.plotting import lines as heat

needs_data = pytest.mark.skipif("HOROBALL_DATA" not in os.environ, reason="needs MNIST in HOROBALL_DATA")
SHORT: dict[str, dict[str, int]] = {
    "branching": {"epochs": 1, "steps": 2},
    "curvatures": {"epochs": 1},
    "curvature_gyroplanes": {"epochs": 1},
    "distance_to_gyroplane": {"epochs": 1},
    "mnist_posteriors": {"epochs": 1},
    "mnist_samples": {"epochs": 1, "count": 3},
    "tree": {"depth": 4},
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("weights")


@pytest.fixture(autouse=True)
def _short(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(mnist, "WEIGHTS", weights)
    monkeypatch.setattr(heat, "_GRID", 50)
    monkeypatch.setattr(branching, "branching_diffusion", partial(branching_diffusion, depth=3))
    monkeypatch.setattr(latent_maps, "CURVATURES", (1.2, 0.3))
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture
def few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {train: Images(*(part[:600] for part in images(train))) for train in (True, False)}
    monkeypatch.setattr(mnist, "digits", few.__getitem__)
    for c in (1.4, 0.0):
        mnist.trained(2, c, 0, epochs=1)


def legible(figure: Any) -> None:
    """Headings and labels lie inside the picture, headings not on each other, discs and planes are not stretched."""
    figure.draw_without_rendering()
    whole = figure.bbox
    headings = []
    for ax in figure.axes:
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts):
            if text.get_text():
                box = text.get_window_extent()
                assert box.x0 >= whole.x0 - 1, text
                assert box.y0 >= whole.y0 - 1, text
                assert box.x1 <= whole.x1 + 1, text
                assert box.y1 <= whole.y1 + 1, text
        if ax.title.get_text():
            headings.append(ax.title.get_window_extent())
        assert ax.get_aspect() == 1.0 or ax.axison
    assert headings
    assert not any(a.overlaps(b) for number, a in enumerate(headings) for b in headings[:number])


def drawn(name: str, path: Path) -> np.ndarray:
    figure: Any = FIGURES[name](**SHORT.get(name, {}))
    legible(figure)
    save(figure, path)
    from matplotlib import image

    assert path.stat().st_size < 400_000
    pixels: np.ndarray = image.imread(path)
    assert (pixels[..., :3] < 0.9).any(axis=-1).mean() > 0.01
    return pixels


@pytest.mark.parametrize("name", [n for n in FIGURES if n not in ("ablation", "confusion") and "mnist" not in n])
def test_a_figure(name: str, tmp_path: Path) -> None:
    drawn(name, tmp_path / f"{name}.png")


@needs_data
@pytest.mark.usefixtures("few_digits")
@pytest.mark.parametrize("name", ["mnist_posteriors", "mnist_samples"])
def test_a_figure_of_digits(name: str, tmp_path: Path) -> None:
    drawn(name, tmp_path / f"{name}.png")


def test_figures_of_results(tmp_path: Path) -> None:
    for seed in range(3):
        for setting in table3.settings(1):
            runs._one(table3.STUDY, setting | {"seed": seed}, _confusion)
    for setting in figure7.settings(3):
        runs._one(mnist.STUDY, setting, _likelihood)
    drawn("confusion", tmp_path / "confusion.png")
    drawn("ablation", tmp_path / "ablation.png")
    (ax,) = FIGURES["ablation"]().axes
    for line, gain in zip(ax.containers, (0.0, 2.0), strict=True):  # of log₀ and of the gyroplane layer, in nats
        shown = [100 * gain / (140 / d**0.2 + 0.1) for d in figure7.DIMENSIONS]
        np.testing.assert_allclose(np.array(line.lines[0].get_ydata(), float), shown, rtol=1e-4)


def _confusion(c: float, seed: int) -> dict[str, Any]:
    counts = 80 * np.eye(10) + np.random.default_rng(seed).integers(0, 5, (10, 10))
    return {"confusion": [counts.tolist()]}


def _likelihood(d: int, seed: int, decoder: str = "gyroplane", **_: Any) -> dict[str, float]:
    return {"nll": 140 / d**0.2 - 2 * (decoder == "gyroplane") + 0.1 * seed}


def test_the_same_seed_draws_the_same_bytes(tmp_path: Path) -> None:
    for copy in ("first.png", "second.png"):
        save(FIGURES["branching"](epochs=1, steps=2), tmp_path / copy)
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "second.png").read_bytes()


def test_a_model_is_trained_once(weights: Path) -> None:
    first = model_of_tree(0.7, 0, epochs=1)
    (path,) = weights.glob("*c=0.7*")
    written = path.stat().st_mtime_ns
    second = model_of_tree(0.7, 0, epochs=1)
    assert path.stat().st_mtime_ns == written
    assert second.config == first.config
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_what_cannot_be_drawn_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["confusion", "ablation", "mnist_posteriors", "mnist_samples", "tree"]
    command.main([*names, "--folder", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == names
    for line, study in zip(lines, ("table3", "figure7", "table2", "table2"), strict=False):
        assert line.endswith(f"run python -m experiments.{study} first")
    assert [path.name for path in tmp_path.iterdir()] == ["tree.png"]
    with pytest.raises(SystemExit):
        command.main(["portrait"])


def test_a_figure_without_gpytorch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    with pytest.raises(MissingError, match="pip install gpytorch"):
        gplvm(torch.randn(4, 3), 1)


def test_the_gplvm_brings_copies_of_a_node_together() -> None:
    tree = branching_diffusion(depth=3, copies=4)

    def spread(z: torch.Tensor) -> float:
        means = torch.stack([z[tree.node == node].mean(0) for node in range(15)])
        return float((z - means[tree.node]).square().mean() / (z - z.mean(0)).square().mean())

    z = gplvm(tree.x, 60)
    assert z.shape == (60, 2)
    assert spread(z) < spread(pca(tree.x)) / 2


def test_the_hyperplane_that_is_shown_divides_the_points() -> None:
    layer = Gyroplane(2, 3, PoincareBall(1.0))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]))
        layer.bias.copy_(torch.tensor([0.0, 0.0, 30.0]))  # type: ignore[union-attr]
    z = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    assert dividing(layer, z) == 1
