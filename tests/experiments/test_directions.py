"""The two likelihoods of directions that are compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binomtest

from experiments.directions import projected_normal, von_mises_fisher

NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
MEAN = np.array([0.0, 0.0, 2.5])


def over_sphere(log_density: Callable[[np.ndarray, np.ndarray], np.ndarray], low: float) -> float:
    """The probability that the cosine to the mean is above a number, in three dimensions."""
    cosine = low + (1 - low) * (NODES + 1) / 2
    x = np.stack([np.sqrt(1 - cosine**2), 0 * cosine, cosine], 1)
    density = np.exp(log_density(np.tile(MEAN, (len(x), 1)), x))
    return float(2 * np.pi * (1 - low) / 2 * (WEIGHTS * density).sum())


@pytest.mark.parametrize("log_density", [projected_normal, von_mises_fisher])
def test_densities_integrate_to_one(log_density: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
    assert over_sphere(log_density, -1.0) == pytest.approx(1.0, abs=1e-10)


def test_the_projected_normal_is_the_direction_of_a_normal() -> None:
    y = np.random.default_rng(0).normal(size=(20_000, 3)) + MEAN
    above = y[:, 2] > 0.9 * np.linalg.norm(y, axis=1)
    assert binomtest(int(above.sum()), len(y), over_sphere(projected_normal, 0.9)).pvalue > 1e-4
