"""Encoder: from an observation to a posterior, a distribution on the ball."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.manifolds import PoincareBall
from horoball.nn import mlp

__all__ = ["LEAST_SCALE", "POSTERIORS", "Encoder", "posterior_kind"]

POSTERIORS = {"riemannian": RiemannianNormal, "wrapped": WrappedNormal}
LEAST_SCALE = 1e-5  # softplus rounds to 0 in float32 for inputs below −104


def posterior_kind(name: str, d: int) -> type[RiemannianNormal] | type[WrappedNormal]:
    """The class of a posterior by its name; on a line, d = 1, both are the plain normal.

    Example:
        >>> posterior_kind("riemannian", 2).__name__
        'RiemannianNormal'
    """
    return WrappedNormal if d == 1 else POSTERIORS[name]


class Encoder(nn.Module):
    """An MLP that emits the posterior's mean and scale.

    The mean is a tangent vector at the origin in metric units, which is how points are carried: the exp₀ that the paper
    applies to the network's output is no operation here. The scale is a softplus, one per point: the paper's
    posteriors are isotropic [errata:7].

    Args:
        features: Size of an observation.
        d: Dimension of the ball.
        ball: The ball.
        hidden: Sizes of the hidden layers.
        posterior: "riemannian" or "wrapped".
        log_input: Whether the network sees log(1 + x), as it should of counts.

    Example:
        >>> import torch
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
    ) -> None:
        super().__init__()
        if posterior not in POSTERIORS:
            raise ValueError(f"Unknown posterior {posterior!r}. Choose one of: {', '.join(POSTERIORS)}.")
        self.d, self.ball, self.posterior, self.log_input = d, ball, posterior, log_input
        self.network = mlp(features, hidden, d + 1)

    def forward(self, x: Tensor) -> RiemannianNormal | WrappedNormal:
        """q(z | x)."""
        loc, raw = self.network(x.log1p() if self.log_input else x).split((self.d, 1), -1)
        scale = nn.functional.softplus(raw) + LEAST_SCALE
        # Not validated at every step: a network's NaN is found by the training loop, which can say where it came from.
        return posterior_kind(self.posterior, self.d)(loc, scale, self.ball, validate_args=False)
