"""exp_μ(v) and the log volume element at v in one autograd function, for devices where starting a kernel is what costs.

Lengths are first multiplied by √c and z is divided by it, so that all is done on the ball of c = 1: a c that is learned
then costs no more than one that is fixed. By way of the hyperboloid, with a = |μ|, b = |v|:

    h = (ρ₁ cosh b + ⟨μ, v⟩ ρ₂ ℓ) μ + ρ₂ v,    ρ₁ = sinh a/a,  ρ₂ = sinh b/b,  ℓ = (cosh a − 1)/a²,
    z = h · asinh(q)/q,   q = |h|.

Vectors meet scalars in three products of small matrices, as rows of one tensor of shape (*batch, 2, d); the scalars of
μ and v are columns of another. Nothing is looked at, so nothing is waited for. All is float64, which is right to
float32's rounding while √c(|μ| + |v|) ≤ 350, unless v all but undoes μ: there the terms cancel by
exp(2√c min(|μ|, |v|)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from horoball.devices import has_float64
from horoball.geometry.curvature import Curvature, load, root, save
from horoball.geometry.exponential import plain_log_volume, plain_translate
from horoball.geometry.kernels import in_graph, wide

if TYPE_CHECKING:
    from horoball.geometry.ball import PoincareBall

__all__ = ["fused_exp", "is_fused"]

_SHORT = 1e-4  # floor of √c·radius: sinh(x)/x is 1 + 2e-9 there, and quotients by x² keep eight digits


def is_fused(x: Tensor, ball: PoincareBall, *, in_float64: bool = True, compiled: bool = False) -> bool:
    """Whether points go this way: float32 off the CPU, and c known to be above 0.

    Args:
        x: Points.
        ball: The ball.
        in_float64: Whether it is computed in float64, which the device has to have then.
        compiled: Whether it is for compiled graphs too, on every device.

    Example:
        >>> from horoball import PoincareBall
        >>> is_fused(torch.zeros(2), PoincareBall(1.0))
        False
    """
    in_compiled = compiled and torch.compiler.is_compiling()
    return (
        x.dtype == torch.float32
        and (in_compiled or (x.device.type not in ("cpu", "meta") and not in_graph()))
        and (has_float64(x.device) or not in_float64)
        and (ball.learnable or not (isinstance(ball.c, Tensor) or ball.is_euclidean))
    )


def fused_exp(mu: Tensor, v: Tensor, c: Curvature, *, volume: bool = True) -> tuple[Tensor, Any]:
    """exp_μ(v) [eq:exp] and log(sinh(√c|v|)/(√c|v|))·(d − 1) [eq:volume_element], if it is asked for.

    Example:
        >>> fused_exp(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]), 1.0)
        (tensor([3., 0.]), tensor(0.5952))
    """
    return _FusedExp.apply(mu, v, c, volume)


class _FusedExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mu: Tensor, v: Tensor, c: Curvature, volume: bool) -> tuple[Tensor, Tensor | None]:
        s = root(c)
        x = torch.stack((mu, v), -2).double().mul_(s)
        gram = x @ x.mT
        ab = gram.diagonal(dim1=-2, dim2=-1).sqrt().clamp_min_(_SHORT)
        sinh, cosh = ab.sinh(), ab.cosh()
        rho = sinh.div_(ab)
        (rho1, rho2), (cosh1, cosh2) = rho.unbind(-1), cosh.unbind(-1)
        lift = (rho1 * rho1).div_(cosh1 + 1)
        across = gram[..., 0, 1] * rho2
        weights = torch.stack((torch.addcmul(rho1 * cosh2, across, lift), rho2), -1)
        h = (weights.unsqueeze(-2) @ x).squeeze(-2)
        q = torch.linalg.vector_norm(h, dim=-1, keepdim=True).clamp_min_(_SHORT)
        factor = q.asinh().div_(q)
        z = (h * factor).div_(s).to(mu.dtype)
        save(ctx, c, mu, v, x, gram, ab, rho, cosh, lift, across, weights, h, q, factor)
        return z, rho2.log().mul_(mu.shape[-1] - 1).to(mu.dtype) if volume else None

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_volume: Tensor | None) -> tuple[Tensor | None, ...]:
        c, (mu, v, x, gram, ab, rho, cosh, lift, across, weights, h, q, factor) = load(ctx)
        if torch.is_grad_enabled():
            return _again(mu, v, c, grad, grad_volume)
        s = root(c)
        (rho1, rho2), cosh2 = rho.unbind(-1), cosh[..., 1]
        g = grad.double().div_(s)
        # z = h·factor(q): along h the factor changes by (1/√(1 + q²) − factor)/q
        square = q * q
        bend = (square + 1).rsqrt_().sub_(factor).div_(square)
        along = (g * h).sum(-1, keepdim=True)
        g_h = (g * factor).addcmul_(h, along * bend)
        g1, g2 = (g_h.unsqueeze(-2) @ x.mT).squeeze(-2).unbind(-1)
        # What each scalar changes by, over the radius it depends on
        radius = ab * ab
        d_rho = (cosh - rho).div_(radius)
        d_lift = torch.add(rho1, lift, alpha=-2).div_(radius[..., 0])
        g_mu = torch.addcmul(d_rho[..., 0] * cosh2, across, d_lift).mul_(g1)
        if grad_volume is not None:
            g2 = torch.addcdiv(g2, grad_volume.double(), rho2, value=mu.shape[-1] - 1)
        by_v = torch.addcmul(rho1 * rho2, gram[..., 0, 1] * lift, d_rho[..., 1])
        g_v = torch.addcmul(by_v.mul_(g1), g2, d_rho[..., 1])
        g_mixed = (rho2 * lift).mul_(g1)
        mixing = torch.stack((g_mu, g_mixed, g_mixed, g_v), -1).unflatten(-1, (2, 2))
        g_x = (mixing @ x).addcmul_(weights.unsqueeze(-1), g_h.unsqueeze(-2))
        grad_c = None
        if ctx.needs_input_grad[2]:  # through √c, by which x was multiplied and z divided
            grad_c = ((g_x * x).sum() - (along * factor).sum()).div_(2 * wide(c)).to(c.dtype).reshape(c.shape)
        return *g_x.mul_(s).to(grad.dtype).unbind(-2), grad_c, None


def _again(mu: Tensor, v: Tensor, c: Curvature, grad: Tensor, grad_volume: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients once more, by formulas that autograd differentiates any number of times."""
    inputs = [x.view_as(x) for x in (mu, v, c) if isinstance(x, Tensor)]
    mu, v = inputs[:2]
    c = inputs[2] if len(inputs) > 2 else c
    outputs, grads = [plain_translate(mu, v, c)], [grad]
    if grad_volume is not None:
        outputs, grads = [*outputs, plain_log_volume(v, c)], [*grads, grad_volume]
    found = torch.autograd.grad(outputs, inputs, grads, create_graph=True)
    return *found, *(None,) * (4 - len(found))
