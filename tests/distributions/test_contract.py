"""What every distribution of the package does, whatever its density: torch's contract of shapes and types."""

from __future__ import annotations

import pytest
import torch

from tests.distributions.named import (
    DTYPES,
    NORMALS,
    D,
    Shape,
    build,
    distributions,
    dtypes,
    make,
    normals,
    parameters,
    with_gradients,
)

pytestmark = pytest.mark.usefixtures("seed")


@distributions
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)], ids=str)
@pytest.mark.parametrize("sample", [(), (5,), (2, 3), (0,)], ids=str)
def test_shapes_are_sample_then_batch_then_event(name: str, batch: Shape, sample: Shape) -> None:
    # torch cannot validate an empty vector
    distribution = make(name, batch, validate_args=0 not in sample)
    event = () if name == "radius" else (D,)
    assert (distribution.batch_shape, distribution.event_shape) == (batch, event)
    for z in (distribution.sample(sample), distribution.rsample(sample)):
        assert z.shape == sample + batch + event
        assert distribution.log_prob(z).shape == sample + batch
        assert 0 in sample or distribution.support.check(z).all()
    if name in NORMALS:
        z, log_q = distribution.rsample_and_log_prob(sample)
        assert (z.shape, log_q.shape) == (sample + batch + event, sample + batch)
    assert distribution.mean.shape == batch + event
    assert distribution.entropy().shape == batch


@distributions
@dtypes
def test_dtype_and_device_follow_the_parameters(name: str, dtype: torch.dtype) -> None:
    for kind in DTYPES:  # of c, which does not matter
        distribution = make(name, dtype=dtype, **({} if name == "direction" else {"c": torch.tensor(0.8, dtype=kind)}))
        z = distribution.rsample((2,))
        answers = [z, distribution.sample(), distribution.log_prob(z), distribution.entropy(), distribution.mean]
        answers += distribution.rsample_and_log_prob() if name in NORMALS else ()
        answers += (
            [distribution.cdf(z), distribution.icdf(distribution.cdf(z)), distribution.variance, distribution.stddev]
            if name == "radius"
            else ()
        )
        for answer in answers:
            assert (answer.dtype, answer.device) == (dtype, torch.device("cpu"))


@distributions
def test_the_same_seed_gives_the_same_samples_and_one_batch_different_ones(name: str) -> None:
    distribution, samples = make(name), []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        samples.append(distribution.sample((2,)))
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


@distributions
@pytest.mark.parametrize("batch", [(4,), (1, 4), (5, 2, 4)], ids=str)
def test_expand_repeats_the_law_and_repr_names_it(name: str, batch: Shape) -> None:
    distribution = make(name)
    new = distribution.expand(torch.Size(batch))
    assert type(new) is type(distribution)
    assert (new.batch_shape, new.event_shape) == (batch, distribution.event_shape)
    for key, value in parameters(name).items():
        assert torch.equal(getattr(new, key), value.expand(*batch, *value.shape[1:]))
    z = distribution.sample((7, *batch[:-1]))
    assert new.sample((7,)).shape == z.shape
    assert torch.equal(new.log_prob(z), distribution.log_prob(z))
    assert torch.equal(new.entropy(), distribution.entropy().expand(batch))
    again = new.expand((2, *batch))
    assert torch.equal(again.log_prob(z[:2].expand(2, *z.shape[1:])), distribution.log_prob(z[:2]))
    for each in (distribution, new, make(name, ())):
        assert repr(each).startswith(type(distribution).__name__)
        assert all(key in repr(each) for key in parameters(name))


@distributions
def test_expand_keeps_gradients_and_the_choice_of_validation(name: str) -> None:
    assert not make(name, validate_args=False).expand((2, 4))._validate_args
    assert make(name, validate_args=True).expand((2, 4))._validate_args
    if name != "direction":
        distribution, leaves = with_gradients(name)
        grads = torch.autograd.grad(distribution.expand((2, 4)).rsample().square().sum(), leaves)
        assert all((grad != 0).all() for grad in grads if grad.dim() < 3)


@normals
def test_parameters_of_different_batches_broadcast(name: str) -> None:
    given = parameters(name, ())
    loc = torch.stack([given.pop("loc")] * 5)
    other = {key: torch.stack([value] * 4).unsqueeze(1) for key, value in given.items()}
    distribution = build(name, {"loc": loc} | other)
    assert distribution.batch_shape == (4, 5)
    z, log_q = distribution.rsample_and_log_prob((2,))
    assert (z.shape, log_q.shape) == ((2, 4, 5, D), (2, 4, 5))
    torch.testing.assert_close(distribution.log_prob(z), build(name, {"loc": loc[0]} | given).log_prob(z))


@normals
def test_an_empty_batch_has_an_empty_entropy(name: str) -> None:
    assert make(name, batch=(0,), validate_args=False).entropy().shape == (0,)  # torch cannot check no factors
