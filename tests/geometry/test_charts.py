from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import torch
from torch import Tensor

from horoball.geometry import PoincareBall
from tests import oracle
from tests.geometry.ballpoints import (
    RADII,
    TOLERANCE,
    assert_close,
    curvatures,
    curvatures_and_zero,
    dtypes,
    points,
    vectors,
)


@dtypes
@curvatures
def test_charts_agree_with_mpmath(dtype: torch.dtype, c: float) -> None:
    ball, z = PoincareBall(c), vectors(1, torch.tensor(RADII) / math.sqrt(c), dtype=dtype)
    assert_close(ball.to_ball(z), oracle.to_ball(z, c), TOLERANCE["value"][dtype])
    with mp.workdps(60):
        a = [mp.sqrt(mp.mpf(c) * (t * t).sum()) for t in oracle.array(z)]
        time, stretch = [mp.cosh(x) for x in a], [mp.sinh(x) / x for x in a]
        space = oracle.array(z) * np.array(stretch, dtype=object)[:, None]
    h = ball.to_lorentz(z)
    assert_close(h[:, :1], np.array(time, dtype=object)[:, None], TOLERANCE["value"][dtype])
    assert_close(h[:, 1:], space, TOLERANCE["value"][dtype])


@dtypes
@curvatures_and_zero
@pytest.mark.parametrize("chart", ["ball", "lorentz"])
def test_a_chart_and_back_is_the_identity(dtype: torch.dtype, c: float, chart: str) -> None:
    ball, z = PoincareBall(c), points(23, c=c, largest=5.0, dtype=dtype)
    there = getattr(ball, f"to_{chart}")(z)
    back = getattr(ball, f"from_{chart}")(there)
    assert there.dtype == back.dtype == dtype
    assert_close(back, z, TOLERANCE["chart"][dtype])


@dtypes
@curvatures
def test_lorentz_coordinates_lie_on_the_hyperboloid(dtype: torch.dtype, c: float) -> None:
    h = PoincareBall(c).to_lorentz(points(24, c=c, dtype=dtype)).double()
    assert h.shape[-1] == 4
    off = -(h[:, 0] ** 2) + c * h[:, 1:].square().sum(-1) + 1
    assert (off.abs() <= 8 * torch.finfo(dtype).eps * h[:, 0] ** 2).all()


@pytest.mark.parametrize("chart", ["to_ball", "from_ball", "to_lorentz"])
@pytest.mark.parametrize("c", [0.0, 0.7])
def test_charts_are_differentiable_at_the_origin(chart: str, c: float) -> None:
    z = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    got = torch.autograd.functional.jacobian(getattr(PoincareBall(torch.tensor(c)), chart), z)
    factor = {"to_ball": 0.5, "from_ball": 2.0, "to_lorentz": 1.0}[chart]
    assert torch.equal(got[-3:], factor * torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("bad", [1.0, 1.5, math.nan, math.inf])
def test_from_ball_raises_on_the_rim_and_outside_and_says_what_to_do(bad: float) -> None:
    x = torch.tensor([[0.1, 0.0], [bad / 2, 0.0]])
    with pytest.raises(ValueError, match=rf"sqrt\(c\)·\|x\| < 1, got {bad:g}\. .*to_ball.*float64"):
        PoincareBall(4.0).from_ball(x)


@pytest.mark.usefixtures("warn_always")
@pytest.mark.parametrize("c", [4.0, torch.tensor(4.0, requires_grad=True)], ids=["number", "tensor"])
def test_from_lorentz_refuses_another_hyperboloid(c: float | Tensor) -> None:
    ball, z = PoincareBall(c), torch.tensor([0.3, -0.8])
    h = ball.to_lorentz(z).detach()
    scaled = torch.cat((h[:1] / 2, h[1:]))  # time in units of length, as with h₀² = 1/c + |h|²
    for wrong in (scaled, h.flip(-1), PoincareBall(1.0).to_lorentz(z), h * math.nan):
        with pytest.raises(ValueError, match=r"h0 first and -h0² \+ c\|h\|² = -1 for c = 4"):
            ball.from_lorentz(wrong)
