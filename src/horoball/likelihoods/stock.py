"""Distributions of torch as likelihoods: independent features, each with parameters of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, transform_to

from horoball.distributions.base import Features
from horoball.likelihoods.likelihood import LIKELIHOODS, Likelihood


def from_torch(name: str, family: type[Distribution], **fixed: float | None) -> type[Likelihood]:
    """Register a distribution of torch as a likelihood of independent features.

    The decoder emits one number for each parameter that is not fixed, which is brought to where the parameter may be by
    `torch.distributions.transform_to`: an exponential for what is positive.

    Args:
        name: The name that models find it under.
        family: A class of `torch.distributions`, of numbers.
        fixed: Parameters that are not learned; of two ways to say the same, such as probs and logits, one has to be
            left out by name with `None`.

    Example:
        >>> import torch
        >>> from torch.distributions import StudentT
        >>> Heavy = from_torch("student_t4", StudentT, df=4.0)
        >>> Heavy(3)(torch.zeros(5, Heavy(3).outputs)).log_prob(torch.zeros(5, 3)).shape
        torch.Size([5])
    """
    domains: dict[str, Any] = dict(getattr(family, "arg_constraints", {}))
    unknown = sorted(fixed.keys() - domains.keys())
    if unknown or not domains:
        raise ValueError(
            f"{family.__name__} has the parameters {', '.join(domains) or 'none'}, not {', '.join(unknown)}."
        )
    learned = {parameter: domain for parameter, domain in domains.items() if parameter not in fixed}
    given = {parameter: value for parameter, value in fixed.items() if value is not None}
    if {"probs", "logits"} <= learned.keys():
        raise ValueError(f"{family.__name__} takes probs or logits. Leave one out: {name!r}, ..., probs=None.")
    make: Any = family
    real = getattr(family, "support", constraints.real) is constraints.real

    class Stock(Likelihood):
        standardizes = real

        @property
        def outputs(self) -> int:
            return self.features * len(learned)

        def forward(self, h: Tensor) -> Distribution:
            parts = h.split(self.features, -1)
            found = {
                key: transform_to(domain)(part) for (key, domain), part in zip(learned.items(), parts, strict=True)
            }
            return Features(make(**given, **found, validate_args=False), 1, validate_args=False)

        def start_at(self, mean: Tensor) -> Tensor:
            at = {key: mean if real and key == "loc" else torch.zeros_like(mean) for key in learned}
            return torch.cat(list(at.values()))

        def impossible(self, x: Tensor, *, whole: bool = False) -> Tensor:
            support: Any = getattr(family, "support", None)
            outside = super().impossible(x, whole=whole)
            return outside if support is None or support.is_discrete else outside | ~support.check(x)

    Stock.name, Stock.__name__, Stock.__qualname__ = name, f"{family.__name__}Features", f"{family.__name__}:{name}"
    return LIKELIHOODS.register(Stock)
