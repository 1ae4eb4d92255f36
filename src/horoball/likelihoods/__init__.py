"""Likelihoods p(x | z): the distribution of a row given the decoder's output. Each class owns all that is its own."""

from horoball.likelihoods.continuous import LogNormal, Normal, VonMisesFisher
from horoball.likelihoods.counts import NegativeBinomial, Poisson, ZeroInflatedGamma, ZeroInflatedNegativeBinomial
from horoball.likelihoods.discrete import Bernoulli, Categorical, Circular, Ordinal
from horoball.likelihoods.likelihood import (
    LIKELIHOODS,
    Likelihood,
    guess_likelihood,
    make_likelihood,
    register_likelihood,
)
from horoball.likelihoods.mixed import Mixed
from horoball.likelihoods.stock import from_torch

__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Categorical",
    "Circular",
    "Likelihood",
    "LogNormal",
    "Mixed",
    "NegativeBinomial",
    "Normal",
    "Ordinal",
    "Poisson",
    "VonMisesFisher",
    "ZeroInflatedGamma",
    "ZeroInflatedNegativeBinomial",
    "from_torch",
    "guess_likelihood",
    "make_likelihood",
    "register_likelihood",
]

# In the order in which messages name them.
_KINDS: tuple[type[Likelihood], ...] = (
    Normal,
    Bernoulli,
    Poisson,
    NegativeBinomial,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedGamma,
    Categorical,
    LogNormal,
    Ordinal,
    Circular,
    Mixed,
    VonMisesFisher,
)
for _kind in _KINDS:
    register_likelihood(_kind)
