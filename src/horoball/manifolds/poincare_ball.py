"""The Poincaré ball of curvature −c, carried in the tangent chart."""

from __future__ import annotations

import torch
from torch import Tensor

from horoball.manifolds.geodesic import geodesic
from horoball.manifolds.horosphere import busemann
from horoball.manifolds.pairwise import pairwise_dist
from horoball.manifolds.translation import translate, translated_radius
from horoball.manifolds.transport import transport
from horoball.manifolds.volume import log_volume
from horoball.numerics.curvature import widened
from horoball.numerics.curved_space import CurvedSpace
from horoball.numerics.kernels import asinhc, atanhc, floating, sinhc, tanhc, wide

__all__ = ["PoincareBall"]


class PoincareBall(CurvedSpace):
    r"""The Poincaré ball B_c^d of curvature −c [errata:1], for every dimension d.

    A point z is carried as its tangent vector at the origin in metric units, |z| = d(0, z), so nothing has to be
    clamped and float32 suffices; ball coordinates x = tanh(√c|z|/2)/√c · z/|z| are a view of it. With c = 0 every
    method is exactly the Euclidean one. A tangent vector v at z is in metric units too, in the frame transported
    from the origin: |v| = d(z, exp(z, v)).

    Args:
        c: Minus the curvature, c ≥ 0: a number, or a tensor of one element.
        learnable: Makes c a parameter: `ball.c` is the softplus of `ball.raw_c`, and starts at the given value.

    Example:
        >>> ball = PoincareBall(c=1.0)
        >>> z, y = torch.tensor([0.3, 0.4]), torch.tensor([-1.0, 2.0])
        >>> ball.dist(z, y)
        tensor(2.1278)
        >>> torch.allclose(ball.exp(z, ball.log(z, y)), y)
        True
    """

    def dist(self, z: Tensor, y: Tensor) -> Tensor:
        """Distance d(z, y) [eq:dist].

        sinh²(√c d/2) = sinh²((a − b)/2) + sinh a sinh b |ẑ − ŷ|²/4, with a = √c|z|, b = √c|y|. The gradient at z = y
        is 0.

        Args:
            z: Points, shape (*batch, d).
            y: Points, shape (*batch, d).

        Example:
            >>> PoincareBall().dist(torch.tensor([60.0, 0.0]), torch.tensor([0.0, 60.0]))
            tensor(119.3069)
        """
        z, y = _points("dist", z, y)
        return torch.linalg.vector_norm(z - y, dim=-1) if self.is_euclidean else translated_radius(z, -y, self.c)

    def cdist(self, z: Tensor, y: Tensor) -> Tensor:
        """Distances between all points of one set and all of another, as `torch.cdist` [eq:dist].

        Args:
            z: Points, shape (*batch, n, d).
            y: Points, shape (*batch, m, d).

        Returns:
            Distances of shape (*batch, n, m).

        Example:
            >>> PoincareBall().cdist(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 0.0], [-2.0, 0.0]]))
            tensor([[3., 5.]])
        """
        z, y = _points("cdist", z, y)
        if self.is_euclidean:
            kind = torch.promote_types(z.dtype, y.dtype)
            return torch.cdist(z.to(kind), y.to(kind), compute_mode="donot_use_mm_for_euclid_dist")
        near = pairwise_dist(z, y, self.c)
        return self.dist(z.unsqueeze(-2), y.unsqueeze(-3)) if near is None else near

    def exp(self, z: Tensor, v: Tensor) -> Tensor:
        """The point reached from z along v [eq:exp].

        Args:
            z: Points, shape (*batch, d).
            v: Tangent vectors at z in metric units, in the frame transported from the origin, shape (*batch, d).

        Example:
            >>> PoincareBall().exp(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
            tensor([1.2700, 0.8230])
        """
        z, v = _points("exp", z, v)
        return z + v if self.is_euclidean else translate(z, v, self.c)

    def log(self, z: Tensor, y: Tensor) -> Tensor:
        """The tangent vector at z that points to y: the inverse of `exp` [eq:log].

        Args:
            z: Points, shape (*batch, d).
            y: Points, shape (*batch, d).

        Example:
            >>> PoincareBall().log(torch.tensor([1.0, 0.0]), torch.tensor([3.0, 0.0]))
            tensor([2., 0.])
        """
        z, y = _points("log", z, y)
        return y - z if self.is_euclidean else translate(-z, y, self.c)

    def geodesic(self, z: Tensor, y: Tensor, s: float | Tensor) -> Tensor:
        """The point at fraction s of the way from z to y: exp_z(s log_z(y)), without the way through the tangent space.

        Args:
            z: Start, shape (*batch, d).
            y: End, shape (*batch, d).
            s: Fraction, a number or a tensor of shape (*batch); 0 is z, 1 is y.

        Example:
            >>> PoincareBall().geodesic(torch.tensor([-1.0, 0.0]), torch.tensor([3.0, 0.0]), 0.5)
            tensor([1., 0.])
        """
        z, y = _points("geodesic", z, y)
        fraction = s.unsqueeze(-1) if isinstance(s, Tensor) and s.dim() > 0 else s
        return z + fraction * (y - z) if self.is_euclidean else geodesic(z, y, fraction, self.c)

    def transport(self, z: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Parallel transport of a tangent vector from z to y along their geodesic; in these frames a rotation.

        Args:
            z: Start, shape (*batch, d).
            y: End, shape (*batch, d).
            v: Tangent vectors at z in metric units, in the frame transported from the origin, shape (*batch, d).

        Example:
            >>> ball, z, y = PoincareBall(), torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
            >>> torch.allclose(ball.transport(z, y, ball.log(z, y)), -ball.log(y, z))
            True
        """
        (z, y), (_, v) = _points("transport", z, y), _points("transport", z, v)
        if self.is_euclidean:
            return v.expand(torch.broadcast_shapes(z.shape, y.shape, v.shape))
        return transport(z, y, v, self.c)

    def busemann(self, z: Tensor, direction: Tensor) -> Tensor:
        """The Busemann function of the point at infinity in a direction: lim d(z, tξ) − t for t → ∞.

        It is 0 at the origin and falls toward the point at infinity; its level sets are horospheres. For c = 0 it is
        −⟨z, ξ⟩.

        Args:
            z: Points, shape (*batch, d).
            direction: ξ, of any length above 0, shape (*batch, d).

        Example:
            >>> PoincareBall().busemann(torch.tensor([3.0, 0.0]), torch.tensor([1.0, 0.0]))
            tensor(-3.)
        """
        z, direction = _points("busemann", z, direction)
        if not self.is_euclidean:
            return busemann(z, direction, self.c)
        return -(z * direction).sum(-1) / torch.linalg.vector_norm(direction, dim=-1)

    def log_volume(self, v: Tensor) -> Tensor:
        """Log of the volume element of the exponential map at distance |v| [eq:volume_element].

        (d − 1) log(sinh(√c|v|)/(√c|v|)); 0 at v = 0 and for c = 0.

        Args:
            v: Tangent vectors in metric units, shape (*batch, d).

        Example:
            >>> PoincareBall().log_volume(torch.tensor([0.0, 2.0]))
            tensor(0.5952)
        """
        v = floating(v)
        return v.new_zeros(v.shape[:-1]) if self.is_euclidean else log_volume(v, self.c)

    def to_ball(self, z: Tensor) -> Tensor:
        """Ball coordinates x = tanh(√c|z|/2)/√c · z/|z| [eq:ball_radius]; z/2 for c = 0 [errata:2].

        In float32 coordinates reach the rim at √c|z| ≈ 17, in float64 at 37: show points with them, do not compute.

        Args:
            z: Points, shape (*batch, d).

        Example:
            >>> PoincareBall().to_ball(torch.tensor([2.0, 0.0]))
            tensor([0.7616, 0.0000])
        """
        z = floating(z)
        return z * (tanhc(self._squared(z) / 4) / 2).to(z.dtype)

    def from_ball(self, x: Tensor) -> Tensor:
        """The point with ball coordinates x, at distance 2 atanh(√c|x|)/√c from the origin [eq:ball_radius].

        Args:
            x: Ball coordinates, √c|x| < 1, shape (*batch, d).

        Raises:
            ValueError: A point lies on the rim or outside.

        Example:
            >>> PoincareBall().from_ball(torch.tensor([0.5, 0.0]))
            tensor([1.0986, 0.0000])
        """
        x = floating(x)
        u = self._squared(x)
        if not torch.compiler.is_compiling() and not bool((u < 1).all()):
            worst = float(u.detach().max().sqrt())
            raise ValueError(
                f"from_ball expects points inside the ball, sqrt(c)·|x| < 1, got {worst:.9g}. Coordinates of distant "
                "points round to the rim; keep points as this class carries them (see to_ball), or use float64."
            )
        return x * (2 * atanhc(u)).to(x.dtype)

    def to_lorentz(self, z: Tensor) -> Tensor:
        """Coordinates (h₀, h) on the hyperboloid: h₀ = cosh(√c|z|), h = sinh(√c|z|)/√c · z/|z|.

        They satisfy −h₀² + c|h|² = −1 and become (1, z) for c = 0. They grow as exp(√c|z|): float32 holds √c|z| ≤ 88.

        Args:
            z: Points, shape (*batch, d).

        Returns:
            Shape (*batch, d + 1), h₀ first.

        Example:
            >>> PoincareBall().to_lorentz(torch.tensor([1.0, 0.0]))
            tensor([1.5431, 1.1752, 0.0000])
        """
        z = floating(z)
        u = self._squared(z)
        # cosh a = 1 + 2 sinh²(a/2), an even function of a like the rest
        h0 = 1 + u / 2 * sinhc(u / 4).square()
        return torch.cat((h0.to(z.dtype), z * sinhc(u).to(z.dtype)), -1)

    def from_lorentz(self, h: Tensor) -> Tensor:
        """The point with hyperboloid coordinates (h₀, h).

        Args:
            h: Shape (*batch, d + 1), h₀ first, with −h₀² + c|h|² = −1.

        Raises:
            ValueError: The coordinates do not lie on this hyperboloid.

        Example:
            >>> ball = PoincareBall(0.5)
            >>> ball.from_lorentz(ball.to_lorentz(torch.tensor([1.0, 3.0])))
            tensor([1.0000, 3.0000])
        """
        h = floating(h)
        h0, space = h[..., :1], h[..., 1:]
        u = self._squared(space)
        if not torch.compiler.is_compiling():
            expected = torch.sqrt(1 + u)
            if not bool(((wide(h0) - expected).abs() <= 1e-3 * expected).all()):
                raise ValueError(
                    f"from_lorentz expects (h0, h) with h0 first and -h0² + c|h|² = -1 for c = {self.c_value:g}. "
                    "Divide time coordinates of a hyperboloid of radius 1/sqrt(c) by that radius, and put them first."
                )
        return space * asinhc(u).to(h.dtype)

    def _squared(self, z: Tensor) -> Tensor:
        """u = c|z|² with the axis kept, in float64: a radius far out needs its last digits."""
        return widened(self.c) * wide(z).square().sum(-1, keepdim=True)


def _points(name: str, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Two points of one dimension, whole numbers as floats."""
    if z.shape[-1:] != y.shape[-1:] or z.dim() == 0:
        raise ValueError(
            f"{name} expects two points of one dimension, (*batch, d), got {tuple(z.shape)} and {tuple(y.shape)}."
        )
    return floating(z), floating(y)
