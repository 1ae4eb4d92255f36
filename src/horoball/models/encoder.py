"""Encoder: from an observation to a posterior, a distribution on the ball."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.manifolds import PoincareBall
from horoball.models.given import one_hot
from horoball.models.posterior import check_posterior, posterior, posterior_size
from horoball.nn import mlp

__all__ = ["Encoder", "network_input"]


def network_input(x: Tensor, *, log: bool = False, library: bool = False) -> Tensor:
    """Features as an encoder's network sees them.

    Args:
        x: Features, shape (*batch, features).
        log: Whether it sees log(1 + x), as it should of counts.
        library: Whether rows are shares of a library: it sees them with a mean of 1, x·features/Σx.

    Example:
        >>> network_input(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), library=True)
        tensor([[0.5000, 1.5000],
                [0.0000, 0.0000]])
    """
    if library:
        x = x * (x.shape[-1] / x.sum(-1, keepdim=True).clamp_min(1.0))  # a row without counts stays 0
    return x.log1p() if log else x


class Encoder(nn.Module):
    """An MLP that emits the posterior's mean and scale; see `posterior`.

    Args:
        features: Size of an observation.
        d: Dimension of the ball.
        ball: The ball.
        hidden: Sizes of the hidden layers.
        posterior: "riemannian" or "wrapped".
        log_input: Whether the network sees log(1 + x), as it should of counts.
        scale: "isotropic", as in the paper; "diagonal" or "full" for a wrapped normal.
        covariates: How many categories each covariate has; the network sees them one-hot. See Note [Rows] in `given`.
        library: Whether rows are shares of a library; see `network_input`.

    Example:
        >>> q = Encoder(10, 2, PoincareBall(1.0), hidden=[32])(torch.zeros(4, 10))
        >>> type(q).__name__, q.loc.shape, q.scale.shape
        ('RiemannianNormal', torch.Size([4, 2]), torch.Size([4, 1]))
    """

    def __init__(
        self,
        features: int,
        d: int,
        ball: PoincareBall,
        hidden: Sequence[int] = (600,),
        posterior: str = "riemannian",
        log_input: bool = False,
        scale: str = "isotropic",
        covariates: Sequence[int] = (),
        library: bool = False,
    ) -> None:
        super().__init__()
        check_posterior(posterior, scale)
        self.features, self.covariates, self.library = features, tuple(covariates), library
        self.d, self.ball, self.posterior, self.scale, self.log_input = d, ball, posterior, scale, log_input
        self.network = mlp(features + sum(covariates), hidden, posterior_size(d, scale))

    def forward(self, x: Tensor) -> RiemannianNormal | WrappedNormal:
        """q(z | x) of rows, shape (*batch, features + covariates)."""
        codes = None
        if self.covariates:
            x, codes = x.split((self.features, len(self.covariates)), -1)
        x = network_input(x, log=self.log_input, library=self.library)
        if codes is not None:
            x = torch.cat((x, one_hot(codes, self.covariates)), -1)
        return posterior(self.network(x), self.d, self.ball, self.posterior, self.scale)
