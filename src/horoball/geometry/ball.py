"""The Poincaré ball of curvature −c, carried in the tangent chart: distances, geodesics, horospheres and volumes.

Distances of all pairs take no triangle for each pair. With a = √c|z|, b = √c|y| and the chord |ẑ − ŷ| between
directions, the law of cosines is a sum of two squares,

    sinh²(√c d/2) = sinh²((a − b)/2) + sinh(a) sinh(b) (|ẑ − ŷ|/2)²,

which does not cancel. Only the chords are a matrix of pairs before the last step, and torch has a kernel for those.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from horoball.geometry.autograd import differentiated_by
from horoball.geometry.curvature import Curvature, CurvedSpace, grad_in, load, positive, root, save, value, widened
from horoball.geometry.exponential import plain_log_volume
from horoball.geometry.kernels import (
    asinhc,
    atanhc,
    broadcast_shapes,
    coth_excess,
    floating,
    in_graph,
    log_sinhc,
    may_hold,
    sinhc,
    tanhc,
    transformed,
    wide,
    wide_dtype,
)
from horoball.geometry.translation import translate, translated_radius, transport

_FAR = {torch.float64: 300.0, torch.float32: 40.0}  # exponents up to which a square is a number


def geodesic(z: Tensor, y: Tensor, s: float | Tensor, c: Curvature) -> Tensor:
    """The point at fraction s of the way from z to y.

    On the hyperboloid it is a combination of both ends, h = (sinh((1 − s)D) h_z + sinh(sD) h_y)/sinh D, D = √c d(z, y),
    whose terms cancel only where the way passes the origin. Weights are logarithms: a radius may be of any size.
    """
    kind = torch.promote_types(z.dtype, y.dtype)
    z, y, c = wide(z), wide(y), widened(c)
    fraction = wide(s) if isinstance(s, Tensor) else s
    square = c * translated_radius(z, -y, c).square().unsqueeze(-1)
    whole = log_sinhc(square)
    from_z, from_y = (
        log_sinhc(part * part * square) - whole + log_sinhc(c * (end * end).sum(-1, keepdim=True))
        for part, end in ((1 - fraction, z), (fraction, y))
    )
    size = torch.maximum(from_z, from_y).detach()
    n = (1 - fraction) * torch.exp(from_z - size) * z + fraction * torch.exp(from_y - size) * y  # h·exp(−size)
    u = c * (n * n).sum(-1, keepdim=True)
    far = size > _FAR[size.dtype]
    near = torch.where(far, 0.0, size)
    factor = torch.exp(near) * asinhc(torch.exp(2 * near) * u)
    # asinh x = log 2x there, unless the two ends have undone each other
    u_safe = torch.where(far & (u > 0), u, 1.0)
    beyond = (size + math.log(2) + torch.log(u_safe) / 2) / torch.sqrt(u_safe)
    return (n * torch.where(far, beyond, factor)).to(kind)


_MODERATE = 340.0  # √c·radius up to which sinh(a) sinh(b) is finite in float64
_FLAT = 1e-12  # of c: below it d/√c would lose digits that the general way keeps
_TINY = 1e-60  # floor of sinh²(√c d/2): the distance of a point to itself has no gradient


def pairwise_dist(z: Tensor, y: Tensor, c: Curvature) -> Tensor | None:
    """d(z_i, y_j), shape (*batch, n, m) [eq:dist]; None for points too far out, c too close to 0, or no float64."""
    if in_graph() or wide_dtype(z) != torch.float64 or may_hold(torch.as_tensor(c) < _FLAT):
        return None
    most = _MODERATE / value(root(c))
    if any(may_hold(torch.linalg.vector_norm(x.detach(), dim=-1, dtype=torch.float64) > most) for x in (z, y)):
        return None
    return _Pairs.apply(z, y, c) if _is_recorded(z, y, c) else _pairs(z, y, c)


def _is_recorded(*inputs: Curvature) -> bool:
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in inputs)


def _plain_pairs(z: Tensor, y: Tensor, c: Curvature) -> Tensor:
    """The triangle of each pair."""
    return translated_radius(z.unsqueeze(-2), -y.unsqueeze(-3), c)


class _Pairs(torch.autograd.Function):
    """The same for a gradient, by the graph of `_pairs`; torch knows of no second derivative of its `cdist`."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, y: Tensor, c: Curvature) -> Tensor:
        save(ctx, c, z, y)
        inputs: list[Any] = [x.detach() if isinstance(x, Tensor) else x for x in (z, y, c)]
        ctx.leaves = [
            x.requires_grad_() if needed else None for x, needed in zip(inputs, ctx.needs_input_grad, strict=True)
        ]
        with torch.enable_grad():
            ctx.apart = _pairs(*inputs)
        return ctx.apart.detach()

    @staticmethod
    @differentiated_by(_plain_pairs)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        wanted = [x for x in ctx.leaves if x is not None]
        found = iter(torch.autograd.grad(ctx.apart, wanted, grad, retain_graph=True))
        return tuple(None if x is None else next(found) for x in ctx.leaves)


