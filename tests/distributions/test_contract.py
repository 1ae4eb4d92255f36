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
    dtypes,
    laws,
    make,
    normals,
    parameters,
    with_gradients,
)

pytestmark = pytest.mark.usefixtures("seed")


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


@normals
def test_an_empty_batch_has_an_empty_entropy(name: str) -> None:
    assert make(name, batch=(0,), validate_args=False).entropy().shape == (0,)  # torch cannot check no factors
