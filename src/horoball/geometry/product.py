"""Products of balls and Euclidean spaces (Gu et al. 2019, Skopek et al. 2020), each with a curvature of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from horoball.geometry.ball import PoincareBall
from horoball.geometry.kernels import broadcast_shapes
from horoball.geometry.manifold import register_manifold

_FACTOR = re.compile(r"([HE])([1-9]\d{0,3})")
_MOST = 64  # factors


@register_manifold
class ProductSpace(nn.Module):
    """M = M₁ × … × M_k of balls and Euclidean spaces: a point is the points of the factors, one after the other.

    d(z, y)² = Σ d_i(z_i, y_i)². Exponential maps and their inverses are those of the factors, and the logarithm of the
    volume is their sum.

    Args:
        signature: The factors with their dimensions, such as "H2xH3xE2": H for a ball, E for a Euclidean space.
        c: Minus the curvature of the balls: one number for all, or one for each.
        learn_c: Makes each of them a parameter.
        d: The dimension, if it is to be checked.

    Example:
        >>> space = ProductSpace("H2xE1", c=1.0)
        >>> z, y = torch.tensor([0.3, 0.4, 0.0]), torch.tensor([-1.0, 2.0, 1.0])
        >>> space.dist(z, y)  # √(2.1278² + 1)
        tensor(2.3511)
        >>> torch.allclose(space.exp(z, space.log(z, y)), y, atol=1e-6)
        True
    """

    name = "product"
    injectivity_radius = math.inf

    def __init__(
        self, signature: str, c: float | Sequence[float] = 1.0, learn_c: bool = False, d: int | None = None
    ) -> None:
        super().__init__()
        found = [_FACTOR.fullmatch(part) for part in str(signature)[: 8 * _MOST].split("x")]
        if not all(found) or len(found) > _MOST:
            raise ValueError(
                f"The signature of a product is factors such as H2xH3xE2, at most {_MOST}, H for a ball and E for a "
                f"Euclidean space, got {str(signature)[:40]!r}."
            )
        kinds = [(match[1], int(match[2])) for match in found if match is not None]
        self.signature, self.dims = "x".join(f"{kind}{size}" for kind, size in kinds), [size for _, size in kinds]
        if d is not None and d != sum(self.dims):
            raise ValueError(f"{self.signature} has {sum(self.dims)} dimensions, not {d}. Set n_components (--dim) so.")
        balls = sum(kind == "H" for kind, _ in kinds)
        given = list(c) if isinstance(c, Sequence) else [c] * balls
        if len(given) != balls:
            raise ValueError(f"{self.signature} has {balls} balls, got {len(given)} curvatures.")
        curved = iter(given)
        self.factors = nn.ModuleList(
            PoincareBall(next(curved), learnable=learn_c) if kind == "H" else PoincareBall(0.0) for kind, _ in kinds
        )

    def extra_repr(self) -> str:
        """The part of repr between parentheses."""
        return self.signature

    @property
    def balls(self) -> list[PoincareBall]:
        """The factors; a Euclidean one is a ball of c = 0."""
        return [factor for factor in self.factors if isinstance(factor, PoincareBall)]

    def split(self, z: Tensor) -> tuple[Tensor, ...]:
        """The parts of points, or of tangent vectors, that belong to the factors.

        Example:
            >>> [part.tolist() for part in ProductSpace("H2xE1").split(torch.tensor([1.0, 2.0, 3.0]))]
            [[1.0, 2.0], [3.0]]
        """
        if z.shape[-1] != sum(self.dims):
            raise ValueError(f"{self.signature} has points of {sum(self.dims)} numbers, got {z.shape[-1]}.")
        return z.split(self.dims, -1)

    def _each(self, call: Callable[..., Tensor], *points: Tensor) -> list[Tensor]:
        return [call(ball, *parts) for ball, *parts in zip(self.balls, *map(self.split, points), strict=True)]

    def _joined(self, call: Callable[..., Tensor], *points: Tensor) -> Tensor:
        parts = self._each(call, *points)
        shape = broadcast_shapes(*(part.shape[:-1] for part in parts))
        return torch.cat([part.expand(*shape, part.shape[-1]) for part in parts], -1)

    def dist(self, z: Tensor, y: Tensor) -> Tensor:
        """Distance √Σ d_i²; the gradient at z = y is 0.

        Example:
            >>> ProductSpace("H1xE1").dist(torch.zeros(2), torch.tensor([3.0, 4.0]))
            tensor(5.)
        """
        return torch.linalg.vector_norm(torch.stack(self._each(PoincareBall.dist, z, y), -1), dim=-1)

    def cdist(self, z: Tensor, y: Tensor) -> Tensor:
        """Distances between all points of one set and all of another, as `torch.cdist`.

        Example:
            >>> ProductSpace("H1xE1").cdist(torch.zeros(1, 2), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
            tensor([[5., 1.]])
        """
        return torch.linalg.vector_norm(torch.stack(self._each(PoincareBall.cdist, z, y), -1), dim=-1)

    def exp(self, z: Tensor, v: Tensor) -> Tensor:
        """The point reached from z along v.

        Example:
            >>> ProductSpace("H1xE1").exp(torch.ones(2), torch.tensor([3.0, 4.0]))
            tensor([4., 5.])
        """
        return self._joined(PoincareBall.exp, z, v)

    def log(self, z: Tensor, y: Tensor) -> Tensor:
        """The tangent vector at z that points to y: the inverse of `exp`.

        Example:
            >>> ProductSpace("H1xE1").log(torch.ones(2), torch.tensor([4.0, 5.0]))
            tensor([3., 4.])
        """
        return self._joined(PoincareBall.log, z, y)

    def transport(self, z: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Parallel transport of a tangent vector from z to y.

        Example:
            >>> ProductSpace("H1xE1").transport(torch.ones(2), torch.zeros(2), torch.tensor([3.0, 4.0]))
            tensor([3., 4.])
        """
        return self._joined(PoincareBall.transport, z, y, v)

    def geodesic(self, z: Tensor, y: Tensor, s: float | Tensor) -> Tensor:
        """The point at fraction s of the way from z to y.

        Example:
            >>> ProductSpace("H1xE1").geodesic(torch.zeros(2), torch.tensor([4.0, 2.0]), 0.5)
            tensor([2., 1.])
        """
        return self._joined(lambda ball, one, other: ball.geodesic(one, other, s), z, y)

    def log_volume(self, v: Tensor) -> Tensor:
        """Log of the volume element of `exp`, the sum over the factors.

        Example:
            >>> ProductSpace("H2xE1").log_volume(torch.tensor([0.0, 2.0, 5.0]))
            tensor(0.5952)
        """
        return torch.stack(self._each(PoincareBall.log_volume, v)).sum(0)

    def to_ball(self, z: Tensor) -> Tensor:
        """The factors' ball coordinates, one after the other.

        Example:
            >>> ProductSpace("H1xE1").to_ball(torch.tensor([2.0, 2.0]))
            tensor([0.7616, 1.0000])
        """
        return self._joined(PoincareBall.to_ball, z)

    def from_ball(self, x: Tensor) -> Tensor:
        """The point with these ball coordinates.

        Example:
            >>> ProductSpace("H1xE1").from_ball(torch.tensor([0.5, 1.0]))
            tensor([1.0986, 2.0000])
        """
        return self._joined(PoincareBall.from_ball, x)
