"""Gradients of every distribution, and its density by other ways: from the noise, compiled, without curvature."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.geometry import PoincareBall
from tests.distributions.named import LAWS, NORMALS, D, build, dtypes, make, normals, parameters, with_gradients

pytestmark = pytest.mark.usefixtures("seed")

# "noise": the log density of a sample from its noise, and from its point, √c·d(0, z) ≤ 6. "plane": against torch's.
TOLERANCE = {
    "noise": {torch.float64: 1e-13, torch.float32: 1e-5},
    "plane": {torch.float64: 1e-12, torch.float32: 5e-6},
    "compiled": {torch.float64: 1e-12, torch.float32: 1e-5},
}

# Dynamo itself instantiates the autograd.Function that it traces.
dynamo = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


@pytest.mark.parametrize("name", LAWS[:-1])
@dtypes
@pytest.mark.parametrize("c", [0.0, 0.8])
def test_samples_have_gradients_in_every_parameter_and_in_c(name: str, dtype: torch.dtype, c: float) -> None:
    distribution, leaves = with_gradients(name, dtype, c)
    assert distribution.has_rsample
    for leaf, grad in zip(leaves, torch.autograd.grad(distribution.rsample((3,)).square().sum(), leaves), strict=True):
        assert (grad.shape, grad.dtype) == (leaf.shape, dtype)
        assert grad.isfinite().all()
        assert (grad != 0).any()
    assert not distribution.sample().requires_grad


@pytest.mark.parametrize("name", LAWS[:-1])
def test_samples_and_densities_pass_gradcheck(name: str) -> None:
    names, leaves = list(parameters(name)), with_gradients(name)[1]
    value = make(name).sample((2,)).requires_grad_()

    def draw(*tensors: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        torch.manual_seed(5)
        distribution = build(name, dict(zip(names, tensors[:-1], strict=True)), tensors[-1], validate_args=False)
        return distribution.rsample_and_log_prob((2,)) if name in NORMALS else distribution.rsample((2,))

    def log_prob(value: Tensor, *tensors: Tensor) -> Tensor:
        distribution = build(name, dict(zip(names, tensors[:-1], strict=True)), tensors[-1], validate_args=False)
        return torch.cat((distribution.log_prob(value), distribution.entropy().unsqueeze(0)))

    assert torch.autograd.gradcheck(draw, leaves, atol=1e-6)
    assert torch.autograd.gradcheck(log_prob, [value, *leaves], atol=1e-6)


@normals
@dtypes
@pytest.mark.parametrize("c", [0.0, 0.8])
def test_density_at_the_mean_is_finite_and_has_finite_gradients(name: str, dtype: torch.dtype, c: float) -> None:
    distribution, leaves = with_gradients(name, dtype, c)
    value = distribution.mean.detach().clone().requires_grad_()
    log_q = distribution.log_prob(value)
    assert torch.equal(distribution.mean, distribution.mode)
    assert (log_q >= distribution.log_prob(value + 0.01)).all()
    in_value, *grads = torch.autograd.grad(log_q.sum(), (value, *leaves))
    assert all(grad.isfinite().all() for grad in grads)
    assert in_value.abs().max() < 1e-12  # the density is smooth, and highest here


@normals
@dtypes
def test_the_density_from_the_noise_is_the_density_at_the_point(name: str, dtype: torch.dtype) -> None:
    for c in (0.0, 0.05, 0.8, torch.tensor(1.5, dtype=dtype)):
        distribution = make(name, dtype=dtype, c=c)
        z, log_q = distribution.rsample_and_log_prob((200,))
        tolerance = TOLERANCE["noise"][dtype]
        torch.testing.assert_close(log_q, distribution.log_prob(z), rtol=tolerance, atol=tolerance)


@dynamo
@pytest.mark.parametrize(
    ("name", "dtype", "learnable"),
    [
        ("wrapped isotropic", torch.float32, True),
        ("riemannian", torch.float32, True),
        pytest.param("wrapped full", torch.float64, False, marks=pytest.mark.slow),
        pytest.param("riemannian", torch.float64, False, marks=pytest.mark.slow),
    ],
)
def test_compiled_without_a_graph_break_it_equals_eager(name: str, dtype: torch.dtype, learnable: bool) -> None:
    torch.compiler.reset()  # the distributions of other tests would count as recompilations
    ball = PoincareBall(torch.tensor(0.8, dtype=dtype) if learnable else 0.8, learnable=learnable)
    given = {key: value.requires_grad_() for key, value in parameters(name, dtype=dtype).items()}
    kind = RiemannianNormal if name == "riemannian" else WrappedNormal

    def loss(given: dict[str, Tensor]) -> Tensor:
        z, log_q = kind(ball=ball, **given, validate_args=False).rsample_and_log_prob((3,))
        return z.square().sum() + log_q.sum()

    results = []
    for f in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        torch.manual_seed(6)
        value = f(given)
        results.append([value, *torch.autograd.grad(value, [*given.values(), *ball.parameters()])])
    for eager, compiled in zip(*results, strict=True):
        tolerance = TOLERANCE["compiled"][dtype]
        torch.testing.assert_close(compiled, eager, rtol=tolerance, atol=tolerance)


@normals
@dtypes
@pytest.mark.parametrize("tensor", [False, True], ids=["number", "tensor"])
def test_without_curvature_it_is_the_normal_of_torch(name: str, dtype: torch.dtype, tensor: bool) -> None:
    distribution, given = make(name, dtype=dtype, c=torch.tensor(0.0) if tensor else 0.0), parameters(name, dtype=dtype)
    if name == "wrapped full":
        plain: Distribution = MultivariateNormal(**given)
    else:
        plain = Independent(Normal(given["loc"], given["scale"].expand(4, D)), 1)
    z, log_q = distribution.rsample_and_log_prob((50,))
    tolerance = TOLERANCE["plane"][dtype]
    for got in (distribution.log_prob(z), log_q):
        torch.testing.assert_close(got, plain.log_prob(z), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(distribution.entropy(), plain.entropy(), rtol=tolerance, atol=tolerance)
