"""Decoders: from a point of the ball to the parameters of the likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from horoball.manifolds import PoincareBall
from horoball.nn import Gyroplane, mlp

__all__ = ["DECODERS", "Decoder"]

DECODERS = ("gyroplane", "log0", "mlp")


class Decoder(nn.Module):
    """An MLP on points of the ball, by one of three first steps.

    - "gyroplane": the first layer measures distances to hyperplanes (the paper's decoder);
    - "log0": the MLP sees log₀(z), the tangent vector that z is carried as;
    - "mlp": the MLP sees ball coordinates.

    For c = 0 the first two are the plain MLP of the N-VAE.

    Args:
        d: Dimension of the ball.
        outputs: Size of the output.
        ball: The ball.
        hidden: Sizes of the hidden layers; "gyroplane" needs one.
        kind: "gyroplane", "log0" or "mlp".

    Example:
        >>> Decoder(2, 10, PoincareBall(1.0), hidden=[32])(torch.zeros(4, 2)).shape
        torch.Size([4, 10])
    """

    def __init__(
        self, d: int, outputs: int, ball: PoincareBall, hidden: Sequence[int] = (600,), kind: str = "gyroplane"
    ) -> None:
        super().__init__()
        if kind not in DECODERS:
            raise ValueError(f"Unknown decoder {kind!r}. Choose one of: {', '.join(DECODERS)}.")
        if kind == "gyroplane" and not hidden:
            raise ValueError('The decoder "gyroplane" needs a hidden layer, got none. Use "log0" for a linear decoder.')
        self.ball, self.kind = ball, kind
        first = Gyroplane(d, hidden[0], ball) if kind == "gyroplane" else None
        self.network: Any = mlp(d, hidden, outputs, first)

    def forward(self, z: Tensor) -> Tensor:
        """Parameters of the likelihood, shape (*batch, outputs)."""
        return self.network(self.ball.to_ball(z) if self.kind == "mlp" else z)

    @torch.no_grad()
    def start_at(self, output: Tensor) -> None:
        """Set the last bias, so that the model starts from the data's mean (App. C.2)."""
        last = self.network[len(self.network) - 1]
        last.bias.copy_(output)
