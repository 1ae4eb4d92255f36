from __future__ import annotations

import copy
import math

import pytest
import torch

from horoball.geometry import PoincareBall
from horoball.nn import Gyroplane
from tests.geometry.ballpoints import one_of_each, vectors


@pytest.mark.parametrize("learnable", [False, True])
def test_what_is_not_one_finite_number_above_zero_raises(learnable: bool) -> None:
    with pytest.raises(ValueError, match=r"c >= 0 .* got c = -1\.5\. Pass c = 1\.5\?"):
        PoincareBall(-1.5, learnable=learnable)
    for bad in (math.nan, math.inf, torch.tensor(-1.0), torch.tensor(math.nan)):
        with pytest.raises(ValueError, match="c >= 0"):
            PoincareBall(bad, learnable=learnable)
    with pytest.raises(ValueError, match=r"one curvature, got c of shape \(2,\)"):
        PoincareBall(torch.ones(2), learnable=learnable)
    with pytest.raises(ValueError, match=r"learnable c must start above 0, got 0\. Start it small"):
        PoincareBall(0.0, learnable=True)


@pytest.mark.parametrize("c", [1e-6, 0.1, 1.0, 10.0, 1e3])
def test_a_learnable_curvature_starts_at_its_value_and_has_a_gradient(c: float) -> None:
    ball = PoincareBall(c, learnable=True)
    assert [name for name, _ in ball.named_parameters()] == ["raw_c"]
    assert ball.c.item() == pytest.approx(c, rel=2e-6)
    (grad,) = torch.autograd.grad(ball.dist(*vectors(1, torch.tensor([1.0, 2.0]) / math.sqrt(c))), ball.raw_c)
    assert grad.isfinite()
    assert grad != 0


def test_a_learnable_curvature_survives_state_dict_and_deepcopy() -> None:
    ball, other = PoincareBall(0.3, learnable=True), PoincareBall(2.0, learnable=True)
    other.load_state_dict(ball.state_dict())
    twin = copy.deepcopy(ball)
    assert other.c.item() == twin.c.item() == ball.c.item()
    assert twin.raw_c is not ball.raw_c


def test_a_given_curvature_is_no_parameter_and_survives_deepcopy() -> None:
    for ball in (PoincareBall(0.5), PoincareBall(torch.tensor(0.5)), PoincareBall(torch.tensor(0.5).requires_grad_())):
        assert not list(ball.parameters())
        assert not list(ball.buffers()) or ball.c is ball._c
        assert float(torch.as_tensor(copy.deepcopy(ball).c).detach()) == 0.5


def test_weights_of_another_curvature_are_refused() -> None:
    weights = Gyroplane(2, 3, PoincareBall(1.0)).state_dict()
    assert float(weights["ball.c"]) == 1.0
    Gyroplane(2, 3, PoincareBall(1.0)).load_state_dict(weights)
    with pytest.raises(
        RuntimeError, match=r"a ball with c = 1, this one has c = 0\.01\. Make it with PoincareBall\(1\)"
    ):
        Gyroplane(2, 3, PoincareBall(0.01)).load_state_dict(weights)
    with pytest.raises(RuntimeError, match="raw_c"):
        Gyroplane(2, 3, PoincareBall(1.0, learnable=True)).load_state_dict(weights)


def test_weights_that_do_not_say_their_curvature_are_taken() -> None:
    weights = Gyroplane(2, 3, PoincareBall(1.0)).state_dict()
    del weights["ball.c"]
    Gyroplane(2, 3, PoincareBall(0.5)).load_state_dict(weights)


@pytest.mark.usefixtures("warn_always")
def test_repr_says_the_curvature() -> None:
    assert repr(PoincareBall(0.5)) == "PoincareBall(c=0.5)"
    assert repr(PoincareBall(torch.tensor(2))) == "PoincareBall(c=2)"
    assert repr(PoincareBall(torch.tensor(0.5, requires_grad=True))) == "PoincareBall(c=0.5)"
    assert repr(PoincareBall(0.25, learnable=True)) == "PoincareBall(c=0.25, learnable=True)"


@pytest.mark.parametrize("shape", [(1,), (1, 1)], ids=str)
def test_a_curvature_of_one_element_changes_no_shape(shape: tuple[int, ...]) -> None:
    c = torch.full(shape, 0.7, requires_grad=True)
    ball, plain = PoincareBall(c), PoincareBall(0.7)
    for z in (torch.tensor([0.1, -0.2]), torch.tensor([[0.1, -0.2], [0.3, 0.0], [0.2, 0.2]])):
        for name, arguments in one_of_each(z).items():
            got, expected = (getattr(m, name)(*arguments) for m in (ball, plain))
            torch.testing.assert_close(got, expected)
            (grad,) = torch.autograd.grad(got.sum(), c)
            assert grad.shape == shape
