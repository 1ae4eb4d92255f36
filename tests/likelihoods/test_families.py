from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from horoball.likelihoods import (
    LIKELIHOODS,
    Bernoulli,
    Categorical,
    Circular,
    Likelihood,
    LogNormal,
    Mixed,
    NegativeBinomial,
    Normal,
    Ordinal,
    Poisson,
    VonMisesFisher,
    ZeroInflatedGamma,
    ZeroInflatedNegativeBinomial,
    make_likelihood,
)
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.vae.train import train

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}  # relative
FEATURES = 3
TWO = ("bernoulli", "categorical", "ordinal", "circular")  # which have two values here

dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
names = pytest.mark.parametrize("name", list(LIKELIHOODS))


def outputs(size: int = FEATURES, dtype: torch.dtype = torch.float64) -> Tensor:
    return 2 * torch.randn(4, 5, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


def values(name: str, dtype: torch.dtype = torch.float64) -> Tensor:
    draw = torch.Generator().manual_seed(1)
    if name in ("normal", "mixed", "log_normal", "von_mises_fisher"):
        drawn = torch.randn(4, 5, FEATURES, generator=draw, dtype=dtype)
        return drawn.exp() if name == "log_normal" else drawn
    high = 2 if name in TWO else 9
    return torch.randint(high, (4, 5, FEATURES), generator=draw).to(dtype)


def truth(likelihood: Likelihood, h: Tensor, x: Tensor) -> np.ndarray:
    """log p(x | h) by scipy, in float64."""
    h, x = h.double().numpy(), x.double().numpy()
    mean = np.logaddexp(0.0, h) + 1e-8  # the floor of a rate
    if isinstance(likelihood, Mixed):
        return truth(likelihood.parts[0], torch.from_numpy(h), torch.from_numpy(x))
    if isinstance(likelihood, VonMisesFisher):
        kappa = np.linalg.norm(h, axis=-1)
        unit = x / np.linalg.norm(x, axis=-1, keepdims=True)
        return (h * unit).sum(-1) - kappa + np.log(kappa / (2 * np.pi * -np.expm1(-2 * kappa)))  # in three dimensions
    if isinstance(likelihood, LogNormal):
        scale = likelihood.log_scale.detach().double().exp().numpy() + 0.01  # the floor
        each = scipy.stats.norm.logpdf(np.log(x), h, scale) - np.log(x)
    elif isinstance(likelihood, Ordinal):
        theta = likelihood.first.detach().double().numpy()
        each = scipy.special.log_expit(np.where(x == 0, theta - h, h - theta))
    elif isinstance(likelihood, Circular):
        u = h.reshape(*x.shape, 2)[..., 0]  # on a circle of two points the sines are 0
        each = scipy.special.log_expit(np.where(x == 0, 2 * u, -2 * u))
    elif isinstance(likelihood, Normal):
        scale = (
            1.0 if likelihood.log_scale is None else likelihood.log_scale.detach().double().exp().numpy() + 0.01
        )  # the floor
        each = scipy.stats.norm.logpdf(x, h, scale)
    elif isinstance(likelihood, Bernoulli):
        each = x * scipy.special.log_expit(h) + (1 - x) * scipy.special.log_expit(-h)
    elif isinstance(likelihood, Poisson):
        each = scipy.stats.poisson.logpmf(x, mean)
    elif isinstance(likelihood, ZeroInflatedNegativeBinomial):
        extra, mean = h[..., FEATURES:], mean[..., :FEATURES]
        r = likelihood.log_dispersion.detach().double().exp().numpy()
        kept = scipy.special.log_expit(-extra)
        if isinstance(likelihood, ZeroInflatedGamma):
            zero, base = -np.inf, scipy.stats.gamma.logpdf(np.where(x > 0, x, 1.0), r, scale=mean / r)
        else:
            zero, base = (
                scipy.stats.nbinom.logpmf(0, r, r / (r + mean)),
                scipy.stats.nbinom.logpmf(x, r, r / (r + mean)),
            )
        each = np.where(x > 0, kept + base, np.logaddexp(scipy.special.log_expit(extra), kept + zero))
    elif isinstance(likelihood, NegativeBinomial):
        r = likelihood.log_dispersion.detach().double().exp().numpy()
        each = scipy.stats.nbinom.logpmf(x, r, r / (r + mean))
    else:
        logits = scipy.special.log_softmax(h.reshape(*x.shape, likelihood.classes), -1)
        each = np.take_along_axis(logits, x[..., None].astype(int), -1)[..., 0]
    return each.sum(-1)


@dtypes
@names
def test_log_prob_is_that_of_scipy(name: str, dtype: torch.dtype) -> None:
    likelihood = make_likelihood(name, FEATURES).to(dtype)
    with torch.no_grad():
        for parameter in likelihood.parameters():
            parameter.copy_(torch.tensor([-1.0, 0.0, 2.0]))
    h, x = outputs(likelihood.outputs, dtype), values(name, dtype)
    law = likelihood(h)
    assert law.batch_shape == (4, 5)
    assert law.event_shape == (FEATURES,)
    log_prob = law.log_prob(x).detach()
    assert log_prob.dtype == dtype
    np.testing.assert_allclose(log_prob.double().numpy(), truth(likelihood, h, x), rtol=TOLERANCE[dtype])
    assert law.sample((7,)).shape == (7, 4, 5, FEATURES)


def test_a_normal_learns_its_scales() -> None:
    likelihood = Normal(FEATURES, learn_scale=True).double()
    h, x = outputs(), values("normal")
    torch.testing.assert_close(likelihood(h).log_prob(x), Normal(FEATURES)(h).log_prob(x), rtol=1e-6, atol=0)
    with torch.no_grad():
        likelihood.log_scale.copy_(torch.tensor([-1.0, 0.5, 2.0]))
    np.testing.assert_allclose(likelihood(h).log_prob(x).detach().numpy(), truth(likelihood, h, x), rtol=1e-12)
    assert not list(Normal(FEATURES).parameters())


@dtypes
def test_gray_values_are_taken_by_the_cross_entropy(dtype: torch.dtype) -> None:
    h = outputs(dtype=dtype)
    x = torch.rand(h.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(dtype)
    expected = -torch.nn.functional.binary_cross_entropy_with_logits(h, x, reduction="none").sum(-1)
    torch.testing.assert_close(Bernoulli(FEATURES)(h).log_prob(x), expected, rtol=TOLERANCE[dtype], atol=0)
    np.testing.assert_allclose(expected.double().numpy(), truth(Bernoulli(FEATURES), h, x), rtol=TOLERANCE[dtype])


def test_the_cross_entropy_has_the_right_gradients_and_broadcasts() -> None:
    h, x = outputs(), torch.rand(5, FEATURES, dtype=torch.float64)
    assert h.shape[1:] == x.shape
    for part in (h, h[0]):  # samples of each observation, and one
        inputs = (part.clone().requires_grad_(), x.clone().requires_grad_())
        assert torch.autograd.gradcheck(lambda h, x: Bernoulli(FEATURES)(h).log_prob(x), inputs)
    many = outputs().repeat(1000, 1, 1)  # more than one chunk
    assert torch.equal(Bernoulli(FEATURES)(many).log_prob(x), Bernoulli(FEATURES)(h).log_prob(x).repeat(1000, 1))
    extreme = torch.tensor([[-1e4, -40.0, 40.0], [1e4, 0.0, -700.0]], dtype=torch.float64)
    sure = Bernoulli(FEATURES)(extreme).log_prob(torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.5, 0.0]], dtype=torch.float64))
    np.testing.assert_allclose(sure.numpy(), [-2 * np.log1p(np.exp(-40)), -np.log(2)], rtol=1e-14)


