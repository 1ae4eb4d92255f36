"""Weights that come and go in torch's ways: state dicts, functional calls, the meta device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad

from horoball.geometry.random import generator_for
from horoball.graphs import GraphConfig, GraphVAE
from horoball.storage.checkpoint import check_weights, model_tensors
from horoball.training import elbo, log_likelihood
from horoball.vae import VAE, ModelConfig

SMALL = {"features": 4, "hidden": (8,)}
X = torch.randn(5, 4, generator=generator_for(0))


def made(**config: Any) -> VAE:
    return VAE.from_config(ModelConfig(**(SMALL | config)), generator=generator_for(1))


def bound(model: VAE, x: Tensor = X) -> Tensor:
    return elbo(model, x, generator=generator_for(2)).value.detach()


# --- state dicts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        ({"prior_scale": 1.7}, {}, r"prior of scale 1\.7, this one has 1\. Make it with prior_scale=1\.7"),
        ({"posterior": "wrapped"}, {}, r"posterior 'wrapped', this model has 'riemannian'.*posterior='wrapped'"),
        ({}, {"c": 0.5}, r"ball with c = 1, this one has c = 0\.5"),
        ({"prior_scale": 1.7}, {"learn_prior": True}, r"Missing key.*log_scale"),
    ],
)
def test_weights_of_another_prior_or_posterior_are_refused(
    one: dict[str, Any], other: dict[str, Any], says: str
) -> None:
    with pytest.raises(RuntimeError, match=says):
        made(**other).load_state_dict(made(**one).state_dict())
    assert made(**one).load_state_dict(made(**one).state_dict()).missing_keys == []


def test_an_encoder_alone_refuses_the_weights_of_another_posterior() -> None:
    with pytest.raises(RuntimeError, match=r"posterior 'wrapped', this model has 'riemannian'"):
        made().encoder.load_state_dict(made(posterior="wrapped").encoder.state_dict())


def test_a_graph_model_refuses_the_weights_of_another_prior() -> None:
    model = GraphVAE.from_config(GraphConfig(nodes=4, prior_scale=2.0))
    with pytest.raises(RuntimeError, match=r"prior of scale 2, this one has 1"):
        GraphVAE.from_config(GraphConfig(nodes=4)).load_state_dict(model.state_dict())


def test_weights_of_version_0_1_do_not_name_their_prior_and_are_taken() -> None:
    model = made(posterior="wrapped", prior_scale=1.7)
    old = {name: held for name, held in model.state_dict().items() if not name.endswith(("family", "fixed_scale"))}
    assert len(old) == len(model.state_dict()) - 3
    made(posterior="wrapped", prior_scale=1.7).load_state_dict(old)
    assert check_weights({f"model.{name}": held for name, held in old.items()}, model).keys() == old.keys()
    with pytest.raises(ValueError, match=r"it lacks decoder\.network\.0\.bias"):
        check_weights({name: held for name, held in model_tensors(model).items() if "0.bias" not in name}, model)


# --- the meta device --------------------------------------------------------------------------------------------------

KINDS = {
    "normal": {"prior_scale": 1.3},
    "learned": {"learn_c": True, "learn_prior": True, "posterior": "wrapped"},
    "ordinal": {"likelihood": "ordinal", "classes": 3},
    "circular": {"likelihood": "circular", "classes": 12},
    "mixed": {"likelihood": "mixed", "columns": "normal,bernoulli,circular:12,ordinal:3"},
}


@pytest.mark.parametrize("name", KINDS)
def test_a_model_from_the_meta_device_is_the_one_its_weights_came_from(name: str) -> None:
    model, x = made(**KINDS[name]), X.abs().round().clamp_max(1.0)
    with torch.device("meta"):
        empty = made(**KINDS[name])
    empty.to_empty(device="cpu")
    for buffer in empty.buffers():
        assert bool(buffer.isfinite().all())
    empty.load_state_dict(model.state_dict())
    for one, two in zip(model.buffers(), empty.buffers(), strict=True):
        assert torch.equal(one, two)
        assert one.dtype == two.dtype
    assert torch.equal(bound(empty, x), bound(model, x))
    assert [n for n, _ in empty.named_parameters()] == [n for n, _ in model.named_parameters()]  # one c, not four


def test_constants_keep_their_precision_and_move_with_the_model() -> None:
    with torch.device("meta"):
        empty = made(prior_scale=1.7).double()
    assert float(empty.to_empty(device="cpu").prior.fixed_scale) == float(torch.tensor(1.7))
    assert made(prior_scale=1.7).double().prior().scale.dtype == torch.float64


# --- functional calls -------------------------------------------------------------------------------------------------


class Loss(torch.nn.Module):
    """The loss of a model, as a module that can be called with other weights."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return -elbo(self.model, x, generator=generator_for(2)).value.mean()  # type: ignore[arg-type]


