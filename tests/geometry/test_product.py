"""Products of spaces: exact against their factors and against mpmath, with normals, divergences and first layer."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from horoball import PoincareVAE
from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.distributions.normal import BallNormal
from horoball.distributions.product import ProductFamily
from horoball.geometry import PoincareBall, ProductSpace
from horoball.geometry.random import generator_for
from horoball.nn import Gyroplane, ProductGyroplane

SIGNATURE, CURVATURES = "H2xE1xH3", (0.5, 2.0)
FAMILIES = {"wrapped": WrappedNormal, "riemannian": RiemannianNormal}
families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def space() -> ProductSpace:
    return ProductSpace(SIGNATURE, c=CURVATURES)


def points(n: int = 20, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return (2 * torch.randn(n, 6, dtype=torch.float64, generator=generator_for(seed))).to(dtype)


def exact_dist(z: Tensor, y: Tensor, c: float) -> mpmath.mpf:
    """By the law of cosines, in 50 digits."""
    with mpmath.workdps(50):
        p, q = ([mpmath.mpf(float(t)) for t in point] for point in (z, y))
        a, b = (mpmath.sqrt(sum(t * t for t in point)) for point in (p, q))
        if c == 0:
            return mpmath.sqrt(sum((s - t) ** 2 for s, t in zip(p, q, strict=True)))
        s = mpmath.sqrt(mpmath.mpf(c))
        inner = sum(u * v for u, v in zip(p, q, strict=True)) / (a * b)
        cosh = mpmath.cosh(s * a) * mpmath.cosh(s * b) - mpmath.sinh(s * a) * mpmath.sinh(s * b) * inner
        return mpmath.acosh(cosh) / s


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 3e-7)], ids=str)
def test_distances_are_those_of_mpmath(dtype: torch.dtype, tolerance: float) -> None:
    z, y, M = points(dtype=dtype), points(dtype=dtype, seed=1), space()
    for one, other, got, of_all in zip(z, y, M.dist(z, y), M.cdist(z, y).diagonal(), strict=True):
        parts = zip(M.split(one), M.split(other), (0.5, 0.0, 2.0), strict=True)
        expected = float(mpmath.sqrt(sum(exact_dist(p, q, c) ** 2 for p, q, c in parts)))
        assert float(got) == pytest.approx(expected, rel=tolerance)
        assert float(of_all) == pytest.approx(expected, rel=tolerance)


def test_maps_are_those_of_the_factors_and_undo_each_other() -> None:
    M, z, y = space(), points(), points(seed=1)
    torch.testing.assert_close(M.exp(z, M.log(z, y)), y)
    torch.testing.assert_close(M.from_ball(M.to_ball(z)), z)
    torch.testing.assert_close(M.dist(z, M.geodesic(z, y, 0.3)), 0.3 * M.dist(z, y))
    torch.testing.assert_close(M.transport(z, y, M.log(z, y)), -M.log(y, z))
    torch.testing.assert_close(torch.linalg.vector_norm(M.log(z, y), dim=-1), M.dist(z, y))
    for name in ("exp", "log"):
        parts = [getattr(f, name)(p, q) for f, p, q in zip(M.balls, M.split(z), M.split(y), strict=True)]
        assert torch.equal(getattr(M, name)(z, y), torch.cat(parts, -1))
    volume = sum(f.log_volume(p) for f, p in zip(M.balls, M.split(z), strict=True))
    torch.testing.assert_close(M.log_volume(z), volume)


def test_one_factor_is_the_factor_and_flat_ones_are_one_flat_space() -> None:
    z, y = points()[:, :3], points(seed=1)[:, :3]
    assert torch.equal(ProductSpace("H3", c=0.7).log(z, y), PoincareBall(0.7).log(z, y))
    torch.testing.assert_close(ProductSpace("E1xE2").dist(z, y), torch.linalg.vector_norm(z - y, dim=-1))


def normals(family: type[BallNormal], loc: Tensor, sigma: float) -> tuple[BallNormal, list[BallNormal]]:
    M = space()
    scale = torch.full((*loc.shape[:-1], 1), sigma, dtype=loc.dtype)
    whole = ProductFamily(family, M).isotropic(loc, scale, M)
    return whole, [family.isotropic(p, scale, f) for p, f in zip(M.split(loc), M.balls, strict=True)]


@families
def test_densities_entropies_and_divergences_are_those_of_the_factors(family: type[BallNormal]) -> None:
    loc, z = 0.3 * points(4), points(4, seed=1)
    (q, q_parts), (p, p_parts) = normals(family, loc, 0.7), normals(family, torch.zeros_like(loc), 1.0)
    at = space().split(z)
    torch.testing.assert_close(q.log_prob(z), sum(part.log_prob(x) for part, x in zip(q_parts, at, strict=True)))
    torch.testing.assert_close(q.entropy(), sum(part.entropy() for part in q_parts))
    expected = sum(kl_divergence(one, other) for one, other in zip(q_parts, p_parts, strict=True))
    torch.testing.assert_close(kl_divergence(q, p), expected)
    drawn, log_q = q.rsample_and_log_prob((2000,), generator_for(0))
    torch.testing.assert_close(q.log_prob(drawn), log_q, rtol=1e-6, atol=1e-6)
    gap = q.rsample_and_divergence(p, (2000,), generator_for(1))[1]
    error = gap.std(0) / 2000**0.5
    assert bool(((gap.mean(0) - expected).abs() < 5 * error).all())
    assert q.expand((3, 4)).log_prob(z).shape == (3, 4)


@families
def test_a_network_s_numbers_are_dealt_out_to_the_factors(family: type[BallNormal]) -> None:
    M = space()
    made_of = ProductFamily(family, M)
    for scale in family.scales:
        outputs = points(5)[:, :1].repeat(1, made_of.network_size(6, scale))
        q = made_of.from_network(outputs, 6, M, scale)
        assert torch.equal(q.loc, outputs[:, :6])
        assert q.rsample().shape == (5, 6)
        z, radius, width = q.coordinates()
        assert (z.shape, radius.shape, width.shape) == ((5, 6), (5,), (5,))


def test_the_first_layer_adds_up_those_of_the_factors() -> None:
    M, z = ProductSpace(SIGNATURE, c=CURVATURES), points(dtype=torch.float32)
    layer = ProductGyroplane(M, 4, generator=generator_for(0))
    parts = [each(part) for each, part in zip(layer.layers, M.split(z), strict=True)]
    torch.testing.assert_close(layer(z), sum(parts))
    assert all(isinstance(each, Gyroplane) for each in layer.layers)


def test_curvatures_are_learned_and_told_apart() -> None:
    M = ProductSpace("H2xE1xH3", c=1.0, learn_c=True)
    M.dist(points(), points(seed=1)).sum().backward()
    assert [f.learnable for f in M.balls] == [True, False, True]
    slopes = [float(parameter.grad) for parameter in M.parameters() if parameter.grad is not None]
    assert len(slopes) == 2
    assert slopes[0] != slopes[1]


@pytest.mark.parametrize("wrong", ["", "S2", "H0", "H2*E1", "H2x", "H99999", "x".join(["H1"] * 100)])
def test_what_is_no_signature_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="The signature of a product is factors such as H2xH3xE2"):
        ProductSpace(wrong)


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"H2xE1 has 3 dimensions, not 2\. Set n_components"):
        ProductSpace("H2xE1", d=2)
    with pytest.raises(ValueError, match="H2xH1 has 2 balls, got 3 curvatures"):
        ProductSpace("H2xH1", c=[1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="H2xE1 has points of 3 numbers, got 2"):
        ProductSpace("H2xE1").dist(torch.zeros(2), torch.zeros(2))


@pytest.mark.parametrize("prior", ["normal", "mixture", "vamp"])
def test_a_model_lives_on_a_product(prior: str, tmp_path: object) -> None:
    x = np.random.default_rng(0).normal(size=(60, 4))
    product = 'product:{"signature": "H2xE1"}'
    model = PoincareVAE(3, manifold=product, c="learn", prior=prior, max_epochs=1, hidden=(8,), random_state=0).fit(x)
    assert {"c0", "c1"} <= model.history_[0].keys()
    model.save(f"{tmp_path}/run")
    again = PoincareVAE.load(f"{tmp_path}/run")
    np.testing.assert_array_equal(again.transform(x), model.transform(x))
    np.testing.assert_allclose(again.inverse_transform(again.transform(x)).shape, x.shape)
    assert np.isfinite(again.score(x))
    assert "<html" in again.view(x).html
    assert again.tree(x, draws=2).leaves == 60