def test_the_counts_have_the_moments_they_promise() -> None:
    likelihood = NegativeBinomial(FEATURES).double()
    with torch.no_grad():
        likelihood.log_dispersion.copy_(torch.tensor([-1.0, 0.0, 2.0]))
        law, r = likelihood(outputs()), likelihood.log_dispersion.exp()
    mean = torch.nn.functional.softplus(outputs())
    assert torch.allclose(law.mean, mean, rtol=1e-6)
    assert torch.allclose(law.variance, mean + mean.square() / r, rtol=1e-6)
    assert torch.allclose(Poisson(FEATURES)(outputs()).mean, mean, rtol=1e-6)


@dtypes
@pytest.mark.parametrize("name", ["normal", "bernoulli", "poisson", "negative_binomial"])
def test_the_start_is_the_mean_of_the_data(name: str, dtype: torch.dtype) -> None:
    mean = torch.tensor([0.001, 0.3, 0.99] if name == "bernoulli" else [0.001, 1.0, 500.0], dtype=dtype)
    likelihood = make_likelihood(name, FEATURES).to(dtype)
    start = likelihood.start_at(mean)
    assert start.shape == (likelihood.outputs,)
    assert torch.allclose(likelihood(start).mean.detach(), mean, rtol=2e-5)


@names
def test_the_start_is_finite_where_a_feature_is_always_zero_or_always_one(name: str) -> None:
    likelihood = make_likelihood(name, 2)
    start = likelihood.start_at(torch.tensor([0.0, 1.0]))
    x = torch.tensor([0.25, 0.75] if name == "log_normal" else [0.0, 1.0])
    assert bool(start.isfinite().all())
    assert bool(likelihood(start).log_prob(x).isfinite())
    assert bool(likelihood(start).log_prob(1 - x).isfinite())


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_categories_have_their_own_logits(classes: int) -> None:
    likelihood = Categorical(FEATURES, classes)
    assert likelihood.outputs == FEATURES * classes
    h = outputs(likelihood.outputs)
    law = likelihood(h)
    assert law.batch_shape == (4, 5)
    assert law.sample().shape == (4, 5, FEATURES)
    assert int(law.sample((50,)).max()) < classes
    x = torch.tensor([0, 1, classes - 1])
    logits = h.reshape(4, 5, FEATURES, classes).log_softmax(-1)
    assert torch.allclose(law.log_prob(x), sum(logits[..., i, int(c)] for i, c in enumerate(x)))
    assert torch.equal(law.log_prob(x), law.log_prob(x.float()))  # rows of a table are float32
    start = likelihood.start_at(torch.zeros(FEATURES))
    assert torch.allclose(likelihood(start).base_dist.probs, torch.tensor(1 / classes))


