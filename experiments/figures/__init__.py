"""The figures of the paper, drawn anew: `python -m experiments.figures [names…]`.

Each is a function that returns a matplotlib figure, or raises `MissingError` with what has to be run first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from experiments.figures.canvas import MissingError, save
from experiments.figures.geometry import geodesics, gyroplanes, tree
from experiments.figures.latent_maps import branching, curvature_gyroplanes, curvatures, distance_to_gyroplane
from experiments.figures.mnist import mnist_posteriors, mnist_samples
from experiments.figures.normals import anisotropic, densities
from experiments.figures.summaries import ablation, confusion

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "MissingError", "save"]

FIGURES: dict[str, Callable[..., Figure]] = {
    "tree": tree,
    "geodesics": geodesics,
    "densities": densities,
    "gyroplanes": gyroplanes,
    "branching": branching,
    "ablation": ablation,
    "mnist_posteriors": mnist_posteriors,
    "mnist_samples": mnist_samples,
    "anisotropic": anisotropic,
    "curvatures": curvatures,
    "curvature_gyroplanes": curvature_gyroplanes,
    "distance_to_gyroplane": distance_to_gyroplane,
    "confusion": confusion,
}
