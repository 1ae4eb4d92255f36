"""The ball as a manifold of geoopt, so that its parameters and Riemannian optimizers work in the tangent chart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.geometry.kernels import sinhc, wide
from horoball.plugins import required

__all__ = ["GeooptBall"]

Manifold: Any = required("geoopt").Manifold


class GeooptBall(Manifold):
    """A `PoincareBall` for geoopt: points and tangent vectors are as the ball has them, see `PoincareBall`.

    Every vector of numbers is a point, so that nothing is projected or clamped, and the frames at points are
    orthonormal, so that the inner product is the plain one. For ball coordinates use `ball.to_ball`.

    Example:
        >>> import geoopt
        >>> ball = PoincareBall(1.0)
        >>> z = geoopt.ManifoldParameter(torch.tensor([[5.0, 1.0]]), GeooptBall(ball))
        >>> optimizer = geoopt.optim.RiemannianSGD([z], lr=0.1)
        >>> for _ in range(100):
        ...     optimizer.zero_grad()
        ...     loss = ball.dist(z, torch.tensor([0.0, 6.0])).square().sum() / 2
        ...     loss.backward()
        ...     _ = optimizer.step()
        >>> bool(loss < 1e-4)
        True
    """

    name = "horoball"
    ndim = 1
    reversible = False

    def __init__(self, ball: PoincareBall) -> None:
        super().__init__()
        self.ball = ball

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 0.0, rtol: float = 0.0) -> tuple[bool, str | None]:
        finite = bool(torch.isfinite(x).all())
        return finite, None if finite else "a point has a coordinate that is not finite"

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 0.0, rtol: float = 0.0
    ) -> tuple[bool, str | None]:
        return self._check_point_on_manifold(u)

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """d(x, y).

        Example:
            >>> manifold = GeooptBall(PoincareBall(1.0))
            >>> x, y = torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0])
            >>> manifold.dist(x, y, keepdim=True)
            tensor([5.])
        """
        distance = self.ball.dist(x, y)
        return distance.unsqueeze(-1) if keepdim else distance

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        """The point reached from x along u.

        Example:
            >>> manifold = GeooptBall(PoincareBall(1.0))
            >>> x, y = torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0])
            >>> manifold.expmap(x, y)
            tensor([3., 4.])
        """
        return self.ball.exp(x, u)

    retr = expmap

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        """The tangent vector at x that points to y.

        Example:
            >>> manifold = GeooptBall(PoincareBall(1.0))
            >>> x, y = torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0])
            >>> manifold.logmap(x, y)
            tensor([3., 4.])
        """
        return self.ball.log(x, y)

    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Parallel transport of v from x to y.

        Example:
            >>> manifold = GeooptBall(PoincareBall(1.0))
            >>> x, y = torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0])
            >>> manifold.transp(x, x, y)
            tensor([3., 4.])
        """
        return self.ball.transport(x, y, v)

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        """⟨u, v⟩ in the frame at x.

        Example:
            >>> manifold = GeooptBall(PoincareBall(1.0))
            >>> x, y = torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0])
            >>> manifold.inner(x, y)
            tensor(25.)
        """
        return (u * (u if v is None else v)).sum(-1, keepdim=keepdim)

    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        """The gradient in the frame at x, from that in the coordinates: across x these are wider by √c|x|/sinh √c|x|.

        Example:
            >>> x, u = torch.tensor([2.0, 0.0]), torch.tensor([1.0, 1.0])
            >>> GeooptBall(PoincareBall(1.0)).egrad2rgrad(x, u)  # 2/sinh 2 across
            tensor([1.0000, 0.5514])
        """
        if self.ball.is_euclidean:
            return u
        p, g = wide(x), wide(u)
        square = (p * p).sum(-1, keepdim=True)
        along = (p * g).sum(-1, keepdim=True) / torch.where(square > 0, square, 1.0) * p
        return (along + (g - along) / sinhc(self.ball.c * square)).to(u.dtype)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        """u itself: every vector is a tangent vector.

        Example:
            >>> manifold = GeooptBall(PoincareBall(1.0))
            >>> x, y = torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0])
            >>> manifold.proju(x, y) is y
            True
        """
        return u

    def projx(self, x: Tensor) -> Tensor:
        """x itself: every vector is a point.

        Example:
            >>> manifold = GeooptBall(PoincareBall(1.0))
            >>> x = torch.tensor([300.0, 0.0])
            >>> manifold.projx(x) is x
            True
        """
        return x

    def origin(self, *size: Any, dtype: Any = None, device: Any = None, seed: int | None = 42) -> Any:
        """The origin of the ball, as a tensor that knows its manifold.

        Example:
            >>> GeooptBall(PoincareBall(1.0)).origin(2).tolist()
            [0.0, 0.0]
        """
        return required("geoopt").ManifoldTensor(torch.zeros(*size, dtype=dtype, device=device), manifold=self)