@dtypes
@names
def test_gradients_are_finite_at_extreme_outputs(name: str, dtype: torch.dtype) -> None:
    likelihood = make_likelihood(name, FEATURES).to(dtype)
    corners = torch.cartesian_prod(*[torch.tensor([-80.0, 0.0, 80.0], dtype=dtype)] * FEATURES)
    h = corners.repeat_interleave(likelihood.outputs // FEATURES, -1)
    h = (h * torch.tensor([1.0, -1.0]).repeat(FEATURES) if h.shape[1] > FEATURES else h).requires_grad_()
    zero = 1e-3 if name == "log_normal" else 0.0
    for x in ([zero, zero, zero], [1.0, 1.0, 1.0], [zero, 1.0, 1.0 if name in TWO else 1000.0]):
        log_prob = likelihood(h).log_prob(torch.tensor(x, dtype=dtype).expand(len(h), -1))
        assert bool(log_prob.isfinite().all())
        for gradient in torch.autograd.grad(log_prob.sum(), [h, *likelihood.parameters()]):
            assert bool(gradient.isfinite().all())


def test_a_count_that_the_model_rules_out_still_pulls_at_the_output() -> None:
    for likelihood in (Poisson(1), NegativeBinomial(1)):
        h = torch.tensor([-12.0], requires_grad=True)
        (gradient,) = torch.autograd.grad(likelihood(h).log_prob(torch.tensor([5.0])), h)
        assert float(gradient) > 1


@dtypes
def test_counts_of_a_library_have_its_shares_as_means(dtype: torch.dtype) -> None:
    likelihood = NegativeBinomial(FEATURES, library=True).to(dtype)
    with torch.no_grad():
        likelihood.log_dispersion.copy_(torch.tensor([-1.0, 0.0, 2.0]))
    h, x = outputs(dtype=dtype), values("negative_binomial", dtype)
    library = x.sum(-1)
    law = likelihood(h, library)
    assert torch.allclose(law.mean.sum(-1), library)
    r = likelihood.log_dispersion.detach().double().exp().numpy()
    mean = library.double().numpy()[..., None] * scipy.special.softmax(h.double().numpy(), -1)
    expected = scipy.stats.nbinom.logpmf(x.double().numpy(), r, r / (r + mean)).sum(-1)
    got = law.log_prob(x).detach()
    assert got.dtype == dtype
    np.testing.assert_allclose(got.double().numpy(), expected, rtol=2e-5 if dtype == torch.float32 else 1e-7)
    several = likelihood(h.expand(6, *h.shape), library).log_prob(x)  # points of each row
    assert torch.equal(several, got.expand(6, *got.shape))


@dtypes
def test_a_row_without_counts_is_certain_and_has_finite_gradients(dtype: torch.dtype) -> None:
    likelihood = NegativeBinomial(FEATURES, library=True).to(dtype)
    h = torch.cartesian_prod(*[torch.tensor([-300.0, 0.0, 300.0], dtype=dtype)] * FEATURES).requires_grad_()
    for x in ([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0**23, 0.0, 5.0]):
        counts = torch.tensor(x, dtype=dtype).expand(len(h), -1)
        log_prob = likelihood(h, counts.sum(-1)).log_prob(counts)
        assert bool(log_prob.isfinite().all())
        for gradient in torch.autograd.grad(log_prob.sum(), [h, *likelihood.parameters()]):
            assert bool(gradient.isfinite().all())
        assert any(x) or float(log_prob.detach().abs().max()) < 1e-7


def test_the_start_of_a_library_is_the_shares_of_the_data() -> None:
    likelihood = NegativeBinomial(FEATURES, library=True)
    mean = torch.tensor([0.0, 1.0, 7.0])
    assert torch.allclose(likelihood(likelihood.start_at(mean), torch.tensor(80.0)).mean, 10 * mean, atol=0.01)
    assert bool(likelihood.start_at(torch.zeros(FEATURES)).isfinite().all())


def test_a_library_is_asked_for_where_it_is_needed_and_refused_where_it_is_not() -> None:
    with pytest.raises(ValueError, match="pass library="):
        NegativeBinomial(FEATURES, library=True)(outputs())
    with pytest.raises(ValueError, match="make it with library=True"):
        NegativeBinomial(FEATURES)(outputs(), torch.ones(4, 5))


@names
def test_a_likelihood_is_made_by_its_name_and_kept_in_a_state(name: str) -> None:
    likelihood = make_likelihood(name, FEATURES)
    assert type(likelihood) is LIKELIHOODS[name]
    assert (likelihood.name, likelihood.features) == (name, FEATURES)
    again = make_likelihood(name, FEATURES)
    again.load_state_dict(likelihood.state_dict())


def test_unknown_names_and_too_few_classes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Unknown likelihood 'gauss'\. Choose one of: normal, bernoulli"):
        make_likelihood("gauss", 3)
    with pytest.raises(ValueError, match="at least 2 classes, got 1"):
        make_likelihood("categorical", 3, classes=1)


def test_categories_beyond_the_classes_that_are_given_are_refused() -> None:
    table = ArrayTable(torch.arange(12.0).reshape(6, 2) % 6)
    with pytest.raises(ValueError, match="holds the category 5, but there are 3 classes: 0 to 2"):
        train(table, {"likelihood": "categorical", "classes": 3, "hidden": (8,)}, TrainConfig(max_epochs=1))


def test_large_counts_do_not_cancel_in_float32() -> None:
    rate = torch.tensor([1e3, 1e5, 1e6])
    x = rate + torch.tensor([30.0, -100.0, 2000.0])
    law = Poisson(3)(rate)  # softplus(h) is h there
    expected = scipy.stats.poisson.logpmf(x.double().numpy(), law.mean.double().numpy()).sum()
    torch.testing.assert_close(law.log_prob(x), torch.tensor(expected).float(), rtol=1e-6, atol=0)


@names
def test_no_rows_have_no_likelihoods(name: str) -> None:
    likelihood = make_likelihood(name, FEATURES)
    for shape in ((0,), (4, 0), (0, 5)):
        law = likelihood(torch.zeros(*shape, likelihood.outputs))
        assert law.log_prob(torch.zeros(shape[-1], FEATURES)).shape == shape


def test_directions_start_at_their_mean_and_rows_without_one_are_refused() -> None:
    likelihood = VonMisesFisher(FEATURES)
    x = torch.nn.functional.normalize(torch.randn(500, FEATURES) + torch.tensor([2.0, 0.0, 0.0]), dim=-1)
    likelihood.start_from(x.std(0))
    law = likelihood(likelihood.start_at(x.mean(0)))
    torch.testing.assert_close(law.mean, x.mean(0), rtol=0.05, atol=0.02)
    with pytest.raises(ValueError, match="Row 1 holds 0, but the model is one of vectors with a direction"):
        likelihood.check_rows(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    config = TrainConfig(max_epochs=1)
    table = ArrayTable(torch.cat((x, torch.zeros(1, FEATURES))))
    with pytest.raises(ValueError, match="1 rows are all 0, and have no direction"):
        train(table, {"likelihood": "von_mises_fisher", "hidden": (8,)}, config)
    run = train(ArrayTable(x), {"likelihood": "von_mises_fisher", "hidden": (8,)}, config)
    far = ArrayTable(1000 * x)  # a row's length does not matter
    torch.testing.assert_close(next(run.embed(far)), next(run.embed(ArrayTable(x))), rtol=1e-4, atol=1e-5)


def test_columns_that_hardly_vary_do_not_outweigh_the_others() -> None:
    x = np.random.default_rng(0).normal(size=(300, 3)) @ np.random.default_rng(1).normal(size=(3, 20))

    def unexplained(columns: np.ndarray) -> float:
        table = ArrayTable(np.concatenate((x, columns), 1))
        run = train(table, {"hidden": (50,)}, TrainConfig(max_epochs=20, validation=0.0))
        with torch.no_grad():
            mean = torch.cat([run.model.mean(run.model.embed(block)) for block in run.blocks(table)])
        rest = run.unscaled(mean)[:, :20].double().numpy() - x
        return float((rest**2).mean() / x.var(0).mean())

    alone = unexplained(np.empty((300, 0)))
    assert alone < 0.8
    for spread in (0.0, 0.005):
        noise = spread * np.random.default_rng(2).normal(size=(300, 10))
        assert unexplained(3.3 + noise) < alone + 0.1


def test_levels_have_the_probabilities_and_gradients_of_torchs_categorical() -> None:
    h = torch.randn(4, 6, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    x = torch.randint(0, 5, (6, 2), generator=torch.Generator().manual_seed(1))
    mine: Tensor = Categorical(2, classes=5)(h).log_prob(x.double())
    expected = torch.distributions.Categorical(logits=h.unflatten(-1, (2, 5))).log_prob(x).sum(-1)
    torch.testing.assert_close(mine, expected)
    gradients = (torch.autograd.grad(value.square().sum(), h, retain_graph=True)[0] for value in (mine, expected))
    torch.testing.assert_close(*gradients)
    assert Categorical(2, classes=5)(h).expand((3, 4, 6)).log_prob(x.double()).shape == (3, 4, 6)
