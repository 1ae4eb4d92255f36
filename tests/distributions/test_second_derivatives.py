"""Second derivatives of divergences, entropies and samplers, by autograd and by torch.func, where they are smooth."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian
from torch.distributions import kl_divergence
from torch.func import jacrev, vmap

from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.distributions.normal import BallNormal
from horoball.distributions.radius import draw
from horoball.geometry import PoincareBall
from horoball.geometry.random import generator_for

KINDS = {"wrapped": WrappedNormal, "riemannian": RiemannianNormal}
kinds = pytest.mark.parametrize("kind", KINDS)
pairs = pytest.mark.parametrize(("q_kind", "p_kind"), list(product(KINDS, KINDS)))


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def normal(kind: str, loc: Tensor, scale: Tensor, c: float = 1.0) -> BallNormal:
    return KINDS[kind](loc, scale, PoincareBall(c), validate_args=False)  # type: ignore[call-arg]


def by_differences(f: Callable[[Tensor], Tensor], x: Tensor, step: float = 1e-3) -> Tensor:
    """Second differences of the fourth order: the gradient is not trusted to be right."""
    n, eye = len(x), torch.eye(len(x), dtype=x.dtype) * step
    weights = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
    found = torch.zeros(n, n, dtype=x.dtype)
    for i, j in product(range(n), repeat=2):
        found[i, j] = sum(
            a * b * f(x + s * eye[i] + t * eye[j]) for (s, a), (t, b) in product(weights.items(), repeat=2)
        )
    return found / step**2


@pairs
@pytest.mark.parametrize(("c", "gap"), [(0.3, 0.0), (1.0, 1e-7), (1.0, 1e-2)])
def test_a_divergence_bends_as_differences_say_also_where_the_means_are_one(
    q_kind: str, p_kind: str, c: float, gap: float
) -> None:
    at = numbers(0.3, -0.4)
    p = normal(p_kind, at, numbers(1.1), c)

    def f(x: Tensor) -> Tensor:
        return kl_divergence(normal(q_kind, x[:2], x[2:], c), p)

    x = torch.cat((at + numbers(gap, 0.0), numbers(0.7)))
    far = normal(p_kind, at, numbers(1.1), c)

    def apart(x: Tensor) -> Tensor:  # never through the formula for one mean
        return kl_divergence(normal(q_kind, x[:2], x[2:], c), far)

    expected = by_differences(apart, x)
    for found in (hessian(f, x), jacrev(jacrev(f))(x)):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert float(torch.func.grad(f)(torch.cat((at, numbers(0.7))))[:2].abs().max()) < 1e-9


@pytest.mark.parametrize("d", [3, 5])
@kinds
def test_divergences_near_one_mean_join_those_farther_off(kind: str, d: int) -> None:
    """Just inside of and just outside of where the formula for one mean is taken."""
    at = torch.linspace(0.2, -0.3, d, dtype=torch.float64)
    p = normal(kind, at, numbers(0.9))

    def bend(gap: float) -> Tensor:
        return hessian(lambda loc: kl_divergence(normal(kind, loc, numbers(0.8)), p), at + gap)

    torch.testing.assert_close(bend(1e-7), bend(1e-4), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(bend(0.0), bend(1e-4), rtol=1e-3, atol=1e-3)


@kinds
def test_a_batch_with_some_means_in_common_has_the_derivatives_of_each(kind: str) -> None:
    at = torch.stack((numbers(0.3, -0.4), numbers(1.0, 0.2)))
    p = normal(kind, numbers(0.3, -0.4).expand(2, 2), numbers(1.0).expand(2, 1))

    def total(loc: Tensor) -> Tensor:
        return kl_divergence(normal(kind, loc, numbers(0.8).expand(2, 1)), p).sum()

    both = hessian(total, at)
    for i in range(2):
        one = hessian(lambda loc: total(torch.stack([loc if k == i else at[k] for k in range(2)])), at[i])  # noqa: B023
        torch.testing.assert_close(both[i, :, i], one)


@kinds
def test_entropies_and_samples_are_differentiated_twice(kind: str) -> None:
    def sample(x: Tensor) -> Tensor:
        return normal(kind, x[:2], x[2:]).rsample((3,), generator=generator_for(0)).square().sum()

    def entropy(x: Tensor) -> Tensor:
        return normal(kind, x[:2], x[2:]).entropy()

    def divergence(x: Tensor) -> Tensor:
        prior = normal(kind, numbers(0.0, 0.0), numbers(1.0))
        return normal(kind, x[:2], x[2:]).rsample_and_divergence(prior, (3,), generator_for(0))[1].sum()

    x = numbers(0.3, -0.4, 0.7)
    for f in (sample, entropy, divergence):
        expected = by_differences(f, x)
        for found in (hessian(f, x), jacrev(jacrev(f))(x)):
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
        several = torch.stack((x, x + 0.1))
        slopes = vmap(torch.func.grad(f), randomness="same")(several)
        torch.testing.assert_close(slopes, torch.stack([torch.func.grad(f)(y) for y in several]))


@pytest.mark.parametrize("d", [2, 3, 10])
@pytest.mark.parametrize("c", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("sigma", [0.1, 1.0, 5.0])
def test_radii_bend_as_their_slopes_change(d: int, c: float, sigma: float) -> None:
    """Out to six standard deviations; the slopes are tested against their definition elsewhere."""
    epsilon, step = numbers(-4.0, -1.0, 0.3, 2.0, 5.5), 1e-4 * sigma

    def slopes(sigma: float, which: int) -> Tensor:
        scale = torch.full((5,), sigma, dtype=torch.float64, requires_grad=True)
        return torch.autograd.grad(draw(scale, c, epsilon, d)[which].sum(), scale)[0]

    for which in (0, 1):
        scale = torch.full((5,), sigma, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(draw(scale, c, epsilon, d)[which].sum(), scale, create_graph=True)
        torch.testing.assert_close(slope, slopes(sigma, which), rtol=1e-9, atol=1e-9)
        expected = (slopes(sigma + step, which) - slopes(sigma - step, which)) / (2 * step)
        (bend,) = torch.autograd.grad(slope.sum(), scale)
        torch.testing.assert_close(bend, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max().clamp_min(1e-2)))


def test_distances_of_all_pairs_are_differentiated_twice() -> None:
    ball, generator = PoincareBall(1.0), generator_for(0)
    z, y = torch.randn(3, 2, generator=generator).double(), torch.randn(4, 2, generator=generator).double()

    def total(z: Tensor) -> Tensor:
        return ball.cdist(z, y).square().sum()

    def each(z: Tensor) -> Tensor:
        return ball.dist(z.unsqueeze(1), y).square().sum()

    expected = hessian(each, z)
    for found in (hessian(total, z), jacrev(jacrev(total))(z)):
        torch.testing.assert_close(found, expected)
    leaf = z.clone().requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(total(leaf), leaf)[0], torch.func.grad(total)(z))
