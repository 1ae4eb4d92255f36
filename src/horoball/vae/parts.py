"""Parts of a model that come from outside: what each has to offer, and how a setting names one.

A part is a class that was registered under a name, a function that makes a module, or the module itself. A class or
function is called with those of the arguments offered that it names, and with settings of its own:

    encoder    features or shape, outputs, d, manifold, generator
    decoder    d, outputs, manifold, generator
    prior      d, manifold, scale, posterior, encoder, generator
    manifold   d, c, learn_c

A registered class with plain settings can be kept: a file has its name and settings, never a module to import, and the
weights. Any other part is used for as long as the program runs.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn
from torch.distributions import Distribution

from horoball.geometry.manifold import MANIFOLDS, Manifold, check_manifold
from horoball.plugins import Registry, called_with, lacking


class Encoder(Protocol):
    """A module from rows to posteriors, or, as the network of `vae.Encoder`, to the numbers that one is made from."""

    def forward(self, x: Tensor) -> Distribution | Tensor:
        """q(z | x), or numbers of shape (*batch, outputs) for the posterior family of the model."""


class Decoder(Protocol):
    """A module from points to the numbers that a likelihood is made from."""

    def forward(self, z: Tensor) -> Tensor:
        """Numbers of shape (*batch, outputs) for points of shape (*batch, d)."""


class Prior(Protocol):
    """A module that gives p(z). One with a method `start_from_rows(rows)` is given rows as the model sees them."""

    @property
    def ball(self) -> Manifold:
        """The space of the points."""

    def forward(self) -> Distribution:
        """p(z), with event shape (d,): a density with respect to the volume of the space, or one of torch's own."""


ENCODERS: Registry[type] = Registry("encoder")
DECODERS: Registry[type] = Registry("decoder")
PRIORS: Registry[type] = Registry("prior")
register_encoder, register_decoder, register_prior = ENCODERS.register, DECODERS.register, PRIORS.register
_REGISTRIES = {"encoder": ENCODERS, "decoder": DECODERS, "prior": PRIORS, "manifold": MANIFOLDS}
_PROTOCOLS = {"encoder": Encoder, "decoder": Decoder, "prior": Prior}


class Parts(NamedTuple):
    """What makes the parts of a model that are no horoball's own and not known by name.

    Example:
        >>> Parts().encoder is None
        True
    """

    encoder: Any = None
    decoder: Any = None
    prior: Any = None
    manifold: Any = None


class GivenPrior(nn.Module):
    """A distribution as a prior: it learns nothing.

    Args:
        distribution: Of vectors; torch's own are taken for distributions of the chart, see `distributions.mixture`.
        ball: The space of the points.

    Example:
        >>> from torch.distributions import MultivariateNormal
        >>> import torch
        >>> from horoball import PoincareBall
        >>> GivenPrior(MultivariateNormal(torch.zeros(2), torch.eye(2)), PoincareBall(1.0))().event_shape
        torch.Size([2])
    """

    def __init__(self, distribution: Distribution, ball: Any) -> None:
        super().__init__()
        self.distribution, self.ball = distribution, ball

    def forward(self) -> Distribution:
        """The distribution."""
        return self.distribution


def check_part(kind: str, part: object) -> None:
    """Refuse what cannot be this part of a model, and say what it lacks.

    Example:
        >>> check_part("prior", nn.Linear(1, 1))
        Traceback (most recent call last):
        ...
        TypeError: A prior (horoball.vae.parts.Prior) needs ball; Linear has none of that name. ...
    """
    if not isinstance(part, nn.Module):
        hint = " Wrap it: horoball.vae.parts.GivenPrior(distribution, ball)." if isinstance(part, Distribution) else ""
        raise TypeError(f"A model's {kind} is an nn.Module, got {type(part).__name__}.{hint}")
    missing = lacking(part, _PROTOCOLS[kind])
    if type(part).forward is nn.Module.forward:
        missing.append("forward")
    if missing:
        raise TypeError(
            f"A{'n' * (kind[0] == 'e')} {kind} (horoball.vae.parts.{kind.capitalize()}) needs {', '.join(missing)}; "
            f"{type(part).__name__} has none of that name. See the page on extending."
        )
    if kind == "prior":
        check_manifold(part.ball)


def named(kind: str, given: Any) -> tuple[str, Any]:
    """What a setting says of a part: its name with settings, for a file, and what makes it, if the name alone does not.

    Args:
        kind: "encoder", "decoder", "prior" or "manifold".
        given: A name, a class or function, one with some arguments bound by `functools.partial`, or a part itself.

    Example:
        >>> named("prior", "mixture")
        ('mixture', None)
        >>> named("encoder", lambda features, outputs: nn.Linear(features, outputs))[0]
        '(from outside)'
    """
    return _REGISTRIES[kind].named(given)


def check_spec(kind: str, spec: str, own: Sequence[str] = ()) -> tuple[type, dict[str, Any]]:
    """The class and the settings that a name stands for, such as 'conv' or 'conv:{"channels": 8}'.

    Args:
        kind: "encoder", "decoder", "prior" or "manifold".
        spec: The name.
        own: Names that it could be as well, for the message.

    Example:
        >>> check_spec("prior", "nothing", ["normal"])
        Traceback (most recent call last):
        ...
        horoball.plugins.UnknownNameError: Unknown prior 'nothing'. Choose one of: normal...
    """
    return _REGISTRIES[kind].settled(spec, own)


def made(kind: str, spec: str, given: Any, **offered: Any) -> Any:
    """The part: by its name, by a function, or itself, as a copy of its own.

    Args:
        kind: "encoder", "decoder", "prior" or "manifold".
        spec: Its name with settings.
        given: What makes it, if the name alone does not.
        offered: Arguments that it may take.

    Example:
        >>> from horoball.plugins import OUTSIDE
        >>> made("decoder", OUTSIDE, lambda d, outputs: nn.Linear(d, outputs), d=2, outputs=5, generator=None)
        Linear(in_features=2, out_features=5, bias=True)
    """
    settings: dict[str, Any] = {}
    if given is None:
        given, settings = check_spec(kind, spec)
    if isinstance(given, nn.Module) or not callable(given):
        part = copy.deepcopy(given)
    else:
        part = called_with(given, offered, settings)
    if isinstance(part, Distribution) and kind == "prior":
        part = GivenPrior(part, offered["manifold"])
    if kind == "manifold":
        check_manifold(part)
    else:
        check_part(kind, part)
    return part
