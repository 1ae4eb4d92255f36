"""The wrapped normal: a normal vector in the tangent space, carried to the mean and wrapped around the ball."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints

from horoball.distributions.base import in_float64
from horoball.distributions.normal import BallNormal, positive, register_posterior
from horoball.distributions.radius import radius_nodes
from horoball.distributions.sampled import WrappedNoise, is_suited, sampled_divergence
from horoball.geometry.ball import PoincareBall
from horoball.geometry.curvature import CurvedSpace
from horoball.geometry.exponential import fused_exp, is_fused
from horoball.geometry.kernels import broadcast_shapes, log_sinhc, wide
from horoball.geometry.manifold import check_bijective
from horoball.geometry.random import standard_normal


@register_posterior
class WrappedNormal(BallNormal):
    r"""The wrapped normal N^W(μ, Σ) of the Poincaré ball [eq:core_wrapped_normal_hyp].

    z = exp_μ(v) with v ~ N(0, Σ) in metric units, in the frame transported from the origin; its density is

        log N^W(z | μ, Σ) = log N(v | 0, Σ) − (d − 1) log(sinh(√c|v|)/(√c|v|)),      v = log_μ(z).

    Args:
        loc: μ, shape (*batch, d), in the tangent chart.
        scale: σ > 0, shape (*batch, 1) for Σ = σ²I or (*batch, d) for a diagonal Σ.
        ball: The ball.
        scale_tril: Instead of scale, the Cholesky factor of Σ, shape (*batch, d, d).
        validate_args: As in torch.distributions.

    Example:
        >>> q = WrappedNormal(torch.zeros(4, 2), torch.full((4, 1), 0.5), PoincareBall(1.0))
        >>> z, log_q = q.rsample_and_log_prob((10,))
        >>> z.shape, log_q.shape
        (torch.Size([10, 4, 2]), torch.Size([10, 4]))
        >>> torch.allclose(q.log_prob(z), log_q, atol=1e-4)
        True
    """

    name = "wrapped"
    scales = ("isotropic", "diagonal", "full", "rotated")
    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real,
        "scale": constraints.positive,
        "scale_tril": constraints.lower_cholesky,
    }
    _parameters = ("scale", "scale_tril")
    scale_tril: Any  # a tensor if scale is None

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor | None = None,
        ball: PoincareBall | None = None,
        *,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if ball is None:
            raise TypeError("WrappedNormal needs a ball: WrappedNormal(loc, scale, PoincareBall(c=1.0)).")
        if not isinstance(ball, CurvedSpace):
            check_bijective(ball, "WrappedNormal")
        given = scale if scale is not None else scale_tril
        if given is None or (scale is not None and scale_tril is not None):
            raise ValueError("WrappedNormal expects either scale or scale_tril.")
        d = loc.shape[-1]
        expected = ((1,), (d,)) if scale is not None else ((d, d),)
        axes = len(expected[0])
        if tuple(given.shape[-axes:]) not in expected:
            name, shapes = ("scale", "(*, 1) or (*, d)") if scale is not None else ("scale_tril", "(*, d, d)")
            raise ValueError(
                f"WrappedNormal with loc of shape {tuple(loc.shape)} expects {name} of shape {shapes}, d = {d}, "
                f"got {tuple(given.shape)}."
            )
        batch_shape = loc.shape[:-1]
        if given.shape[:-axes] != batch_shape:
            batch_shape = broadcast_shapes(batch_shape, given.shape[:-axes])
            given = given.expand(*batch_shape, *given.shape[-axes:])
        self._event_axes = axes
        self.scale, self.scale_tril = (given, None) if scale is not None else (None, given)
        # torch validates every constrained attribute; only one of the two exists.
        name = "scale" if scale is not None else "scale_tril"
        self.arg_constraints = {"loc": constraints.real, name: type(self).arg_constraints[name]}
        super().__init__(loc, ball, batch_shape, validate_args)

    @classmethod
    def isotropic(cls, loc: Tensor, scale: Tensor, ball: PoincareBall) -> BallNormal:
        """Σ = σ²I."""
        return cls(loc, scale, ball, validate_args=False)

    @classmethod
    def network_size(cls, d: int, scale: str = "isotropic") -> int:
        """Numbers for the location, then 1, d or d(d + 1)/2 for the scale."""
        cls.check_scale(scale)
        return d + {"isotropic": 1, "full": d * (d + 1) // 2}.get(scale, d)

    @classmethod
    def from_network(cls, outputs: Tensor, d: int, ball: PoincareBall, scale: str = "isotropic") -> BallNormal:
        """One scale, as in the paper, one for each axis, or a Cholesky factor with free numbers below its diagonal.

        Axes that are "rotated" are the mean's own: Σ = R diag(σ²) Rᵀ with the rotation R of e₁ to μ/|μ|, in their plane
        (RoWN, Cho et al. 2022) [eq:rotated_wrapped_normal].
        """
        if scale == "rotated":
            loc, raw = outputs.split((d, d), -1)
            return cls(loc, ball=ball, scale_tril=_rotated_factor(loc, positive(raw)), validate_args=False)
        if scale != "full":
            return super().from_network(outputs, d, ball, scale)  # the shape of the scale says which
        loc, diagonal, below = outputs.split((d, d, outputs.shape[-1] - 2 * d), -1)
        rows, columns = torch.tril_indices(d, d, -1, device=outputs.device)
        factor = torch.diag_embed(positive(diagonal))
        factor[..., rows, columns] = below
        return cls(loc, ball=ball, scale_tril=factor, validate_args=False)

    @property
    def mean_scale(self) -> Tensor:
        """The standard deviation, averaged over the axes."""
        if self.scale is not None:
            return super().mean_scale
        return torch.linalg.vector_norm(self.scale_tril, dim=-1).mean(-1)

    @property
    def is_isotropic(self) -> bool:
        """Whether Σ = σ²I."""
        return self.scale is not None and self.scale.shape[-1] == 1

    def rsample_and_log_prob(
        self,
        sample_shape: Any = torch.Size(),  # noqa: B008
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Points and their log density, from the noise that made them; on a GPU in one function."""
        if type(self)._draw is not WrappedNormal._draw or not is_fused(self.loc, self.ball):
            return super().rsample_and_log_prob(sample_shape, generator)
        v, log_normal = self._draw_normal(self._extended_shape(sample_shape), generator)
        z, volume = fused_exp(self.loc.expand_as(v), v, self.ball.c)
        return z, log_normal - volume

    def rsample_and_divergence(
        self,
        prior: Any,
        sample_shape: Any = torch.Size(),  # noqa: B008
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Points and log q(z) − log p(z); in training on a CPU in one function."""
        shape = self._extended_shape(sample_shape)
        if type(self) is not WrappedNormal or not self.is_isotropic or not is_suited(self, prior, shape):
            return super().rsample_and_divergence(prior, sample_shape, generator)
        epsilon = standard_normal(shape, self.loc.dtype, self.loc.device, generator=generator).reshape(self.loc.shape)

        def again(loc: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
            q = WrappedNormal(loc, scale, self.ball, validate_args=False)
            v = scale * epsilon
            z = q._carried(v)
            return z, q._log_normal(epsilon) - q.ball.log_volume(v) - prior.log_prob(z)

        return sampled_divergence(self, WrappedNoise(epsilon, prior.scale.item()), shape, again)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        v, log_normal = self._draw_normal(shape, generator)
        return v, log_normal - self.ball.log_volume(v)

    def _draw_normal(self, shape: torch.Size, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """v ~ N(0, Σ) and its log density in the tangent space."""
        epsilon = standard_normal(shape, self.loc.dtype, self.loc.device, generator=generator)
        if self.scale is not None:
            v = self.scale * epsilon
        else:
            v = (self.scale_tril @ epsilon.unsqueeze(-1)).squeeze(-1)
        return v, self._log_normal(epsilon)

    def _log_density(self, v: Tensor) -> Tensor:
        if self.scale is not None:
            epsilon = v / self.scale
        else:
            epsilon = torch.linalg.solve_triangular(self.scale_tril, v.unsqueeze(-1), upper=False).squeeze(-1)
        return self._log_normal(epsilon) - self.ball.log_volume(v)

    def _log_normal(self, epsilon: Tensor) -> Tensor:
        """log N(v | 0, Σ) from v = Σ^½ ε, with the plain normal's constant [errata:4]."""
        constant = self.loc.shape[-1] / 2 * math.log(2 * math.pi)
        return (epsilon * epsilon).sum(-1).mul(-0.5).sub(constant) - self._log_det()

    def _log_det(self) -> Tensor:
        """log |Σ|/2."""
        if self.scale_tril is not None:
            return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        if self.is_isotropic:
            return self.scale.squeeze(-1).log() * self.loc.shape[-1]
        return self.scale.log().sum(-1)

    @property
    def variances(self) -> Tensor:
        """Eigenvalues of Σ (a single one for Σ = σ²I), shape (*batch, 1) or (*batch, d)."""
        if self.scale is not None:
            return self.scale.square()
        return torch.linalg.eigvalsh(self.scale_tril @ self.scale_tril.mT)

    @in_float64
    def entropy(self) -> Tensor:
        """−E[log q(z)] = log|2πeΣ|/2 + (d − 1) E[log(sinh(√c|v|)/(√c|v|))].

        Example:
            >>> WrappedNormal(torch.zeros(2), torch.ones(1), PoincareBall(1.0)).entropy()
            tensor(3.1378)
        """
        if not isinstance(self.ball, CurvedSpace):
            raise NotImplementedError(
                f"The entropy of a wrapped normal is known on PoincareBall, not on {type(self.ball).__name__}. "
                "Estimate it: -q.rsample_and_log_prob((n,))[1].mean(0)."
            )
        d = self.loc.shape[-1]
        plain = self._log_det() + d / 2 * (1 + math.log(2 * math.pi))
        if d == 1 or self.ball.is_euclidean:
            return plain
        u = self.ball.c * wide(self.variances)
        if self.is_isotropic:
            t, w = radius_nodes(u.new_zeros(()), d, graded=True)  # for wide ones it is a logarithm at 0
            volume = (w * log_sinhc(u * t * t)).sum(-1)
        else:
            volume = _expected_log_sinhc(u)
        return plain + ((d - 1) * volume).to(plain.dtype)


def _rotated_factor(loc: Tensor, scale: Tensor) -> Tensor:
    """L with LLᵀ = R diag(σ²) Rᵀ: the first axis lies along the mean.

    R = I + A + A²/(1 + ⟨x, y⟩) with A = yxᵀ − xyᵀ and y = μ/|μ| is the rotation from x = ±e₁, whichever is nearer to μ,
    to y, in their plane. Where μ is 0 nothing is rotated.
    """
    d = loc.shape[-1]
    unit = torch.eye(d, dtype=loc.dtype, device=loc.device)
    x = torch.where(loc[..., :1] < 0, -unit[0], unit[0])
    norm = torch.linalg.vector_norm(loc, dim=-1, keepdim=True)
    y = torch.where(norm > 0, loc / torch.where(norm > 0, norm, 1.0), x)
    turn = y.unsqueeze(-1) * x.unsqueeze(-2) - x.unsqueeze(-1) * y.unsqueeze(-2)
    rotation = unit + turn + turn @ turn / (1 + (x * y).sum(-1)).unsqueeze(-1).unsqueeze(-1)
    # (R diag σ)ᵀ = QL*: a Cholesky factorization of the product would lose half of the digits.
    upper = torch.linalg.qr((rotation * scale.unsqueeze(-2)).mT).R
    return upper.mT * torch.where(upper.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).unsqueeze(-2)


def _expected_log_sinhc(u: Tensor) -> Tensor:
    """E[log(sinh|x|/|x|)] for x normal with mean 0 and variances u, on the last axis.

    sinh|x|/|x| = Π (1 + |x|²/k²π²) and log(1 + y) = ∫ (1 − exp(−sy)) exp(−s) ds/s, so the mean is

        ∫ (1 − Π (1 + 2su_i)^(−½)) Σ_k exp(−sk²π²) ds/s,

    by the trapezoidal rule in log s, which converges geometrically. Below the lowest s the integrand falls as √s.
    """
    step = 0.25
    total = u.new_zeros(u.shape[:-1])
    if not total.numel():
        return total
    if torch.compiler.is_compiling():  # the number of nodes is then fixed: enough for u up to 1e16
        widest = math.log(1e16)
    else:
        widest = float(u.detach().sum(-1).max().clamp_min(1.0).log())
    lowest = -66.0 - 2 * widest
    log_s = torch.arange(lowest, 1.5, step, dtype=u.dtype, device=u.device)
    k = torch.arange(1, 5, dtype=u.dtype, device=u.device)
    for part in log_s.split(32):  # a bounded number of nodes at a time
        s = part.exp()
        # Θ(s) = Σ exp(−sk²π²), by its reflection (1/√(πs) − 1)/2 + Σ exp(−k²/s)/√(πs) where that converges faster
        direct = torch.exp(-s.unsqueeze(-1) * (k * math.pi).square()).sum(-1)
        mirrored = (0.5 + torch.exp(-k.square() / s.unsqueeze(-1)).sum(-1)) / torch.sqrt(math.pi * s) - 0.5
        theta = torch.where(s > 1 / math.pi, direct, mirrored)
        spread = -torch.expm1(-torch.log1p(2 * u.unsqueeze(-1) * s).sum(-2) / 2)
        total = total + step * (theta * spread).sum(-1)
    return total
