"""Decoders: from a point of the ball to the parameters of the likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from horoball.manifolds import PoincareBall
from horoball.nn import Gyroplane, linear, mlp

__all__ = ["DECODERS", "Decoder"]

DECODERS = ("gyroplane", "log0", "mlp")


class Decoder(nn.Module):
    """An MLP on points of the ball, by one of three first steps.

    - "gyroplane": the first layer measures distances to hyperplanes (the paper's decoder);
    - "log0": the MLP sees log₀(z), the tangent vector that z is carried as;
    - "mlp": the MLP sees ball coordinates.

    For c = 0 the first two are the plain MLP of the N-VAE.

    What a row is given moves the output of the first layer, before the nonlinearity: f(z) + B·covariates. For a linear
    layer that is what concatenating z and the covariates is. A gyroplane takes points of the ball, which covariates are
    not: they are added to its signed distances, so that each category counts these from a line of its own beside the
    hyperplane. It also moves the output itself, by A·covariates: what multiplies the counts of a gene in all cells of a
    batch alike is then no matter of z. A and B start at 0; see `training.table.category_start`.

    Args:
        d: Dimension of the ball.
        outputs: Size of the output.
        ball: The ball.
        hidden: Sizes of the hidden layers; "gyroplane" needs one.
        kind: "gyroplane", "log0" or "mlp".
        covariates: How many categories there are, of all covariates together.
        generator: Where the initial weights come from; torch's global generator if not given.

    Example:
        >>> Decoder(2, 10, PoincareBall(1.0), hidden=[32])(torch.zeros(4, 2)).shape
        torch.Size([4, 10])
    """

    def __init__(
        self,
        d: int,
        outputs: int,
        ball: PoincareBall,
        hidden: Sequence[int],
        kind: str = "gyroplane",
        covariates: int = 0,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if kind not in DECODERS:
            raise ValueError(f"Unknown decoder {kind!r}. Choose one of: {', '.join(DECODERS)}.")
        if kind == "gyroplane" and not hidden:
            raise ValueError('The decoder "gyroplane" needs a hidden layer, got none. Use "log0" for a linear decoder.')
        self.ball, self.kind = ball.view(), kind
        first = Gyroplane(d, hidden[0], ball, generator=generator) if kind == "gyroplane" else None
        self.network: Any = mlp(d, hidden, outputs, first, generator=generator)
        self.shift: nn.Linear | None = None
        self.offset: nn.Linear | None = None
        if covariates:
            self.shift = linear(covariates, (*hidden, outputs)[0], bias=False, generator=generator)
            self.offset = linear(covariates, outputs, bias=False, generator=generator)
            nn.init.zeros_(self.shift.weight)
            nn.init.zeros_(self.offset.weight)

    def forward(self, z: Tensor, covariates: Tensor | None = None) -> Tensor:
        """Parameters of the likelihood, shape (*batch, outputs).

        Args:
            z: Points, shape (*batch, d).
            covariates: What their rows are given, one-hot, shape (*rows, categories) that broadcasts to the batch.
        """
        if (self.shift is None) != (covariates is None):
            raise ValueError(
                "This decoder was made without covariates, but is given some."
                if self.shift is None
                else "This decoder needs the rows' covariates: VAE.decode(z, VAE.conditioning(x))."
            )
        z = self.ball.to_ball(z) if self.kind == "mlp" else z
        if self.shift is None or self.offset is None:
            return self.network(z).to(z.dtype)  # mixed precision ends with the network
        h = self.network[0](z) + self.shift(covariates)
        for layer in self.network[1:]:
            h = layer(h)
        return (h + self.offset(covariates)).to(z.dtype)

    @torch.no_grad()
    def start_at(self, output: Tensor) -> None:
        """Set the last bias, so that the model starts from the data's mean (App. C.2)."""
        last = self.network[len(self.network) - 1]
        last.bias.copy_(output)
