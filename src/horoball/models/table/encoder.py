"""Encoder: from an observation to a posterior, a distribution on the ball."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from horoball.distributions import POSTERIORS, BallNormal
from horoball.distributions.von_mises_fisher import direction
from horoball.manifolds import PoincareBall
from horoball.models.prior import check_family, save_family
from horoball.models.table.column_view import ColumnView
from horoball.models.table.conditioning import one_hot
from horoball.nn import mlp
from horoball.numerics.kernels import bounded

__all__ = ["Encoder", "network_input"]


def network_input(
    x: Tensor, *, log: bool = False, library: bool = False, unit: bool = False, limit: float = 0.0
) -> Tensor:
    """Features as an encoder's network sees them.

    Args:
        x: Features, shape (*batch, features).
        log: Whether it sees log(1 + x), as it should of counts.
        library: Whether rows are shares of a library: it sees them with a mean of 1, x·features/Σx.
        unit: Whether rows are directions: it sees them with a mean square of 1.
        limit: Beyond which numbers are drawn in, see `bounded`, so that no row ends at infinity; 0 for none.

    Example:
        >>> network_input(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), library=True)
        tensor([[0.5000, 1.5000],
                [0.0000, 0.0000]])
    """
    if library:
        x = x * (x.shape[-1] / x.sum(-1, keepdim=True).clamp_min(1.0))  # a row without counts stays 0
    x = direction(x) * x.shape[-1] ** 0.5 if unit else x
    x = x.log1p() if log else x
    return bounded(x, limit) if limit else x


class Encoder(nn.Module):
    """An MLP that emits the posterior's mean and scale; see `BallNormal.from_network`.

    Args:
        features: Size of an observation.
        d: Dimension of the ball.
        ball: The ball.
        hidden: Sizes of the hidden layers.
        posterior: Name of the family: "riemannian", "wrapped", or one that a plugin registers.
        log_input: Whether the network sees log(1 + x), as it should of counts.
        scale: Structure of the scale, one of the family's `scales`: "isotropic", as in the paper; "diagonal" or "full"
            for a wrapped normal.
        covariates: How many categories each covariate has; the network sees them one-hot. See Note [Rows] in `given`.
        library: Whether rows are shares of a library; see `network_input`.
        input_limit: Beyond which the network sees numbers drawn in; 0 for none.
        columns: The kinds of the columns of a mixed table, see `ColumnView`; empty for tables of one kind.
        unit_input: Whether rows are directions; see `network_input`.
        generator: Where the initial weights come from; torch's global generator if not given.

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
        hidden: Sequence[int],
        posterior: str = "riemannian",
        log_input: bool = False,
        scale: str = "isotropic",
        covariates: Sequence[int] = (),
        library: bool = False,
        input_limit: float = 0.0,
        columns: str = "",
        unit_input: bool = False,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.family = POSTERIORS[posterior]
        self.features, self.covariates, self.library = features, tuple(covariates), library
        self.input_limit, self.unit_input = input_limit, unit_input
        self.d, self.ball, self.scale, self.log_input = d, ball.view(), scale, log_input
        self.view = ColumnView(columns, features) if columns else None
        inputs = features if self.view is None else self.view.size
        self.network = mlp(inputs + sum(covariates), hidden, self.family.network_size(d, scale), generator=generator)
        if self.view is not None:
            # A mark that never occurs in training is never learned: a gap is then seen as the mean, without more.
            first: Any = self.network[0]
            with torch.no_grad():
                first.weight[:, self.view.numbers : self.view.size] = 0.0

    def forward(self, x: Tensor) -> BallNormal:
        """q(z | x) of rows, shape (*batch, features + covariates)."""
        return self.posterior(self.inputs(x))

    def inputs(self, x: Tensor) -> Tensor:
        """Rows as the network sees them."""
        codes = None
        if self.covariates:
            x, codes = x.split((self.features, len(self.covariates)), -1)
        x = x if self.view is None else self.view(x)
        x = network_input(x, log=self.log_input, library=self.library, unit=self.unit_input, limit=self.input_limit)
        return x if codes is None else torch.cat((x, one_hot(codes, self.covariates)), -1)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        save_family(self.family, destination, prefix)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        check_family(self.family, state_dict, prefix, rest[-1])
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def posterior(self, inputs: Tensor) -> BallNormal:
        """q(z | x) from what the network sees of x."""
        # Mixed precision ends with the network: a posterior needs its digits.
        return self.family.from_network(self.network(inputs).to(inputs.dtype), self.d, self.ball, self.scale)
