"""The Riemannian normal: the distribution of maximum entropy for its mean and dispersion."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints

from horoball.distributions.base import in_float64
from horoball.distributions.normal import BallNormal, register_posterior
from horoball.distributions.radius import HyperbolicRadius, draw, log_normalizer, radius_nodes
from horoball.distributions.sampled import RiemannianNoise, is_suited, sampled_divergence
from horoball.distributions.sphere import log_area, unit_vectors
from horoball.distributions.wrapped_normal import WrappedNormal
from horoball.geometry.ball import PoincareBall
from horoball.geometry.curvature import CurvedSpace
from horoball.geometry.kernels import broadcast_shapes, in_graph, looks_ahead, wide, wide_dtype
from horoball.geometry.random import standard_normal


@register_posterior
class RiemannianNormal(BallNormal):
    r"""The Riemannian normal N^R(μ, σ²) of the Poincaré ball [eq:core_maxent_normal_hyp].

    Its density falls with the distance from μ alone:

        log N^R(z | μ, σ²) = −d(μ, z)²/2σ² − log Z_r(σ, c) − log area(S^(d−1)).

    A sample is exp_μ(r·α) with the direction α uniform and the radius r from `HyperbolicRadius`, by inversion, with
    gradients in μ, σ and c. For c = 0 it is the isotropic normal.

    Args:
        loc: μ, shape (*batch, d), d ≥ 2, in the tangent chart.
        scale: σ > 0, shape (*batch, 1).
        ball: The ball.
        validate_args: As in torch.distributions.

    Example:
        >>> q = RiemannianNormal(torch.zeros(4, 2), torch.full((4, 1), 0.5), PoincareBall(1.0))
        >>> z, log_q = q.rsample_and_log_prob((10,))
        >>> z.shape, log_q.shape
        (torch.Size([10, 4, 2]), torch.Size([10, 4]))
        >>> torch.allclose(q.log_prob(z), log_q, atol=1e-4)
        True
    """

    name = "riemannian"
    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    _parameters = ("scale",)
    _fixed: tuple[Tensor, Tensor] | None = None

    def __init__(self, loc: Tensor, scale: Tensor, ball: PoincareBall, *, validate_args: bool | None = None) -> None:
        d = loc.shape[-1]
        if not isinstance(ball, CurvedSpace):
            raise TypeError(
                f"RiemannianNormal is known on PoincareBall, not on {type(ball).__name__}. Use WrappedNormal."
            )
        if d < 2:
            raise ValueError(f"RiemannianNormal needs d >= 2, got {d}. On a line use WrappedNormal, the plain normal.")
        if scale.dim() == 0 or scale.shape[-1] != 1:
            raise ValueError(
                f"RiemannianNormal expects one scale per point, shape (*, 1), got {tuple(scale.shape)}. "
                "WrappedNormal takes one scale per axis."
            )
        batch_shape = broadcast_shapes(loc.shape[:-1], scale.shape[:-1])
        self.scale = scale if scale.shape[:-1] == batch_shape else scale.expand(*batch_shape, 1)
        super().__init__(loc, ball, batch_shape, validate_args)

    @classmethod
    def isotropic(cls, loc: Tensor, scale: Tensor, ball: PoincareBall) -> BallNormal:
        """The Riemannian normal; on a line, d = 1, where the two families agree, the wrapped one."""
        if loc.shape[-1] == 1:
            return WrappedNormal.isotropic(loc, scale, ball)
        return cls(loc, scale, ball, validate_args=False)

    @property
    def radius(self) -> HyperbolicRadius:
        """The distribution of d(μ, z)."""
        return HyperbolicRadius(self.loc.shape[-1], self.scale.squeeze(-1), self.ball, validate_args=False)

    @property
    def log_normalizer(self) -> Tensor:
        """log Z = log Z_r + log area(S^(d−1)), shape (*batch) [eq:volume].

        Example:
            >>> RiemannianNormal(torch.zeros(2), torch.ones(1), PoincareBall(0.0)).log_normalizer  # log 2π
            tensor(1.8379)
        """
        return self._log_z().to(self.scale.dtype)

    def _log_z(self) -> Tensor:
        """log Z in float64: its two terms cancel, and the energy it is added to is as large."""
        d = self.loc.shape[-1]
        return log_normalizer(self.scale.squeeze(-1), self.ball.c, d) + log_area(d)

    def _terms(self) -> tuple[Tensor, Tensor]:
        """log Z and σ² in float64. A prior is asked for them at every step, so that it keeps them if they are fixed."""
        if self._fixed is not None:
            return self._fixed
        sigma = wide(self.scale.squeeze(-1))
        terms = self._log_z(), sigma * sigma
        learned = self.scale.requires_grad or self.ball.learnable
        # Made in inference mode they could not be used in training afterwards. A compiled graph cannot ask for that.
        if self.centered and not learned and not in_graph() and not terms[0].is_inference():
            self._fixed = terms
        return terms

    def rsample_and_divergence(
        self,
        prior: Any,
        sample_shape: Any = torch.Size(),  # noqa: B008
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Points and log q(z) − log p(z); in training on a CPU in one function."""
        shape = self._extended_shape(sample_shape)
        if type(self) is not RiemannianNormal or not is_suited(self, prior, shape):
            return super().rsample_and_divergence(prior, sample_shape, generator)
        epsilon, x = self._noise(shape, generator)
        epsilon, x = epsilon.reshape(self.batch_shape), x.reshape(self.loc.shape)

        def again(loc: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
            q = RiemannianNormal(loc, scale, self.ball, validate_args=False)
            v, log_q = q._from_noise(epsilon, x)
            z = q._carried(v)
            return z, log_q - prior.log_prob(z)

        constant = prior._terms()[0].item() - log_area(shape[-1])
        return sampled_divergence(self, RiemannianNoise(epsilon, x, prior.scale.item(), constant), shape, again)

    def _draw(self, shape: torch.Size, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        return self._from_noise(*self._noise(shape, generator))

    def _noise(self, shape: torch.Size, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Normal numbers for radii, and vectors for directions."""
        device = self.loc.device
        epsilon = standard_normal(shape[:-1], torch.float64, device, row_axis=-1, generator=generator)
        return epsilon, standard_normal(shape, self.loc.dtype, device, generator=generator)

    def _from_noise(self, epsilon: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        d = x.shape[-1]
        r, log_q = draw(self.scale.squeeze(-1), self.ball.c, epsilon, d, log_area(d))
        # |v| is to be r to the last digit: log q falls with its square. So the product is rounded once, at the end.
        if looks_ahead(x) or in_graph():
            v = unit_vectors(wide(x)) * r.unsqueeze(-1)
        else:  # the same in fewer operations; a vector of zeros is never drawn
            norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=wide_dtype(x))
            v = x * (r.unsqueeze(-1) / norm.clamp_min_(torch.finfo(x.dtype).tiny))
        return v.to(x.dtype), log_q.to(x.dtype)

    def _log_density(self, v: Tensor) -> Tensor:
        # Summed in float64: both terms grow as (d − 1)²cσ² and float32 would round each.
        x, (log_z, variance) = wide(v), self._terms()
        return torch.addcdiv(log_z, (x * x).sum(-1), variance, value=0.5).neg_().to(v.dtype)

    @in_float64
    def entropy(self) -> Tensor:
        """−E[log q(z)] = log Z + E[r²]/2σ².

        Example:
            >>> RiemannianNormal(torch.zeros(2), torch.ones(1), PoincareBall(0.0)).entropy()  # 1 + log 2π
            tensor(2.8379)
        """
        sigma = wide(self.scale)
        t, w = radius_nodes((self.ball.c * sigma * sigma).squeeze(-1), self.loc.shape[-1])
        return (self._log_z() + (w * t * t).sum(-1) / 2).to(self.scale.dtype)