def weights_of(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.named_parameters()}


@pytest.mark.parametrize("posterior", ["wrapped", "riemannian"])
def test_a_functional_call_learns_c_and_leaves_the_parameter_behind(posterior: str) -> None:
    loss = Loss(made(learn_c=True, posterior=posterior))
    before = dict(loss.named_parameters(remove_duplicate=False))
    weights = weights_of(loss)
    raw = "model.encoder.ball.raw_c"
    assert [name for name in weights if name.endswith("raw_c")] == [raw]
    held = {name: value.clone().requires_grad_() for name, value in weights.items()}
    got = torch.autograd.grad(functional_call(loss, held, (X,)), list(held.values()))
    expected = torch.autograd.grad(loss(X), list(dict(loss.named_parameters()).values()))
    for one, two in zip(got, expected, strict=True):
        torch.testing.assert_close(one, two)
    after = dict(loss.named_parameters(remove_duplicate=False))
    assert all(after[name] is value for name, value in before.items())
    other = functional_call(loss, weights | {raw: torch.tensor(2.0)}, (X,))
    assert not torch.equal(other, loss(X))
    changed = copy.deepcopy(loss)
    with torch.no_grad():
        changed.model.ball.raw_c.fill_(2.0)  # type: ignore[union-attr, operator]
    assert torch.equal(other, changed(X))


def test_a_gradient_of_torch_func_finds_c_by_every_path() -> None:
    loss = Loss(made(learn_c=True, posterior="wrapped"))
    weights = weights_of(loss)
    found = grad(lambda held: functional_call(loss, held, (X,)))(weights)
    expected = torch.autograd.grad(loss(X), list(dict(loss.named_parameters()).values()))
    for one, two in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    assert all(isinstance(value, torch.nn.Parameter) for value in loss.parameters())


def test_two_values_for_one_c_are_refused() -> None:
    model = made(learn_c=True)
    held = {name: value.detach().clone() for name, value in model.named_parameters(remove_duplicate=False)}
    with pytest.raises(ValueError, match="multiple values"):
        functional_call(model, held, (X,))


@pytest.mark.parametrize("posterior", ["wrapped", "riemannian"])
def test_a_posterior_that_leaves_a_functional_call_keeps_its_c(posterior: str) -> None:
    encoder = made(learn_c=True, posterior=posterior).encoder
    c = torch.tensor(2.0, requires_grad=True)
    q = functional_call(encoder, weights_of(encoder) | {"ball.raw_c": c}, (X,))
    expected = float(torch.nn.functional.softplus(c.detach()))
    assert q.ball.c_value == pytest.approx(expected)
    assert encoder.ball.c_value == pytest.approx(1.0)
    z, log_q = q.rsample_and_log_prob((3,), generator_for(0))
    torch.testing.assert_close(q.log_prob(z), log_q, rtol=1e-3, atol=1e-3)
    assert float(torch.autograd.grad(log_q.sum(), c)[0]) != 0


def test_buffers_of_a_functional_call_are_not_kept_by_the_prior() -> None:
    model = made()
    expected = bound(model)
    held = dict(model.named_buffers()) | {"prior.fixed_scale": torch.tensor([3.0])}
    other = functional_call(Loss(model), {f"model.{name}": value for name, value in held.items()}, (X,))
    assert not torch.equal(other, -expected.mean())
    assert torch.equal(bound(model), expected)
    assert float(model.prior().scale) == 1.0


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.double().float(),
        copy.deepcopy,
        lambda model: model.to_empty(device="meta").to_empty(device="cpu"),
        lambda model: model if model.load_state_dict(made(learn_c=True, c=0.3).state_dict(), assign=True) else None,
    ],
    ids=["precision", "copy", "to_empty", "assign"],
)
def test_parts_share_one_c_whatever_is_done_to_the_model(change: Callable[[VAE], VAE]) -> None:
    model = change(made(learn_c=True))
    parameters = {id(value) for name, value in model.named_parameters(remove_duplicate=False) if "raw_c" in name}
    assert len(parameters) == 1
    model.load_state_dict(made(learn_c=True, c=0.4).state_dict())
    assert model.encoder.ball.c_value == model.prior.ball.c_value == model.decoder.ball.c_value
    assert bool(log_likelihood(model, X, 5, generator=generator_for(0)).isfinite().all())
