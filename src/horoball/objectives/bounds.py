"""What is maximized and what is reported: the evidence lower bound, importance-weighted bounds, the log-likelihood."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.distributions import Distribution, kl_divergence

from horoball.distributions import BallNormal

__all__ = ["Elbo", "LatentModel", "elbo", "iwae", "log_likelihood"]

# Decoded at a time: 12 MiB of logits for MNIST. From twice as much on, malloc may give the pages of every chunk back to
# the system, which then takes a quarter of the time to hand them out again.
_ROWS = 4096


class LatentModel(Protocol):
    """What an objective needs of a model: a posterior, a likelihood and a prior, all distributions."""

    def posterior(self, x: Tensor) -> BallNormal:
        """q(z | x)."""

    def decode(self, z: Tensor) -> Distribution:
        """p(x | z)."""

    @property
    def prior(self) -> object:
        """A callable that returns p(z)."""


class Elbo(NamedTuple):
    """The bound and its two terms, one number per observation.

    Example:
        >>> Elbo(torch.zeros(2), torch.zeros(2), torch.zeros(2))._fields
        ('value', 'log_likelihood', 'kl')
    """

    value: Tensor
    log_likelihood: Tensor
    kl: Tensor


def elbo(
    model: LatentModel,
    x: Tensor,
    *,
    beta: float = 1.0,
    samples: int = 1,
    kl: str = "auto",
    posterior: BallNormal | None = None,
    generator: torch.Generator | None = None,
) -> Elbo:
    """The evidence lower bound E_q[log p(x | z)] − β KL(q ‖ p) [eq:elbo].

    Args:
        model: The model.
        x: Observations, shape (batch, features).
        beta: Weight of the divergence.
        samples: Number of points z per observation.
        kl: "exact" (closed or by quadrature, without variance), "sample" (from the same points; what the paper does and
            the faster in training), or "auto": exact where it is registered, else sampled.
        posterior: q(z | x), if it is known already.
        generator: Where the noise comes from; torch's global generator if not given.

    Example:
        >>> from horoball.models import VAE, ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=10, hidden=(32,)))
        >>> elbo(model, torch.zeros(4, 10)).value.shape
        torch.Size([4])
    """
    if kl not in ("auto", "exact", "sample"):
        raise ValueError(f'kl is "auto", "exact" or "sample", got {kl!r}.')
    q = model.posterior(x) if posterior is None else posterior
    p = model.prior()  # type: ignore[operator]
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
    return Elbo(torch.sub(log_likelihood, divergence, alpha=beta), log_likelihood, divergence)


def iwae(
    model: LatentModel,
    x: Tensor,
    samples: int,
    chunk: int | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The importance-weighted bound log (1/K) Σ p(x, z_k)/q(z_k | x), one number per observation [eq:iwae].

    The samples are taken in chunks of bounded size, so that memory does not grow with K when gradients are off.

    Args:
        model: The model.
        x: Observations, shape (batch, features).
        samples: K.
        chunk: Samples at a time; chosen from the number of rows if not given.
        generator: Where the noise comes from; torch's global generator if not given.

    Example:
        >>> from horoball.models import VAE, ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=10, hidden=(32,)))
        >>> with torch.no_grad():
        ...     iwae(model, torch.zeros(4, 10), samples=1000).shape
        torch.Size([4])
    """
    if samples < 1:
        raise ValueError(f"iwae needs at least one sample, got {samples}.")
    q, p = model.posterior(x), model.prior()  # type: ignore[operator]
    chunk = chunk or max(1, _ROWS // max(1, x.shape[0]))
    total: Tensor | None = None
    for start in range(0, samples, chunk):
        z, log_q = q.rsample_and_log_prob((min(chunk, samples - start),), generator)
        log_w = _log_prob(model, x, z) + p.log_prob(z) - log_q
        part = torch.logsumexp(log_w, 0)
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
    generator: torch.Generator | None = None,
) -> Tensor:
    """The marginal log-likelihood, estimated from below by `iwae` with many samples, in bounded memory.

    Args:
        model: The model.
        x: Observations, shape (n, features).
        samples: K; the paper's tables use 5000.
        batch: Observations at a time.
        generator: Where the noise comes from; torch's global generator if not given.

    Example:
        >>> from horoball.models import VAE, ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=10, hidden=(32,)))
        >>> log_likelihood(model, torch.zeros(4, 10), samples=100).shape
        torch.Size([4])
    """
    return torch.cat([iwae(model, part, samples, generator=generator) for part in x.split(batch)])


def _mean(x: Tensor) -> Tensor:
    """The mean over samples; of one sample itself, which is no operation."""
    return x.squeeze(0) if x.shape[0] == 1 else x.mean(0)


def _log_prob(model: LatentModel, x: Tensor, z: Tensor) -> Tensor:
    """log p(x | z). Conditional models take covariates from the rows, see `horoball.models.table.conditioning`."""
    of_rows = getattr(model, "log_prob_of", None)
    return model.decode(z).log_prob(x) if of_rows is None else of_rows(x, z)
