"""Posteriors: from a network's numbers to a distribution on the ball."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.manifolds import PoincareBall

__all__ = [
    "LEAST_SCALE",
    "POSTERIORS",
    "SCALES",
    "check_posterior",
    "mean_scale",
    "place",
    "posterior",
    "posterior_kind",
    "posterior_size",
]

POSTERIORS = {"riemannian": RiemannianNormal, "wrapped": WrappedNormal}
SCALES = ("isotropic", "diagonal", "full")
LEAST_SCALE = 1e-5  # softplus rounds to 0 in float32 for inputs below −104


def posterior_kind(name: str, d: int) -> type[RiemannianNormal] | type[WrappedNormal]:
    """The class of a posterior by its name; on a line, d = 1, both are the plain normal.

    Example:
        >>> posterior_kind("riemannian", 2).__name__
        'RiemannianNormal'
    """
    return WrappedNormal if d == 1 else POSTERIORS[name]


def check_posterior(kind: str, scale: str) -> None:
    """Refuse a posterior that does not exist.

    Example:
        >>> check_posterior("riemannian", "full")
        Traceback (most recent call last):
            ...
        ValueError: A Riemannian normal has one scale, got scale = 'full'. Take posterior="wrapped".
    """
    for name, value, choices in (("posterior", kind, tuple(POSTERIORS)), ("scale", scale, SCALES)):
        if value not in choices:
            raise ValueError(f"Unknown {name} {value!r}. Choose one of: {', '.join(choices)}.")
    if kind == "riemannian" and scale != "isotropic":
        raise ValueError(f'A Riemannian normal has one scale, got scale = {scale!r}. Take posterior="wrapped".')


def posterior_size(d: int, scale: str = "isotropic") -> int:
    """Numbers that a network emits for one posterior: its mean, then its scale.

    Example:
        >>> [posterior_size(3, scale) for scale in SCALES]
        [4, 6, 9]
    """
    return d + {"isotropic": 1, "diagonal": d, "full": d * (d + 1) // 2}[scale]


def posterior(
    outputs: Tensor, d: int, ball: PoincareBall, kind: str = "riemannian", scale: str = "isotropic"
) -> RiemannianNormal | WrappedNormal:
    """The posterior that a network's numbers stand for.

    The mean is a tangent vector at the origin in metric units, which is how points are carried: the exp₀ that the paper
    applies to the network's output is no operation here. Scales are a softplus [errata:7]: one for all axes, as in the
    paper, one for each axis, or a Cholesky factor with free numbers below its diagonal.

    Args:
        outputs: Shape (*batch, posterior_size(d, scale)).
        d: Dimension of the ball.
        ball: The ball.
        kind: "riemannian" or "wrapped".
        scale: "isotropic", "diagonal" or "full".

    Example:
        >>> posterior(torch.zeros(4, 5), 2, PoincareBall(1.0), "wrapped", "full").scale_tril.shape
        torch.Size([4, 2, 2])
    """
    loc, raw = outputs.split((d, outputs.shape[-1] - d), -1)
    law = posterior_kind(kind, d)
    # Not validated at every step: a network's NaN is found by the training loop, which can say where it came from.
    if scale != "full":
        return law(loc, nn.functional.softplus(raw) + LEAST_SCALE, ball, validate_args=False)
    diagonal, below = raw.split((d, raw.shape[-1] - d), -1)
    rows, columns = torch.tril_indices(d, d, -1, device=raw.device)
    factor = torch.diag_embed(nn.functional.softplus(diagonal) + LEAST_SCALE)
    factor[..., rows, columns] = below
    return WrappedNormal(loc, ball=ball, scale_tril=factor, validate_args=False)


def mean_scale(q: RiemannianNormal | WrappedNormal) -> Tensor:
    """One number for how wide a posterior is: its scale, the mean over the axes if they differ.

    Example:
        >>> mean_scale(posterior(torch.zeros(1, 4), 2, PoincareBall(1.0), "wrapped", "diagonal"))
        tensor([0.6932])
    """
    scale = q.scale if q.scale is not None else torch.linalg.vector_norm(q.scale_tril, dim=-1)
    return scale.mean(-1)


def place(q: RiemannianNormal | WrappedNormal) -> tuple[Tensor, Tensor, Tensor]:
    """What is told of posteriors: ball coordinates of the means, distances from the origin, scales; float64.

    Example:
        >>> z, radius, scale = place(posterior(torch.tensor([[3.0, 4.0, 0.0]]), 2, PoincareBall(1.0)))
        >>> z, radius
        (tensor([[0.5920, 0.7893]], dtype=torch.float64), tensor([5.], dtype=torch.float64))
    """
    z = q.mean.double()
    return q.ball.to_ball(z), torch.linalg.vector_norm(z, dim=-1), mean_scale(q).double()
