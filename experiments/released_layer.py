"""The gyroplane layer of the authors' two releases, for comparison only: the library follows the paper.

Both releases learn a vector w and a number b for each hyperplane, start them with w normal, b uniform in ±4/√d, and
return plain distances: the norm of the normal, ‖a‖_p in the paper, is dropped.

- "first" (April 2019): the hyperplane passes through exp₀(b w), taken in ball coordinates and so at a distance of
  2 |b w| from the origin, and w is its normal.
- "swapped" (since November 2019): point and normal are handed over in the wrong order. The hyperplane passes through
  p = w/cosh²(√c |b w|), its normal is b w: b hardly moves anything but for its sign, and p may leave the ball, where
  every Möbius sum is put back onto a sphere just inside the ball.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from horoball.geometry import PoincareBall
from horoball.nn import Gyroplane

__all__ = ["RELEASES", "ReleasedGyroplane", "released_start"]

RELEASES = ("first", "swapped")
_EDGE = 1 - 4e-3  # of the ball's radius: how far out the second release lets points be, in float32
_LEAST = 1e-15  # below the denominators of the second release


def released_start(d: int, count: int) -> tuple[Tensor, Tensor]:
    """Vectors w, shape (count, d), and numbers b, shape (count, 1), as both releases draw them.

    Example:
        >>> w, b = released_start(2, 1000)
        >>> bool(b.abs().max() < 4 / math.sqrt(2))
        True
    """
    w, b = torch.empty(count, d), torch.empty(count, 1)
    nn.init.kaiming_normal_(w, a=math.sqrt(5))
    nn.init.uniform_(b, -4 / math.sqrt(d), 4 / math.sqrt(d))
    return w, b


class ReleasedGyroplane(nn.Module):
    """Signed distances to hyperplanes, by the rules of a release; for c = 0 their limit, linear with unit normals.

    Args:
        d: Dimension of the ball.
        count: Number of hyperplanes.
        ball: The ball.
        release: "first" or "swapped".

    Example:
        >>> layer = ReleasedGyroplane(2, 5, PoincareBall(1.0), "first")
        >>> radius = 2 * (layer.b * layer.w).norm(dim=-1)  # at the origin, minus the distance of the points exp₀(b w)
        >>> torch.allclose(layer(torch.zeros(2)).abs(), radius, atol=1e-5)
        True
    """

    def __init__(self, d: int, count: int, ball: PoincareBall, release: str = "first") -> None:
        super().__init__()
        if release not in RELEASES:
            raise ValueError(f"Unknown release {release!r}. Choose one of: {', '.join(RELEASES)}.")
        self.ball, self.release = ball, release
        w, b = released_start(d, count)
        self.w, self.b = nn.Parameter(w), nn.Parameter(b)
        self._plain = Gyroplane(d, count, ball)
        for parameter in self._plain.parameters():
            parameter.requires_grad_(False)

    def forward(self, z: Tensor) -> Tensor:
        """Distances of points of shape (*batch, d), shape (*batch, count)."""
        norm = self.w.norm(dim=-1, keepdim=True)
        normal = self.w / norm
        if self.release == "first":
            return self._distance(z, normal, (-2 * norm * self.b).squeeze(-1))
        if self.ball.is_euclidean:
            side = torch.sign(self.b)
            return self._distance(z, side * normal, (-2 * side * norm).squeeze(-1))
        return self._swapped(z, side=torch.sign(self.b) * normal)

    def _distance(self, z: Tensor, normal: Tensor, offset: Tensor) -> Tensor:
        return torch.func.functional_call(self._plain, {"weight": normal, "bias": offset}, (z,))

    def _swapped(self, z: Tensor, side: Tensor) -> Tensor:
        """The second release's own formula: where p has left the ball there is no hyperplane to measure from."""
        c = self.ball.c_value
        root = math.sqrt(c)
        p = self.w / torch.cosh(root * self.w.norm(dim=-1, keepdim=True) * self.b).square()
        x = self.ball.to_ball(z)
        x = x * (_EDGE / (root * x.norm(dim=-1, keepdim=True).clamp_min(_LEAST))).clamp_max(1.0)
        # (−p) ⊕ x, its square, and its product with the normal, from inner products alone: no (batch, count, d)
        xx, pp, xp = x.square().sum(-1, keepdim=True), p.square().sum(-1), x @ p.T
        denominator = (1 - 2 * c * xp + c * c * xx * pp).clamp_min(_LEAST)
        of_p, of_x = (1 - 2 * c * xp + c * xx) / denominator, (1 - c * pp) / denominator
        square = of_p.square() * pp - 2 * of_p * of_x * xp + of_x.square() * xx
        along = of_x * (x @ side.T) - of_p * (p * side).sum(-1)
        back = (_EDGE / (root * square.clamp_min(_LEAST).sqrt())).clamp_max(1.0)
        square, along = square * back.square(), along * back
        return torch.asinh(2 * root * along / (1 - c * square).clamp_min(_LEAST)) / root