def _pairs(z: Tensor, y: Tensor, c: Curvature) -> Tensor:
    scale = root(c)
    (u, a), (w, b) = _polar(z, scale), _polar(y, scale)
    chord = torch.cdist(u, w, compute_mode="donot_use_mm_for_euclid_dist")
    a, b = a.unsqueeze(-1), b.unsqueeze(-2)
    half = torch.sinh((a - b) / 2)
    square = half * half + torch.sinh(a) * torch.sinh(b) * (chord * chord) / 4
    apart = torch.asinh(square.clamp_min(_TINY).sqrt()) * 2 / scale
    return torch.where(square > _TINY, apart, 0.0).to(torch.promote_types(z.dtype, y.dtype))


def _polar(z: Tensor, root: Tensor | float) -> tuple[Tensor, Tensor]:
    """Direction and √c·radius, in float64. The origin is given a direction, without which it would have no gradient."""
    z = wide(z)
    aside = z.new_zeros(z.shape[-1])
    aside[0] = 1e-30
    z = z + aside
    radius = torch.linalg.vector_norm(z, dim=-1)
    return z / radius.unsqueeze(-1), radius * root


def busemann(z: Tensor, direction: Tensor, c: Curvature) -> Tensor:
    """log(cosh a − sinh a cos θ)/√c for c > 0, with a = √c|z| and the angle θ between z and the direction."""
    kind = torch.promote_types(z.dtype, direction.dtype)
    z, xi = torch.broadcast_tensors(wide(z), wide(direction))
    xi = xi / torch.linalg.vector_norm(xi, dim=-1, keepdim=True)
    s, u = root(positive(c)), widened(c) * (z * z).sum(-1)
    # Near the origin in even kernels of a², which are smooth there; elsewhere −a + log(1 + (exp 2a − 1) sin²(θ/2)).
    near = u < 1
    small = torch.where(near, u, 0.0)
    rise = small / 2 * sinhc(small / 4).square() - s * sinhc(small) * (torch.where(near[..., None], z, 0.0) * xi).sum(
        -1
    )
    R = torch.linalg.vector_norm(torch.where(near[..., None], xi, z), dim=-1, keepdim=True)
    a = s * R.squeeze(-1)
    across = torch.where(near[..., None], xi, z) / R - xi
    share = (across * across).sum(-1) / 4  # sin²(θ/2)
    held = a.clamp_max(_FAR[a.dtype])
    far = torch.log1p(torch.expm1(2 * held) * share) + torch.where(share > 0, 2 * (a - held), 0.0) - a
    return (torch.where(near, torch.log1p(rise), far) / s).to(kind)


_TINY_RADIUS = 1e-30  # floor of √c|v|: sinh(x)/x is 1 there


class _LogVolume(torch.autograd.Function):
    """∂/∂v = (d − 1) c K(c|v|²) v and ∂/∂c = (d − 1)|v|² K(c|v|²)/2, with K from `coth_excess`."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, c: Curvature) -> Tensor:
        x = torch.linalg.vector_norm(v, dim=-1, dtype=wide_dtype(v)).mul_(root(c))
        save(ctx, c, v, x)
        t = (x * -2).clamp_max_(-_TINY_RADIUS)
        return torch.expm1(t).div_(t).log_().add_(x).mul_(v.shape[-1] - 1).to(v.dtype)

    @staticmethod
    @differentiated_by(plain_log_volume)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        c, (v, x) = load(ctx)
        square = torch.linalg.vector_norm(v, dim=-1, dtype=wide_dtype(v)).square_() if ctx.needs_input_grad[1] else x
        if v.dtype == torch.float32 and x.dtype == torch.float64:
            # For float32 a plain quotient does, with 1/3 − 2e-8 below x = 1e-3.
            x = x.clamp_min(1e-3)
            excess = (x / x.tanh()).sub_(1).div_(x).div_(x)
        else:
            square = torch.linalg.vector_norm(v, dim=-1, dtype=wide_dtype(v)).square_()
            excess = coth_excess(c * square)
        rate = (v.shape[-1] - 1) * grad * excess
        grad_c = grad_in(c, rate * square) / 2 if ctx.needs_input_grad[1] else None
        return (c * rate).to(v.dtype).unsqueeze(-1) * v, grad_c


def log_volume(v: Tensor, c: Curvature) -> Tensor:
    """(d − 1) log(sinh(√c|v|)/(√c|v|)) [eq:volume_element].

    Example:
        >>> log_volume(torch.zeros(3), 1.0)
        tensor(0.)
    """
    return plain_log_volume(v, c) if transformed() else _LogVolume.apply(v, c)


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

    injectivity_radius = math.inf  # exp is one to one

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
            return v.expand(broadcast_shapes(z.shape, y.shape, v.shape))
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
