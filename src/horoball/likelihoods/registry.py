"""Likelihoods by name, and the one that suits a table."""

from __future__ import annotations

from typing import Any

from horoball.data.tables.standardizer import Summary
from horoball.likelihoods.likelihood import Likelihood
from horoball.runtime.registry import Registry

__all__ = ["LIKELIHOODS", "guess_likelihood", "make_likelihood", "register_likelihood"]

LIKELIHOODS: Registry[type[Likelihood]] = Registry("likelihood")
register_likelihood = LIKELIHOODS.register  # a class decorator: models find the likelihood under its `name`


def make_likelihood(name: str, features: int, **options: Any) -> Likelihood:
    """A likelihood by its name.

    Example:
        >>> make_likelihood("poisson", 3).features
        3
    """
    return LIKELIHOODS[name](features, **options)


def guess_likelihood(summary: Summary) -> tuple[str, str]:
    """The likelihood that "auto" chooses for a table, and why: the one of lowest `preference` that suits.

    Example:
        >>> from horoball.data.tables.array_table import ArrayTable
        >>> from horoball.data.tables.standardizer import summarize
        >>> guess_likelihood(summarize(ArrayTable([[0.0, 1.0], [1.0, 0.0]])))
        ('bernoulli', 'all values lie in [0, 1]')
    """
    kinds = sorted((LIKELIHOODS[name] for name in LIKELIHOODS), key=lambda kind: (kind.preference, kind.name))
    return next((kind.name, why) for kind in kinds if (why := kind.suits(summary)) is not None)
