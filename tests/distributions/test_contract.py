"""What every distribution of the package does, whatever its density: torch's contract."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

from horoball.distributions import HyperbolicRadius, HypersphericalUniform, RiemannianNormal, WrappedNormal
from horoball.manifolds import PoincareBall

D = 3
DTYPES = (torch.float64, torch.float32)
NORMALS = ("wrapped isotropic", "wrapped diagonal", "wrapped full", "riemannian")
LAWS = (*NORMALS, "radius", "direction")
Shape = tuple[int, ...]

# "noise": the log density of a sample from its noise, and from its point, √c·d(0, z) ≤ 6. "plane": against torch's.
TOLERANCE = {
    "noise": {torch.float64: 1e-13, torch.float32: 1e-5},
    "plane": {torch.float64: 1e-12, torch.float32: 5e-6},
    "compiled": {torch.float64: 1e-12, torch.float32: 1e-5},
}

laws = pytest.mark.parametrize("name", LAWS)
normals = pytest.mark.parametrize("name", NORMALS)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
# Dynamo itself instantiates the autograd.Function that it traces.
dynamo = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    Distribution.set_default_validate_args(True)  # torch.compile turns it off for the whole process
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def parameters(name: str, batch: Shape = (4,), dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)

    def numbers(*shape: int) -> Tensor:
        return torch.rand((*batch, *shape), generator=generator, dtype=torch.float64).to(dtype)

    if name == "direction":
        return {}
    if name == "radius":
        return {"scale": 0.3 + numbers()}
    if name == "wrapped full":
        tril = numbers(D, D).tril(-1) + torch.diag_embed(0.3 + numbers(D))
        return {"loc": numbers(D) - 0.3, "scale_tril": tril}
    return {"loc": numbers(D) - 0.3, "scale": 0.3 + numbers(D if name == "wrapped diagonal" else 1)}


def build(name: str, given: dict[str, Tensor], c: float | Tensor = 0.8, **keywords: object) -> Distribution:
    ball = PoincareBall(c)
    if name == "radius":
        return HyperbolicRadius(D, ball=ball, **given, **keywords)
    return (RiemannianNormal if name == "riemannian" else WrappedNormal)(ball=ball, **given, **keywords)


def make(name: str, batch: Shape = (4,), dtype: torch.dtype = torch.float64, **keywords: object) -> Distribution:
    if name == "direction":
        return HypersphericalUniform(D, batch, dtype=dtype, **keywords)
    return build(name, parameters(name, batch, dtype), **keywords)


def with_gradients(name: str, dtype: torch.dtype = torch.float64, c: float = 0.8) -> tuple[Distribution, list[Tensor]]:
    """A law, and its parameters and c as leaves."""
    given = {key: value.requires_grad_() for key, value in parameters(name, dtype=dtype).items()}
    curvature = torch.tensor(c, dtype=dtype, requires_grad=True)
    return build(name, given, curvature), [*given.values(), curvature]


# --------------------------------------------------------------------------------------------------------------------
# Shapes, dtypes, samples
# --------------------------------------------------------------------------------------------------------------------


@laws
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)], ids=str)
@pytest.mark.parametrize("sample", [(), (5,), (2, 3), (0,)], ids=str)
def test_shapes_are_sample_then_batch_then_event(name: str, batch: Shape, sample: Shape) -> None:
    # torch cannot validate an empty vector
    law = make(name, batch, validate_args=0 not in sample)
    event = () if name == "radius" else (D,)
    assert (law.batch_shape, law.event_shape) == (batch, event)
    for z in (law.sample(sample), law.rsample(sample)):
        assert z.shape == sample + batch + event
        assert law.log_prob(z).shape == sample + batch
        assert 0 in sample or law.support.check(z).all()
    if name in NORMALS:
        z, log_q = law.rsample_and_log_prob(sample)
        assert (z.shape, log_q.shape) == (sample + batch + event, sample + batch)
    assert law.mean.shape == batch + event
    assert law.entropy().shape == batch


@laws
@dtypes
def test_dtype_and_device_follow_the_parameters(name: str, dtype: torch.dtype) -> None:
    for kind in DTYPES:  # of c, which does not matter
        law = make(name, dtype=dtype, **({} if name == "direction" else {"c": torch.tensor(0.8, dtype=kind)}))
        z = law.rsample((2,))
        answers = [z, law.sample(), law.log_prob(z), law.entropy(), law.mean]
        answers += law.rsample_and_log_prob() if name in NORMALS else ()
        answers += [law.cdf(z), law.icdf(law.cdf(z)), law.variance, law.stddev] if name == "radius" else ()
        for answer in answers:
            assert (answer.dtype, answer.device) == (dtype, torch.device("cpu"))


@laws
def test_the_same_seed_gives_the_same_samples_and_one_batch_different_ones(name: str) -> None:
    law, samples = make(name), []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        samples.append(law.sample((2,)))
    assert torch.equal(samples[0], samples[1])
    assert not torch.equal(samples[1], samples[2])
    assert len(make(name, ()).expand((3,)).sample((2,)).reshape(6, -1).unique(dim=0)) == 6


@normals
@dtypes
@pytest.mark.parametrize("batch", [(), (1,), (1, 1)], ids=str)
def test_a_prior_at_the_origin_is_as_any_other_law(name: str, dtype: torch.dtype, batch: Shape) -> None:
    given = parameters(name, batch, dtype)
    z = make(name, batch, dtype).sample((5,))
    here, nearby = (build(name, given | {"loc": torch.full_like(given["loc"], x)}) for x in (0.0, 1e-9))
    for value in (z, z[0], z.reshape(-1, D)[0]):
        torch.testing.assert_close(here.log_prob(value), nearby.log_prob(value), rtol=1e-6, atol=1e-6)


@laws
@pytest.mark.parametrize("batch", [(4,), (1, 4), (5, 2, 4)], ids=str)
def test_expand_repeats_the_law_and_repr_names_it(name: str, batch: Shape) -> None:
    law = make(name)
    new = law.expand(torch.Size(batch))
    assert type(new) is type(law)
    assert (new.batch_shape, new.event_shape) == (batch, law.event_shape)
    for key, value in parameters(name).items():
        assert torch.equal(getattr(new, key), value.expand(*batch, *value.shape[1:]))
    z = law.sample((7, *batch[:-1]))
    assert new.sample((7,)).shape == z.shape
    assert torch.equal(new.log_prob(z), law.log_prob(z))
    assert torch.equal(new.entropy(), law.entropy().expand(batch))
    again = new.expand((2, *batch))
    assert torch.equal(again.log_prob(z[:2].expand(2, *z.shape[1:])), law.log_prob(z[:2]))
    for each in (law, new, make(name, ())):
        assert repr(each).startswith(type(law).__name__)
        assert all(key in repr(each) for key in parameters(name))


@laws
def test_expand_keeps_gradients_and_the_choice_of_validation(name: str) -> None:
    assert not make(name, validate_args=False).expand((2, 4))._validate_args
    assert make(name, validate_args=True).expand((2, 4))._validate_args
    if name != "direction":
        law, leaves = with_gradients(name)
        grads = torch.autograd.grad(law.expand((2, 4)).rsample().square().sum(), leaves)
        assert all((grad != 0).all() for grad in grads if grad.dim() < 3)


@normals
def test_parameters_of_different_batches_broadcast(name: str) -> None:
    given = parameters(name, ())
    loc = torch.stack([given.pop("loc")] * 5)
    other = {key: torch.stack([value] * 4).unsqueeze(1) for key, value in given.items()}
    law = build(name, {"loc": loc} | other)
    assert law.batch_shape == (4, 5)
    z, log_q = law.rsample_and_log_prob((2,))
    assert (z.shape, log_q.shape) == ((2, 4, 5, D), (2, 4, 5))
    torch.testing.assert_close(law.log_prob(z), build(name, {"loc": loc[0]} | given).log_prob(z))


# --------------------------------------------------------------------------------------------------------------------
# Gradients
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAWS[:-1])
@dtypes
@pytest.mark.parametrize("c", [0.0, 0.8])
def test_samples_have_gradients_in_every_parameter_and_in_c(name: str, dtype: torch.dtype, c: float) -> None:
    law, leaves = with_gradients(name, dtype, c)
    assert law.has_rsample
    for leaf, grad in zip(leaves, torch.autograd.grad(law.rsample((3,)).square().sum(), leaves), strict=True):
        assert (grad.shape, grad.dtype) == (leaf.shape, dtype)
        assert grad.isfinite().all()
        assert (grad != 0).any()
    assert not law.sample().requires_grad


@pytest.mark.parametrize("name", LAWS[:-1])
def test_samples_and_densities_pass_gradcheck(name: str) -> None:
    names, leaves = list(parameters(name)), with_gradients(name)[1]
    value = make(name).sample((2,)).requires_grad_()

    def draw(*tensors: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        torch.manual_seed(5)
        law = build(name, dict(zip(names, tensors[:-1], strict=True)), tensors[-1], validate_args=False)
        return law.rsample_and_log_prob((2,)) if name in NORMALS else law.rsample((2,))

    def log_prob(value: Tensor, *tensors: Tensor) -> Tensor:
        law = build(name, dict(zip(names, tensors[:-1], strict=True)), tensors[-1], validate_args=False)
        return torch.cat((law.log_prob(value), law.entropy().unsqueeze(0)))

    assert torch.autograd.gradcheck(draw, leaves, atol=1e-6)
    assert torch.autograd.gradcheck(log_prob, [value, *leaves], atol=1e-6)


@normals
@dtypes
@pytest.mark.parametrize("c", [0.0, 0.8])
def test_density_at_the_mean_is_finite_and_has_finite_gradients(name: str, dtype: torch.dtype, c: float) -> None:
    law, leaves = with_gradients(name, dtype, c)
    value = law.mean.detach().clone().requires_grad_()
    log_q = law.log_prob(value)
    assert torch.equal(law.mean, law.mode)
    assert (log_q >= law.log_prob(value + 0.01)).all()
    in_value, *grads = torch.autograd.grad(log_q.sum(), (value, *leaves))
    assert all(grad.isfinite().all() for grad in grads)
    assert in_value.abs().max() < 1e-12  # the density is smooth, and highest here


@normals
@dtypes
def test_the_density_from_the_noise_is_the_density_at_the_point(name: str, dtype: torch.dtype) -> None:
    for c in (0.0, 0.05, 0.8, torch.tensor(1.5, dtype=dtype)):
        law = make(name, dtype=dtype, c=c)
        z, log_q = law.rsample_and_log_prob((200,))
        tolerance = TOLERANCE["noise"][dtype]
        torch.testing.assert_close(log_q, law.log_prob(z), rtol=tolerance, atol=tolerance)


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
    torch.compiler.reset()  # the laws of other tests would count as recompilations
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
    law, given = make(name, dtype=dtype, c=torch.tensor(0.0) if tensor else 0.0), parameters(name, dtype=dtype)
    if name == "wrapped full":
        plain: Distribution = MultivariateNormal(**given)
    else:
        plain = Independent(Normal(given["loc"], given["scale"].expand(4, D)), 1)
    z, log_q = law.rsample_and_log_prob((50,))
    tolerance = TOLERANCE["plane"][dtype]
    for got in (law.log_prob(z), log_q):
        torch.testing.assert_close(got, plain.log_prob(z), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(law.entropy(), plain.entropy(), rtol=tolerance, atol=tolerance)


# --------------------------------------------------------------------------------------------------------------------
# Bad arguments
# --------------------------------------------------------------------------------------------------------------------


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


@laws
@pytest.mark.parametrize("bad", ["nan", "outside", "shape"])
def test_a_bad_value_raises_unless_validation_is_off(name: str, bad: str) -> None:
    law = make(name)
    z = law.sample()
    wrong = {"nan": z * math.nan, "outside": -5 * z, "shape": z[:3]}[bad]
    if bad == "outside" and name in NORMALS:
        return  # the tangent chart is all of ℝᵈ
    with pytest.raises(ValueError, match=r"(?i)value|broadcast"):
        law.log_prob(wrong)
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


@pytest.mark.parametrize("name", NORMALS)
def test_an_empty_batch_has_an_empty_entropy(name: str) -> None:
    assert make(name, batch=(0,), validate_args=False).entropy().shape == (0,)  # torch cannot check no factors
