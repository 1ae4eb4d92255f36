"""What the formulas of gyrovector spaces take: shapes, dtypes, curvatures, points outside the ball."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from horoball.geometry import gyrovector
from tests.geometry.gyropoints import BINARY, DTYPES, binary, dtypes, points


@binary
def test_batches_broadcast(f: Callable[..., Tensor]) -> None:
    x, y = points(43, c=1.0, n=5)[:, None], points(44, c=1.0, n=6)[2:]
    whole = f(x, y, c=1.0)
    assert whole.shape[:2] == (5, 4)
    torch.testing.assert_close(whole[3, 2], f(x[3, 0], y[2], c=1.0), rtol=1e-13, atol=1e-15)


@binary
def test_curvature_may_differ_from_point_to_point(f: Callable[..., Tensor]) -> None:
    x, y = (points(seed, c=1.4, n=6)[1:] for seed in (45, 46))
    c = torch.tensor([0.0, 0.1, 0.5, 1.0, 1.4], dtype=torch.float64)
    each = torch.stack([f(x1, y1, c=c1.item()) for x1, y1, c1 in zip(x, y, c, strict=True)])
    torch.testing.assert_close(f(x, y, c=c[:, None]), each, rtol=1e-13, atol=1e-15)


@binary
@dtypes
def test_answers_have_the_dtype_of_the_points_whatever_that_of_the_curvature(
    f: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    x, y = (points(seed, c=1.0, dtype=dtype) for seed in (47, 48))
    for c in (1.0, *(torch.tensor(1.0, dtype=other) for other in DTYPES)):
        assert f(x, y, c=c).dtype == dtype


def test_integer_vectors_are_not_truncated() -> None:
    torch.testing.assert_close(gyrovector.exp0(torch.tensor([1, 0]), c=1.0), torch.tensor([math.tanh(1.0), 0.0]))


# Dynamo itself instantiates the autograd.Function that it traces.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_all_compile_without_a_graph_break() -> None:
    def everything(x: Tensor, y: Tensor, c: Tensor) -> Tensor:
        return sum(f(x, y, c=c).sum() for f in BINARY.values())

    x, y = (points(seed, c=0.7, dtype=torch.float32) for seed in (49, 50))
    c = torch.tensor(0.7)
    compiled = torch.compile(everything, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, y, c), everything(x, y, c))


@pytest.mark.parametrize("bad", [1.0, 1.5, math.nan, math.inf])
def test_a_point_on_or_outside_the_ball_raises_and_says_what_to_do(bad: float) -> None:
    outside, inside = torch.tensor([[0.1, 0.0], [bad / 2, 0.0]]), torch.tensor([0.1, 0.2])
    got = rf"inside the ball, √c\|x\| < 1, got √c\|x\| up to {bad:g}\. .*PoincareBall\.from_ball.*PoincareBall\.to_ball"
    normal = torch.ones(2)
    for call in (
        lambda: gyrovector.conformal_factor(outside, c=4.0),
        lambda: gyrovector.mobius_add(outside, inside, c=4.0),
        lambda: gyrovector.mobius_add(inside, outside, c=4.0),
        lambda: gyrovector.dist(outside, inside, c=4.0),
        lambda: gyrovector.dist(inside, outside, c=4.0),
        lambda: gyrovector.log0(outside, c=4.0),
        lambda: gyrovector.log(outside, inside, c=4.0),
        lambda: gyrovector.log(inside, outside, c=4.0),
        lambda: gyrovector.exp(outside, inside, c=4.0),
        lambda: gyrovector.gyroplane_dist(outside, point=inside, normal=normal, c=4.0),
        lambda: gyrovector.gyroplane_dist(inside, point=outside, normal=normal, c=4.0),
        lambda: gyrovector.gyroplane(outside, point=inside, normal=normal, c=4.0),
    ):
        with pytest.raises(ValueError, match=got):
            call()


def test_negative_curvature_parameter_raises() -> None:
    for c in (-1.0, torch.tensor(-1.0)):
        with pytest.raises(ValueError, match="c ≥ 0"):
            gyrovector.exp0(torch.zeros(2), c=c)


def test_a_normal_of_length_zero_raises() -> None:
    z = torch.zeros(2)
    for f in (gyrovector.gyroplane_dist, gyrovector.gyroplane):
        with pytest.raises(ValueError, match="normal of length 0"):
            f(z, point=z, normal=z, c=1.0)


def test_gyroplane_has_keyword_only_point_and_normal() -> None:
    z = torch.zeros(2)
    for f in (gyrovector.gyroplane_dist, gyrovector.gyroplane):
        with pytest.raises(TypeError, match="positional"):
            f(z, z, z, c=1.0)  # type: ignore[misc]
