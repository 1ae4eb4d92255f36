"""Counts are told from measurements that happen to be whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from horoball.likelihoods import guess_likelihood
from horoball.tables.profile import looks_counted
from horoball.tables.scaling import summarize
from horoball.tables.table import ArrayTable

rng = np.random.default_rng(0)
log_mean = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 30)) * 0.5
COUNTS = {
    "Poisson of a low mean": rng.poisson(0.2, (300, 30)),
    "Poisson of a high mean": rng.poisson(300.0, (300, 30)),
    "negative binomial": rng.negative_binomial(2, 0.1, (100, 30)),
    "Poisson around a latent space": rng.poisson(np.exp(1 + log_mean)),
    "a few rows": rng.poisson(3.0, (6, 30)),
}
MEASURED = {
    "gray values of digits": load_digits().data,
    "scores": rng.normal(100, 25, (300, 30)).round(),
    "lengths in millimetres": rng.gamma(20, 10, (300, 30)).round() + 80,
    "grades from 0 to 15": rng.integers(0, 16, (300, 30)),
    "ages": rng.normal(45, 4, (300, 30)).round(),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_taken_for_counts(name: str) -> None:
    x = torch.as_tensor(COUNTS[name])
    assert looks_counted(x).double().mean() > 0.9
    assert guess_likelihood(summarize(ArrayTable(x.numpy())))[0] in ("poisson", "negative_binomial")


@pytest.mark.parametrize("name", MEASURED)
def test_whole_measurements_are_not(name: str) -> None:
    assert guess_likelihood(summarize(ArrayTable(MEASURED[name]))) == ("normal", "the values are real numbers")
