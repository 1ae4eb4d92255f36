"""What every distribution says to arguments that cannot be."""

from __future__ import annotations

import math

import pytest
import torch

from horoball.distributions import HyperbolicRadius, HypersphericalUniform, RiemannianNormal, WrappedNormal
from horoball.geometry import PoincareBall
from tests.distributions.named import LAWS, NORMALS, build, distributions, make, parameters

pytestmark = pytest.mark.usefixtures("seed")


@pytest.mark.parametrize("name", LAWS[:-1])
@pytest.mark.parametrize("bad", [-1.0, 0.0, math.nan])
def test_a_bad_parameter_raises_unless_validation_is_off(name: str, bad: float) -> None:
    for key, value in parameters(name).items():
        if key == "loc" and not math.isnan(bad):
            continue
        wrong = parameters(name) | {key: torch.full_like(value, bad)}
        with pytest.raises(ValueError, match=rf"(?s){key}.*{type(make(name)).__name__}"):
            build(name, wrong)
        assert build(name, wrong, validate_args=False)


@distributions
@pytest.mark.parametrize("bad", ["nan", "outside", "shape"])
def test_a_bad_value_raises_unless_validation_is_off(name: str, bad: str) -> None:
    distribution = make(name)
    z = distribution.sample()
    wrong = {"nan": z * math.nan, "outside": -5 * z, "shape": z[:3]}[bad]
    if bad == "outside" and name in NORMALS:
        return  # the tangent chart is all of ℝᵈ
    with pytest.raises(ValueError, match=r"(?i)value|broadcast"):
        distribution.log_prob(wrong)
    if bad != "shape":
        assert make(name, validate_args=False).log_prob(wrong).shape == (4,)


def test_a_dimension_below_that_of_the_law_raises_and_says_what_to_use() -> None:
    one, ball = torch.ones(4, 1), PoincareBall()
    with pytest.raises(ValueError, match=r"RiemannianNormal needs d >= 2, got 1\. On a line use WrappedNormal"):
        RiemannianNormal(one, one, ball)
    for d in (1, 0):
        with pytest.raises(ValueError, match=rf"HyperbolicRadius needs d >= 2, got {d}\. On a line use WrappedNormal"):
            HyperbolicRadius(d, torch.ones(4), ball)
    with pytest.raises(ValueError, match=r"HypersphericalUniform needs d >= 1, got 0"):
        HypersphericalUniform(0)


def test_wrong_shapes_and_missing_arguments_raise_and_say_what_is_expected() -> None:
    loc, ball = torch.zeros(4, 3), PoincareBall()
    for wrong in (torch.ones(4, 2), torch.ones(2), torch.tensor(1.0)):
        with pytest.raises(ValueError, match=r"loc of shape \(4, 3\) expects scale of shape .* or \(\*, d\), d = 3"):
            WrappedNormal(loc, wrong, ball)
        with pytest.raises(ValueError, match=r"expects scale_tril of shape \(\*, d, d\), d = 3, got"):
            WrappedNormal(loc, ball=ball, scale_tril=wrong)
        with pytest.raises(ValueError, match=r"one scale per point, shape \(\*, 1\), got .* WrappedNormal takes"):
            RiemannianNormal(loc, wrong, ball)
    for both in ({}, {"scale": torch.ones(1), "scale_tril": torch.eye(3)}):
        with pytest.raises(ValueError, match="either scale or scale_tril"):
            WrappedNormal(loc, ball=ball, **both)
    with pytest.raises(TypeError, match=r"needs a ball: WrappedNormal\(loc, scale, PoincareBall\(c=1\.0\)\)"):
        WrappedNormal(loc, torch.ones(1))
    with pytest.raises(TypeError, match="ball"):
        RiemannianNormal(loc, torch.ones(1))
    for scale in (torch.ones(5, 1), torch.ones(5, 4, 2, 1)):
        for kind in (WrappedNormal, RiemannianNormal):
            with pytest.raises((ValueError, RuntimeError)):
                kind(loc, scale, ball)
