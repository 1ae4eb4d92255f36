"""What holds for the distributions of the package whatever their parameters, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.distributions import kl_divergence

from horoball.distributions import HyperbolicRadius, RiemannianNormal, WrappedNormal
from horoball.distributions.negative_binomial import NegativeBinomial
from horoball.geometry import PoincareBall
from tests.conditioning import curvatures, dimensions, dtypes, points, shapes

# The log density of a sample by its noise and by its point, which is rounded, e⁶ times the rounding; relative to d.
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-3}
EVERYWHERE = st.one_of(curvatures, st.just(0.0))
WRAPPED = st.sampled_from(["isotropic", "diagonal", "full"])
NORMALS = st.one_of(st.just("riemannian"), WRAPPED)
scales = st.floats(-3.0, 0.6).map(lambda power: 10.0**power)  # √cσ


@st.composite
def normals(
    draw: st.DrawFn, c: float, d: int, dtype: torch.dtype, batch: tuple[int, ...] = (), largest: float = 3.0
) -> RiemannianNormal | WrappedNormal:
    """One of the normals, with √c·d(0, μ) up to the largest."""
    kind, ball, unit = draw(NORMALS if d > 1 else WRAPPED), PoincareBall(c), 1 / math.sqrt(c or 1.0)
    loc = draw(points(d, c, largest, dtype)).expand(*batch, d)
    sizes = [draw(scales) * unit for _ in range(d if kind in ("diagonal", "full") else 1)]
    scale = torch.tensor(sizes, dtype=dtype).expand(*batch, len(sizes))
    if kind == "riemannian":
        return RiemannianNormal(loc, scale, ball)
    if kind == "full":
        slant = torch.tril(torch.full((d, d), 0.5 * min(sizes), dtype=dtype), -1)
        return WrappedNormal(loc, ball=ball, scale_tril=torch.diag_embed(scale) + slant)
    return WrappedNormal(loc, scale, ball=ball)


@given(st.data(), dtypes, EVERYWHERE, dimensions, shapes, shapes)
def test_samples_and_their_densities_are_finite_and_shaped(
    data: st.DataObject, dtype: torch.dtype, c: float, d: int, batch: tuple[int, ...], sample: tuple[int, ...]
) -> None:
    distribution = data.draw(normals(c, d, dtype, batch))
    torch.manual_seed(0)
    z, log_q = distribution.rsample_and_log_prob(sample)
    assert (z.shape, log_q.shape) == ((*sample, *batch, d), (*sample, *batch))
    assert z.dtype == log_q.dtype == distribution.entropy().dtype == dtype
    assert all(torch.isfinite(t).all() for t in (z, log_q, distribution.log_prob(z), distribution.entropy()))
    assert distribution.expand((2, *batch)).log_prob(z.new_zeros(d)).shape == (2, *batch)


@given(st.data(), dtypes, EVERYWHERE, dimensions)
def test_a_sample_has_one_density_by_its_noise_and_by_its_place(
    data: st.DataObject, dtype: torch.dtype, c: float, d: int
) -> None:
    distribution = data.draw(normals(c, d, dtype, largest=1.0))
    sizes = distribution.scale if isinstance(distribution, RiemannianNormal) else distribution.variances.sqrt()
    smallest = float(sizes.min())
    assume(smallest * math.sqrt(c or 1.0) > 0.03)  # where rounding of a point is far below its scale
    torch.manual_seed(0)
    z, log_q = distribution.rsample_and_log_prob((20,))
    near = distribution.ball.dist(distribution.loc.expand_as(z), z) * math.sqrt(c or 1.0) < 5
    error = (distribution.log_prob(z) - log_q).abs()[near]
    assert (error <= TOLERANCE[dtype] * d * (1 + log_q.abs()[near])).all()


@given(st.data(), EVERYWHERE, st.integers(2, 6))
def test_the_riemannian_density_falls_with_distance_and_with_nothing_else(
    data: st.DataObject, c: float, d: int
) -> None:
    unit = 1 / math.sqrt(c or 1.0)
    ball, sigma = PoincareBall(c), data.draw(scales) * unit
    loc, x, y = (data.draw(points(d, c, 3.0)) for _ in range(3))
    distribution = RiemannianNormal(loc, torch.tensor([sigma], dtype=torch.float64), ball)
    distances = torch.stack([ball.dist(loc, x), ball.dist(loc, y)])
    fall = (distances[0].square() - distances[1].square()) / (2 * sigma**2)
    found = distribution.log_prob(y) - distribution.log_prob(x)
    assert (found - fall).abs() <= 1e-11 * (1 + distribution.log_prob(x).abs() + distribution.log_prob(y).abs())


@given(st.data(), dtypes, EVERYWHERE, st.integers(2, 50))
def test_the_radius_and_its_probability_lead_back_to_each_other(
    data: st.DataObject, dtype: torch.dtype, c: float, d: int
) -> None:
    unit = 1 / math.sqrt(c or 1.0)
    distribution = HyperbolicRadius(d, torch.tensor(data.draw(scales) * unit, dtype=dtype), PoincareBall(c))
    p = torch.tensor(sorted(data.draw(st.lists(st.floats(1e-4, 1 - 1e-4), min_size=2, max_size=5))), dtype=dtype)
    r = distribution.icdf(p)
    assert (r > 0).all()
    assert (r.diff() >= 0).all()
    assert ((distribution.cdf(r) - p).abs() <= 50 * torch.finfo(dtype).eps).all()
    assert torch.isfinite(distribution.log_prob(r)).all()
    assert distribution.mean > 0
    assert distribution.variance > 0


@given(st.data(), EVERYWHERE, dimensions)
def test_divergences_are_not_negative_and_zero_of_a_law_from_itself(data: st.DataObject, c: float, d: int) -> None:
    p, q = (data.draw(normals(c, d, torch.float64)) for _ in range(2))
    for first, second in ((p, q), (q, p)):
        try:
            divergence = kl_divergence(first, second)
        except NotImplementedError:
            continue
        assert torch.isfinite(divergence).all()
        assert divergence >= -1e-9 * (1 + divergence.abs())
    for distribution in (p, q):
        try:
            itself = kl_divergence(distribution, distribution)
        except NotImplementedError:
            continue
        assert itself.abs() <= 1e-9 * d


@given(st.floats(-20, 12), st.floats(-8, 12), st.integers(0, 10**7), dtypes)
def test_a_count_has_a_probability_and_gradients_whatever_its_law(
    log_mean: float, log_dispersion: float, count: int, dtype: torch.dtype
) -> None:
    parameters = [torch.tensor([x], dtype=dtype, requires_grad=True) for x in (log_mean, log_dispersion)]
    log_p = NegativeBinomial(*parameters).log_prob(torch.tensor([float(count)], dtype=dtype))
    assert torch.isfinite(log_p)
    assert log_p <= 1e-6
    assert all(torch.isfinite(g) for g in torch.autograd.grad(log_p, parameters))


@pytest.mark.parametrize("wrong", [math.nan, -math.inf, 0.0, -1.0])
@pytest.mark.parametrize("distribution", [RiemannianNormal, WrappedNormal, HyperbolicRadius])
def test_a_scale_that_is_none_is_refused(distribution: Any, wrong: float) -> None:
    ball, scale = PoincareBall(1.0), torch.tensor([wrong])
    with pytest.raises(ValueError, match="scale"):
        distribution(3, scale, ball) if distribution is HyperbolicRadius else distribution(
            torch.zeros(3), scale, ball=ball
        )


@given(st.one_of(st.floats(max_value=-1e-300), st.sampled_from([math.nan, math.inf, -math.inf])))
def test_a_curvature_that_is_none_is_refused(c: float) -> None:
    for given_ in (c, torch.tensor(c, dtype=torch.float64)):
        with pytest.raises(ValueError, match="expects c >= 0"):
            PoincareBall(given_)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_a_rotated_normal_has_its_first_axis_along_its_mean(d: int) -> None:
    outputs = torch.randn(40, WrappedNormal.network_size(d, "rotated"), generator=torch.Generator().manual_seed(d))
    outputs = outputs.double()
    outputs[0, :d] = 0  # of which no direction is known
    outputs[1, :d] = torch.eye(d)[0] * -3
    q = WrappedNormal.from_network(outputs, d, PoincareBall(1.0), "rotated")
    sigma = torch.nn.functional.softplus(outputs[:, d:]) + 1e-5
    for mean, scale, factor in zip(outputs[:, :d], sigma, q.scale_tril, strict=True):
        e = torch.eye(d, dtype=torch.float64)
        x = -e[0] if mean[0] < 0 else e[0]
        y = mean / mean.norm() if mean.norm() > 0 else x
        across = y - (x @ y) * x  # the plane is that of x and of this
        generator = torch.outer(across, x) - torch.outer(x, across)
        angle = torch.atan2(across.norm(), x @ y)
        rotation = torch.linalg.matrix_exp(generator / across.norm().clamp_min(1e-300) * angle)
        torch.testing.assert_close(factor @ factor.T, rotation @ torch.diag(scale**2) @ rotation.T)
        torch.testing.assert_close(y @ factor @ factor.T @ y, scale[0] ** 2)
    assert torch.equal(q.scale_tril, q.scale_tril.tril())
    z, log_q = q.rsample_and_log_prob((3,), torch.Generator().manual_seed(0))
    torch.testing.assert_close(q.log_prob(z), log_q)
