"""The radius under the Riemannian normal: accuracy against mpmath, its ends, and the chi distribution of the plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import mpmath as mp
import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from horoball.distributions import HyperbolicRadius
from horoball.distributions import radius as radius_autograd
from horoball.distributions import radius_functions as radius_table
from horoball.geometry import PoincareBall
from tests.distributions.radii import DIMENSIONS, DTYPES, ROOTS, SIGMA, curvature, dimensions, dtypes, law_of
from tests.radius_oracle import RadiusLaw, log_normalizer_gradient, radius_distribution, radius_gradient

PROBABILITIES = (1e-9, 1e-3, 0.5, 0.999, 1 - 1e-9)

# "value", "gradient" and "cdf" are relative to the larger of 1 and the truth, "quantile" is |F(icdf(u)) − u|, which in
# float32 the rounding of r alone can spoil, and the others are relative to the truth; "slope" is ∂r/∂σ and ∂r/∂c.
TOLERANCE = {
    "value": {torch.float64: 1e-12, torch.float32: 1e-6},
    "gradient": {torch.float64: 1e-10, torch.float32: 1e-5},
    "moment": {torch.float64: 2e-12, torch.float32: 1e-6},
    "cdf": {torch.float64: 1e-12, torch.float32: 1e-6},
    "quantile": {torch.float64: 1e-12},
    "radius": {torch.float64: 1e-12, torch.float32: 1e-6},
    "slope": {torch.float64: 1e-9, torch.float32: 1e-5},
    "far": {torch.float64: 1e-9, torch.float32: 1e-5},
}

# Every second setting by default, and all with `-m slow`: mpmath takes its time.
settings = pytest.mark.parametrize(
    ("d", "root"),
    [
        pytest.param(d, root, marks=() if (i + j) % 2 == 0 else pytest.mark.slow)
        for (i, d), (j, root) in product(enumerate(DIMENSIONS), enumerate((0.0, *ROOTS)))
    ],
)


def assert_close(got: Tensor | Sequence[Tensor], truth: object, tolerance: float, floor: float = 1.0) -> None:
    """Relative to the larger of the truth and the floor."""
    values = [got] if isinstance(got, Tensor) else got
    for value, exact in zip(values, np.atleast_1d(np.asarray(truth, dtype=object)), strict=True):
        error = float(abs(mp.mpf(value.item()) - exact) / max(mp.mpf(floor), abs(exact)))
        assert error <= tolerance, f"off by {error:.2g}: got {value.item()!r}, expected {mp.nstr(exact, 17)}"


# --------------------------------------------------------------------------------------------------------------------
# Against the oracle
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 5, 20])
@pytest.mark.parametrize("root", [1e-2, 1.0, 30.0])
def test_the_oracle_is_the_alternating_sum_of_the_paper(d: int, root: float) -> None:
    numbers = RadiusLaw(d, SIGMA, curvature(root))
    with mp.workdps(300):
        n, s = d - 1, mp.sqrt(numbers.lam)
        terms = [(n - 2 * k) * s / mp.sqrt(2) for k in range(d)]
        total = sum((-1) ** k * mp.binomial(n, k) * mp.exp(x * x) * (1 + mp.erf(x)) for k, x in enumerate(terms))
        log_z = d * mp.log(numbers.sigma) + mp.log(mp.sqrt(mp.pi / 2) * total) - n * mp.log(2 * s)
        assert abs(numbers.log_normalizer - log_z) < mp.mpf(10) ** -22 * max(1, abs(log_z))


@dtypes
@settings
def test_log_normalizer_and_its_gradients_agree_with_mpmath(d: int, root: float, dtype: torch.dtype) -> None:
    numbers, sigma, c = law_of(d, root, dtype)
    value = numbers.log_normalizer
    assert value.dtype == dtype
    assert_close(value, radius_distribution(d, SIGMA, c.item()).log_normalizer, TOLERANCE["value"][dtype])
    gradient = torch.autograd.grad(value, (sigma, c))
    assert_close(gradient, log_normalizer_gradient(d, SIGMA, c.item()), TOLERANCE["gradient"][dtype])


@settings
def test_mean_and_variance_agree_with_mpmath(d: int, root: float) -> None:
    truth = radius_distribution(d, SIGMA, curvature(root))
    mean = truth.mean(lambda r: r)
    variance = truth.mean(lambda r: (r - mean) ** 2)
    for dtype in DTYPES:
        numbers, _, _ = law_of(d, root, dtype)
        assert_close(numbers.mean, mean, TOLERANCE["moment"][dtype], floor=0.0)
        assert_close(numbers.variance, variance, TOLERANCE["moment"][dtype], floor=0.0)


@dtypes
@settings
def test_quantiles_and_their_gradients_agree_with_mpmath(d: int, root: float, dtype: torch.dtype) -> None:
    numbers, sigma, c = law_of(d, root, dtype)
    truth = radius_distribution(d, SIGMA, c.item())
    for u in torch.tensor(PROBABILITIES, dtype=dtype).unique():
        if u == 1:  # in float32 1 − 1e-9 is 1
            continue
        r = numbers.icdf(u)
        if dtype in TOLERANCE["quantile"]:
            assert abs(truth.lower(r.item()) - u.item()) <= TOLERANCE["quantile"][dtype]
        exact = truth.quantile(u.item(), near=r.item())
        assert_close(r, exact, TOLERANCE["radius"][dtype], floor=0.0)
        slopes = torch.autograd.grad(r, (sigma, c))
        assert_close(slopes, radius_gradient(d, SIGMA, c.item(), exact), TOLERANCE["slope"][dtype], floor=0.0)


@dtypes
@settings
def test_cdf_and_density_agree_with_mpmath(d: int, root: float, dtype: torch.dtype) -> None:
    numbers, _, c = law_of(d, root, dtype)
    truth = radius_distribution(d, SIGMA, c.item())
    mean, spread = numbers.mean.detach(), numbers.stddev.detach()
    for shift in (-3.0, -0.3, 0.5, 4.0):
        r = torch.maximum(mean + shift * spread, mean / 8)
        assert_close(numbers.cdf(r), truth.lower(r.item()), TOLERANCE["cdf"][dtype])
        # The terms of a log density are as large as log Z, and that is what rounding is relative to.
        terms = float(abs(truth.log_normalizer) + (r.item() / SIGMA) ** 2 / 2)
        assert_close(
            numbers.log_prob(r), mp.log(truth.density(r.item())), TOLERANCE["value"][dtype], floor=max(1.0, terms)
        )


def test_quantiles_above_what_a_float_below_one_can_say_agree_with_mpmath() -> None:
    # Φ(ε) rounds to 1 for ε > 8.3; generators return such ε once in 10¹⁶ draws.
    for d, root, dtype in product((2, 20), (0.3, 3.0), DTYPES):
        c = curvature(root)
        epsilon = torch.tensor(8.5, dtype=torch.float64)
        r = radius_autograd.quantile(torch.tensor(SIGMA, dtype=dtype), c, epsilon, d)
        with mp.workdps(40):
            u = 1 - mp.ncdf(-mp.mpf(8.5))
        assert_close(
            r, radius_distribution(d, SIGMA, c).quantile(u, near=r.item()), TOLERANCE["radius"][dtype], floor=0.0
        )


# --------------------------------------------------------------------------------------------------------------------
# Ends and edges
# --------------------------------------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("root", [0.0, *ROOTS])
def test_icdf_and_cdf_hold_at_the_ends(root: float, dtype: torch.dtype) -> None:
    numbers = HyperbolicRadius(3, torch.tensor(SIGMA, dtype=dtype), PoincareBall(curvature(root)))
    assert numbers.icdf(torch.tensor([0.0, 1.0], dtype=dtype)).tolist() == [0.0, math.inf]
    assert numbers.cdf(torch.tensor([0.0, 1e30, math.inf], dtype=dtype)).tolist() == [0.0, 1.0, 1.0]
    assert numbers.log_prob(torch.tensor(0.0, dtype=dtype)) == -math.inf
    for tiny in (1e-30, torch.finfo(dtype).tiny):  # F is far below the smallest number, or nearly so
        assert 0 <= numbers.cdf(torch.tensor(tiny, dtype=dtype)) < 1e-30


@dtypes
@pytest.mark.parametrize(("d", "root"), [(2, 0.0), (2, 0.3), (2, 30.0), (3, 3.0), (20, 3.0), (100, 0.0), (100, 30.0)])
def test_far_tails_of_icdf_agree_with_mpmath(d: int, root: float, dtype: torch.dtype) -> None:
    numbers, sigma, c = law_of(d, root, dtype)
    truth = radius_distribution(d, SIGMA, c.item())
    smallest = (1e-300, 1e-100) if dtype == torch.float64 else (1e-44, 1e-38)
    for u in (*smallest, 1e-30, 1e-18, 1e-16, 1 - torch.finfo(dtype).eps):
        u = torch.tensor(u, dtype=dtype)
        r = numbers.icdf(u)
        exact = truth.quantile(u.item(), near=r.item())
        assert_close(r, exact, TOLERANCE["far"][dtype], floor=0.0)
        slopes = torch.autograd.grad(r, (sigma, c))
        assert_close(slopes, radius_gradient(d, SIGMA, c.item(), exact), TOLERANCE["far"][dtype], floor=0.0)


@dimensions
def test_the_table_is_right_on_both_sides_of_every_edge_of_its_cells(d: int) -> None:
    table = radius_table.radius_table(d, torch.device("cpu"))
    X = math.sqrt(table.shift) + torch.arange(1, table.cells + 1, dtype=torch.float64) / table.scale
    edges = torch.sqrt((X * X - table.shift) / (d - 1)).float()
    sides = [torch.nextafter(edges, torch.tensor(end)) for end in (0.0, math.inf)]
    sigma = torch.cat([*sides, edges[-1:] * 1.1, edges[-1:] * 100])
    epsilon = torch.linspace(-1, 1, 83, dtype=torch.float64).unsqueeze(-1) * radius_table.EPSILON_MAX
    with_table, without = (
        _values_and_gradients(d, sigma.to(dtype), epsilon) for dtype in (torch.float32, torch.float64)
    )
    for name, tolerance in (("log Z", "value"), ("∂log Z", "gradient"), ("r", "radius"), ("∂r", "slope")):
        got, expected = with_table[name].double(), without[name]
        torch.testing.assert_close(got, expected, rtol=TOLERANCE[tolerance][torch.float32], atol=1e-6)


def _values_and_gradients(d: int, sigma: Tensor, epsilon: Tensor) -> dict[str, Tensor]:
    sigma = sigma.expand(len(epsilon), -1).clone().requires_grad_()
    r, log_z = radius_autograd.quantile(sigma, 1.0, epsilon, d), radius_autograd.log_normalizer(sigma, 1.0, d)
    slopes = {f"∂{name}": torch.autograd.grad(y.sum(), sigma)[0] for name, y in (("r", r), ("log Z", log_z))}
    return {"r": r.detach(), "log Z": log_z.detach()} | slopes


@dtypes
@pytest.mark.parametrize("d", [2, 20, 1024])
@pytest.mark.parametrize("root", [1e2, 1e3, 1e4])
def test_far_beyond_the_table_the_radius_is_normal(d: int, root: float, dtype: torch.dtype) -> None:
    # sinh is exp/2 there: r = nσ²√c + σε, log Z_r = n²cσ²/2 − n log(2√c) + log(2πσ²)/2
    numbers, sigma, c = law_of(d, root, dtype)
    n, s = d - 1, mp.sqrt(mp.mpf(c.item()))
    log_z = n**2 * s**2 * SIGMA**2 / 2 - n * mp.log(2 * s) + mp.log(2 * mp.pi) / 2 + mp.log(SIGMA)
    assert_close(numbers.log_normalizer, log_z, TOLERANCE["value"][dtype])
    r = numbers.icdf(torch.tensor(0.5, dtype=dtype))
    assert_close(r, n * SIGMA**2 * s, TOLERANCE["radius"][dtype])
    assert_close(torch.autograd.grad(r, (sigma, c)), [2 * n * SIGMA * s, n * SIGMA**2 / (2 * s)], 1e-5)
    assert_close(numbers.variance, mp.mpf(SIGMA) ** 2, 1e-6)


# --------------------------------------------------------------------------------------------------------------------
# The plane: the chi distribution
# --------------------------------------------------------------------------------------------------------------------


@dimensions
@pytest.mark.parametrize("c", [0.0, torch.tensor(0.0)], ids=["number", "tensor"])
def test_without_curvature_it_is_the_chi_law_of_scipy(d: int, c: float | Tensor) -> None:
    numbers = HyperbolicRadius(d, torch.tensor(SIGMA, dtype=torch.float64), PoincareBall(c))
    chi = scipy.stats.chi(float(d), scale=SIGMA)
    u = torch.tensor([1e-6, 0.1, 0.5, 0.9, 1 - 1e-6], dtype=torch.float64)
    r = torch.as_tensor(chi.ppf(u.numpy()))
    torch.testing.assert_close(numbers.icdf(u), r, rtol=1e-12, atol=0)
    torch.testing.assert_close(numbers.cdf(r), torch.as_tensor(chi.cdf(r.numpy())), rtol=1e-11, atol=0)
    torch.testing.assert_close(numbers.log_prob(r), torch.as_tensor(chi.logpdf(r.numpy())), rtol=1e-12, atol=1e-11)
    gamma, digamma = (float(f(d / 2)) for f in (mp.loggamma, mp.digamma))
    entropy = gamma + (d - math.log(2) - (d - 1) * digamma) / 2 + math.log(SIGMA)
    for got, expected in ((numbers.mean, chi.mean()), (numbers.variance, chi.var()), (numbers.entropy(), entropy)):
        assert got.item() == pytest.approx(expected, rel=1e-9)
