"""Pictures, each drawn and written to a file; set HOROBALL_PICTURES to a folder to keep them and look."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import horoball as hb
from horoball import plotting
from horoball.datasets import branching_diffusion, mnist
from horoball.nn import Gyroplane
from tests.late import late

mpl = late("matplotlib")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def saved(ax: Any, name: str, tmp_path: Path) -> np.ndarray:
    """The pixels of the picture at 800 px across."""
    folder = Path(os.environ.get("HOROBALL_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    figure = ax.figure
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=800 / figure.get_size_inches()[0])
    pixels = mpl.image.imread(path)
    assert pixels.shape[1] in (800, 799, 801)
    assert (pixels[..., :3] < 0.9).any(axis=-1).mean() > 0.005  # something is drawn
    return pixels


def text_of(ax: Any) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def test_branching_diffusion_with_its_true_tree(tmp_path: Path) -> None:
    tree = branching_diffusion(depth=5, copies=5, seed=0)
    nodes = int(tree.node.max()) + 1
    model = hb.PoincareVAE(max_epochs=80, hidden=(64,), random_state=0).fit(tree.x.numpy())
    z = model.transform(tree.x.numpy())
    centers = np.stack([z[np.asarray(tree.node) == node].mean(0) for node in range(nodes)])
    ax = plotting.tree_edges(centers, np.asarray(tree.parent))
    top = np.asarray(tree.node)
    parent = np.asarray(tree.parent)
    while (top > 6).any():  # the branch at depth 2
        top = np.where(top > 6, parent[top], top)
    ax = plotting.points(z, labels=[f"branch {k}" for k in top], ax=ax, title="Branching diffusion and its tree")
    assert len(ax.collections[0].get_paths()) == nodes - 1
    saved(ax, "branching", tmp_path)


def test_digits_in_two_dimensions(tmp_path: Path) -> None:
    if "HOROBALL_DATA" not in os.environ:
        pytest.skip("MNIST is not here")
    digits = mnist(train=True)
    x, label = digits.x[:3000].numpy(), np.asarray(digits.labels[:3000])
    model = hb.PoincareVAE(max_epochs=8, hidden=(200,), random_state=0, validation_fraction=0.0).fit(x)
    ax = plotting.points(model.transform(x), labels=label.astype(str), title="Digits")
    assert text_of(ax) == [str(k) for k in range(10)]
    saved(ax, "digits", tmp_path)


def test_a_random_tree_with_geodesic_edges(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    parent, angle, width = [0], [0.0], [2 * np.pi]
    radius = [0.0]
    for node in range(1, 120):
        above = int(rng.integers(max(0, node // 3 - 2), node // 2 + 1))
        parent.append(above)
        angle.append(angle[above] + width[above] * rng.uniform(-0.5, 0.5))
        width.append(width[above] / 2)
        radius.append(radius[above] + 1.0)
    ball = hb.PoincareBall(1.0)
    z = torch.tensor(np.array(radius)[:, None] * np.stack((np.cos(angle), np.sin(angle)), 1))
    x = ball.to_ball(z).numpy()
    ax = plotting.tree_edges(x, parent)
    ax = plotting.points(x, labels=np.array(radius), ax=ax, size=20)
    arcs = [path.vertices for path in ax.collections[0].get_paths()]
    middle = np.stack([arc[len(arc) // 2] for arc in arcs])
    assert (np.linalg.norm(middle, axis=1) < 1).all()
    saved(ax, "tree", tmp_path)


def test_edges_are_geodesics() -> None:
    ball = hb.PoincareBall(2.0)
    x = ball.to_ball(torch.tensor([[1.0, 0.2], [-0.5, 2.0]], dtype=torch.float64))
    arc = torch.as_tensor(plotting.edges(x.numpy(), [[0, 1]], c=2.0).collections[0].get_paths()[0].vertices)
    z = ball.from_ball(arc)
    steps = ball.dist(z[1:], z[:-1])
    assert torch.allclose(steps.sum(), ball.dist(z[0], z[-1]), rtol=1e-9)


def test_a_map_of_cells(tmp_path: Path) -> None:
    folder = os.environ.get("HOROBALL_DATA")
    if folder is None or not (Path(folder) / "cells" / "Olsson.csv").exists():
        pytest.skip("the table of cells is not here")
    from sklearn.decomposition import PCA

    rows = np.genfromtxt(Path(folder) / "cells" / "Olsson.csv", delimiter=",", dtype=str, skip_header=1)
    x, kind = PCA(20, random_state=0).fit_transform(rows[:, :-1].astype(float)), rows[:, -1]
    model = hb.PoincareVAE(max_epochs=60, random_state=0).fit(x)
    ax = plotting.points(model.transform(x), labels=kind, title="Cells")
    assert text_of(ax) == sorted(set(kind))
    saved(ax, "cells", tmp_path)


def test_densities_and_planes(tmp_path: Path) -> None:
    from matplotlib import pyplot

    torch.manual_seed(0)
    ball = hb.PoincareBall(1.0)
    _, axes = pyplot.subplots(2, 3, figsize=(9, 6), layout="constrained")
    mean = torch.tensor([0.8, 0.4])
    plotting.density(hb.RiemannianNormal(mean, torch.tensor([0.7]), ball), ax=axes[0, 0], title="Riemannian")
    plotting.density(hb.WrappedNormal(mean, torch.tensor([0.7]), ball), ax=axes[0, 1], title="wrapped")
    plotting.density(hb.WrappedNormal(mean, torch.tensor([0.9, 0.3]), ball), ax=axes[0, 2], title="wrapped, diagonal")
    layer = Gyroplane(2, 8, ball)
    plotting.gyroplanes(layer, ax=axes[1, 0])
    plotting.distance_map(layer, 1, ax=axes[1, 1])
    plotting.cloud(hb.WrappedNormal(torch.randn(4, 2), torch.rand(4, 1), ball), ax=axes[1, 2])
    saved(axes[0, 0], "densities", tmp_path)
    with torch.no_grad():
        for k, line in enumerate(axes[1, 0].lines):
            on_plane = ball.from_ball(torch.as_tensor(line.get_xydata()[60:140]))
            assert layer.double()(on_plane)[:, k].abs().max() < 1e-9


def test_more_dimensions_are_projected_and_the_picture_says_so(tmp_path: Path) -> None:
    x = hb.PoincareBall(1.0).to_ball(torch.randn(60, 5, generator=torch.Generator().manual_seed(0)).double()).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = plotting.points(x, labels=np.arange(60) % 3)
    assert any("projected" in text.get_text() for text in ax.texts)
    saved(ax, "projected", tmp_path)


def test_the_plane_has_no_rim(tmp_path: Path) -> None:
    ax = plotting.points(np.random.default_rng(0).normal(size=(50, 2)) * 3, c=0.0)
    assert not ax.patches
    saved(ax, "plane", tmp_path)


def test_densities_share_a_scale_of_colors() -> None:
    ball = hb.PoincareBall(1.0)
    for scale in (0.4, 0.8):
        law = hb.WrappedNormal(torch.zeros(2), torch.tensor([scale]), ball)
        ax = plotting.density(law, highest=1.0, levels=[0.05, 0.1])
        assert ax.images[0].get_clim() == (0.0, 1.0)


def test_the_logarithm_of_a_distance(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = Gyroplane(2, 3, hb.PoincareBall(1.0))
    ax = plotting.distance_map(layer, 2, log=True, color="#ff3d9a")
    x, y = (round(200 * (1 + place)) for place in (0.3, -0.4))  # of 400 pixels across
    z = layer.ball.from_ball(torch.tensor([(x + 0.5) / 200 - 1, (y + 0.5) / 200 - 1]))
    with torch.no_grad():
        distance = (layer(z)[2] / layer.weight[2].norm()).abs()
    assert ax.images[0].get_array()[y, x] == pytest.approx(float(distance.log10()), abs=1e-4)
    shared = plotting.distance_map(layer, 2, log=True, limits=(-1.0, 0.5), scale=False)
    assert shared.images[0].get_clim() == (-1.0, 0.5)
    assert len(shared.figure.axes) == 1
    saved(ax, "log_distance", tmp_path)


@pytest.mark.parametrize("c", [1.0, 0.0])
def test_thumbnails_leave_each_other_room(c: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, images = rng.uniform(-0.6, 0.6, (300, 2)), rng.uniform(size=(300, 14, 7))
    ax = plotting.thumbnails(x, images, c=c, size=0.08)
    boxes = np.array([image.get_extent() for image in ax.images])
    assert 10 < len(boxes) < 150
    wide, tall = boxes[0, 1] - boxes[0, 0], boxes[0, 3] - boxes[0, 2]
    assert tall == pytest.approx(2 * wide)
    apart = np.abs(boxes[:, None, ::2] - boxes[None, :, ::2]) >= np.array([wide, tall]) * (1 - 1e-9)
    assert (apart.any(-1) | np.eye(len(boxes), dtype=bool)).all()
    assert np.ptp(ax.get_xlim()) > 1
    saved(ax, f"thumbnails_{c:g}", tmp_path)


def test_thumbnails_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, height, width\), got \(2, 784\)"):
        plotting.thumbnails(np.zeros((2, 2)), np.zeros((2, 784)))


def test_crosses_have_a_color_of_their_own() -> None:
    (crosses,) = plotting.points([[0.1, 0.2]], marker="x", color="black").collections
    assert crosses.get_linewidth()[0] > 0
    assert mpl.colors.to_hex(crosses.get_edgecolor()[0]) == "#000000"


def test_points_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        plotting.points(np.zeros(4))


def test_a_flat_density_is_drawn_where_it_is() -> None:
    law = hb.WrappedNormal(torch.tensor([6.0, 0.0]), torch.ones(1), hb.PoincareBall(0.0))
    height = plotting.density(law).images[0].get_array()
    assert float(height.max()) == pytest.approx(1 / (2 * np.pi), rel=1e-3)


def test_edges_of_more_dimensions_say_that_they_are_projected() -> None:
    x = np.random.default_rng(0).uniform(-0.4, 0.4, (5, 3))
    assert "is projected" in plotting.edges(x, [[0, 1]]).texts[0].get_text()
