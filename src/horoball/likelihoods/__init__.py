"""Likelihoods p(x | z): the distribution of a row given the decoder's output. Each class owns all that is its own."""

from horoball.likelihoods.likelihood import Likelihood
from horoball.likelihoods.registry import LIKELIHOODS, guess_likelihood, make_likelihood, register_likelihood

# Registered on import, in this order.
from horoball.likelihoods.normal import Normal  # isort: skip
from horoball.likelihoods.bernoulli import Bernoulli  # isort: skip
from horoball.likelihoods.counts import NegativeBinomial, Poisson  # isort: skip
from horoball.likelihoods.zero_inflated import ZeroInflatedGamma, ZeroInflatedNegativeBinomial  # isort: skip
from horoball.likelihoods.categorical import Categorical  # isort: skip
from horoball.likelihoods.log_normal import LogNormal  # isort: skip
from horoball.likelihoods.ordinal import Ordinal  # isort: skip
from horoball.likelihoods.circular import Circular  # isort: skip
from horoball.likelihoods.mixed import Mixed  # isort: skip
from horoball.likelihoods.von_mises_fisher import VonMisesFisher  # isort: skip

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
    "guess_likelihood",
    "make_likelihood",
    "register_likelihood",
]
