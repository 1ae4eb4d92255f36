"""What is maximized and what is reported: the evidence lower bound, importance-weighted bounds, the log-likelihood."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.distributions import Distribution, kl_divergence

from horoball.distributions.mixture import as_prior, drawn_with_log_prob
from horoball.distributions.normal import BallNormal

# Decoded at a time: 12 MiB of logits for MNIST. From twice as much on, malloc may give the pages of every chunk back to
# the system, which then takes a quarter of the time to hand them out again.
_ROWS = 4096
KL = "sample"  # how the divergence is found if nobody says: in a quarter of the time of quadrature and less
PRIOR_SHARE = 0.1  # of the samples of a likelihood; more is better in two dimensions and worse in ten


class LatentModel(Protocol):
    """What an objective needs of a model: a posterior, a likelihood and a prior, all distributions."""

    def posterior(self, x: Tensor) -> BallNormal:
        """q(z | x)."""

    def decode(self, z: Tensor) -> Distribution:
        """p(x | z)."""

    @property
    def prior(self) -> object:
        """A callable that returns p(z): one of ours, a mixture, or one of torch's, see `distributions.mixture`."""


class Elbo(NamedTuple):
    """The bound and its two terms, one number per observation."""

    value: Tensor
    log_likelihood: Tensor
    kl: Tensor


def elbo(
    model: LatentModel,
    x: Tensor,
    *,
    beta: float | Tensor = 1.0,
    samples: int = 1,
    kl: str = KL,
    posterior: BallNormal | None = None,
    generator: torch.Generator | None = None,
) -> Elbo:
    """The evidence lower bound E_q[log p(x | z)] − β KL(q ‖ p) [eq:elbo].

    Args:
        model: The model.
        x: Observations, shape (batch, features).
        beta: Weight of the divergence.
        samples: Number of points z per observation.
        kl: "sample" (from the same points; what the paper and training do), "exact" (closed or by quadrature, without
            variance, in 4 to 11 times the time of a step), or "auto": exact where it is registered, else sampled.
        posterior: q(z | x), if it is known already.
        generator: Where the noise comes from; torch's global generator if not given.

    Example:
        >>> from horoball.vae import VAE, ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=10, hidden=(32,)))
        >>> elbo(model, torch.zeros(4, 10)).value.shape
        torch.Size([4])
    """
    if kl not in ("auto", "exact", "sample"):
        raise ValueError(f'kl is "auto", "exact" or "sample", got {kl!r}.')
    q = model.posterior(x) if posterior is None else posterior
    p = as_prior(model.prior(), q.ball)  # type: ignore[operator]
    divergence = None
    if kl != "sample":
        try:
            divergence = kl_divergence(q, p)
        except NotImplementedError:
            if kl == "exact":
                raise
    if divergence is None:
        z, sampled = q.rsample_and_divergence(p, (samples,), generator)
        divergence = _mean(sampled)
    else:
        z = q.rsample((samples,), generator)
    log_likelihood = _mean(_log_prob(model, x, z))
    if isinstance(beta, Tensor):
        return Elbo(log_likelihood - beta * divergence, log_likelihood, divergence)
    return Elbo(torch.sub(log_likelihood, divergence, alpha=beta), log_likelihood, divergence)


def iwae(
    model: LatentModel,
    x: Tensor,
    samples: int,
    chunk: int | None = None,
    *,
    prior_share: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The importance-weighted bound log (1/K) Σ p(x, z_k)/r(z_k | x), one number per observation [eq:iwae].

    The proposal r is the posterior, or a mixture of posterior and prior, r = (1 − a) q + a p. A few percent of new rows
    have a narrow posterior in the wrong place, where no number of its own samples finds what the prior's do. Samples
    are split between the two in fixed numbers, so the mean of the weights is p(x) for any a.

    The samples are taken in chunks of bounded size, so that memory does not grow with K when gradients are off.

    Args:
        model: The model.
        x: Observations, shape (batch, features).
        samples: K.
        chunk: Samples at a time; chosen from the number of rows if not given.
        prior_share: a, from 0 to less than 1. All observations see the same points of the prior.
        generator: Where the noise comes from; torch's global generator if not given.

    Example:
        >>> from horoball.vae import VAE, ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=10, hidden=(32,)))
        >>> with torch.no_grad():
        ...     iwae(model, torch.zeros(4, 10), samples=1000).shape
        torch.Size([4])
    """
    if samples < 1:
        raise ValueError(f"iwae needs at least one sample, got {samples}.")
    if not 0 <= prior_share < 1:
        raise ValueError(f"prior_share is at least 0 and below 1, got {prior_share}.")
    q = model.posterior(x)
    p = as_prior(model.prior(), q.ball)  # type: ignore[operator]
    chunk = chunk or max(1, _ROWS // max(1, x.shape[0]))
    priors = min(round(prior_share * samples), samples - 1)
    total: Tensor | None = None
    for source, count in ((q, samples - priors), (p, priors)):
        for start in range(0, count, chunk):
            size = min(chunk, count - start)
            if source is q:
                z, log_q = q.rsample_and_log_prob((size,), generator)
                log_p = p.log_prob(z)
            else:
                z, log_p = drawn_with_log_prob(p, (size, 1), generator)
                z = z.expand(size, len(x), -1)
                log_q = q.log_prob(z)
            if priors:
                log_q = torch.logaddexp(log_q + math.log1p(-priors / samples), log_p + math.log(priors / samples))
            part = torch.logsumexp(_log_prob(model, x, z) + log_p - log_q, 0)
            total = part if total is None else torch.logaddexp(total, part)
    assert total is not None  # noqa: S101  there is at least one chunk
    return total - math.log(samples)


@torch.no_grad()
def log_likelihood(
    model: LatentModel,
    x: Tensor,
    samples: int = 5000,
    batch: int = 64,
    *,
    prior_share: float = PRIOR_SHARE,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The marginal log-likelihood, estimated from below by `iwae` with many samples, in bounded memory.

    Args:
        model: The model.
        x: Observations, shape (n, features).
        samples: K; the paper's tables use 5000.
        batch: Observations at a time.
        prior_share: Share of the samples from the prior; the paper's tables have 0.
        generator: Where the noise comes from; torch's global generator if not given.

    Example:
        >>> from horoball.vae import VAE, ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=10, hidden=(32,)))
        >>> log_likelihood(model, torch.zeros(4, 10), samples=100).shape
        torch.Size([4])
    """
    parts = [iwae(model, part, samples, prior_share=prior_share, generator=generator) for part in x.split(batch)]
    return torch.cat(parts)


def _mean(x: Tensor) -> Tensor:
    """The mean over samples; of one sample itself, which is no operation."""
    return x.squeeze(0) if x.shape[0] == 1 else x.mean(0)


def _log_prob(model: LatentModel, x: Tensor, z: Tensor) -> Tensor:
    """log p(x | z). Conditional models take covariates from the rows, see `horoball.vae.encoder`."""
    of_rows = getattr(model, "log_prob_of", None)
    return model.decode(z).log_prob(x) if of_rows is None else of_rows(x, z)
