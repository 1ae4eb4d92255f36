"""The gyroplane layer on a CPU, for points and hyperplanes within reach and a fixed c: the hot path of a decoder.

Lengths are first multiplied by √c. With a = |z|, ℓ = |w|, x = b/ℓ,

    y = H W,   H = (cosh a, z sinh(a)/a),   W = (sinh x, w cosh(x)/ℓ),   f = asinh(y)·ℓ/√c.

At a batch of some hundred points the time goes into starting operations, not into numbers. NumPy starts one in a third
of torch's time, so that H, W and what gradients make of them are NumPy's, in float64, with points and hyperplanes
along the last axis, where a number for each of them meets all coordinates at once. The large arrays, f and those of
its shape, are torch's, some rows at a time so that they stay in cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.nn.gyroplane_function import REACH, SHORTEST, chunks, plain_gyroplane
from horoball.numerics.autograd import differentiated_by
from horoball.numerics.columns import columns, dots
from horoball.numerics.curvature import Curvature, load, save
from horoball.numerics.kernels import looks_ahead

__all__ = ["near_gyroplane"]

_TINY = 1e-30  # floor of √c|z|: sinh(a)/a is 1 there
_LONGEST = 16  # |w|/√c up to which the short formula of asinh errs by no more than the matrix product does
_KEPT = 1 << 18  # elements of output up to which √(1 + y²) is kept for the gradients: beyond, it is cheaper made anew


def near_gyroplane(z: Tensor, weight: Tensor, bias: Tensor, c: Curvature) -> Tensor | None:
    """f for points (*batch, d), normals (out, d) and offsets (out,), or None when they are not for this way.

    Example:
        >>> near_gyroplane(torch.tensor([3.0, 0.0]), torch.tensor([[1.0, 0.0]]), torch.zeros(1), 1.0)
        tensor([3.])
        >>> near_gyroplane(torch.tensor([99.0, 0.0]), torch.tensor([[1.0, 0.0]]), torch.zeros(1), 1.0) is None
        True
    """
    if isinstance(c, Tensor) or c == 0 or not looks_ahead(z) or not z.numel():
        return None
    f, near = _NearGyroplane.apply(z.reshape(-1, z.shape[-1]), weight, bias, c)
    return f.reshape(*z.shape[:-1], weight.shape[0]) if near else None


class _NearGyroplane(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, w: Tensor, b: Tensor, c: float) -> tuple[Tensor, bool]:
        s, reach, kind = math.sqrt(c), REACH[z.dtype], np.float64 if z.dtype == torch.float64 else np.float32
        p, n = columns(z), columns(w)
        p *= s
        a, length = np.sqrt(dots(p, p)), np.sqrt(dots(n, n))
        x = np.multiply(b.detach().numpy(), s, dtype=np.float64)
        np.maximum(length, SHORTEST, out=length)
        x /= length
        if not (a.max() <= reach and -reach <= x.min() and x.max() <= reach):
            return z, False
        np.maximum(a, _TINY, out=a)
        cosh, sinhc = np.cosh(a), np.sinh(a)
        sinhc /= a
        H, W = np.empty((len(p) + 1, len(a)), kind), np.empty((len(p) + 1, len(x)), kind)
        H[0] = cosh
        np.multiply(p, sinhc, out=H[1:], casting="same_kind")
        sinh_x, slant = np.sinh(x), np.cosh(x)
        slant /= length
        W[0] = sinh_x
        np.multiply(n, slant, out=W[1:], casting="same_kind")
        scale = length / s
        f = z.new_empty(len(a), len(x))
        root = torch.empty_like(f) if f.numel() <= _KEPT else None
        _asinh_product(torch.from_numpy(H.T), torch.from_numpy(W), scale, f, root)
        save(ctx, c, z, w, b, f)
        ctx.made = p, n, a, length, x, cosh, sinhc, sinh_x, slant, scale, H, W, root
        return f, True

    @staticmethod
    @differentiated_by(plain_gyroplane)
    def backward(ctx: Any, grad: Tensor, near: None) -> tuple[Tensor | None, ...]:
        c, (*_, f) = load(ctx)
        p, n, a, length, x, cosh, sinhc, sinh_x, slant, scale, H, W, root = ctx.made
        s, kind = math.sqrt(c), H.dtype
        G_H, G_W, sum_gf = _through_asinh(grad, f, root, H, W, scale)
        # Points: ∂cosh a/∂z = sinhc(a) z, ∂sinhc(a)/∂z = (cosh a − sinhc a)/a² z
        to_p = G_H[1:]
        pull = (cosh - sinhc) / (a * a) * dots(to_p, p) + sinhc * G_H[0]
        of_p = to_p * (sinhc * s) + p * (pull * s)
        # Hyperplanes: W is (sinh x, w cosh(x)/ℓ) with x = b/ℓ; and f is a multiple of ℓ
        to_n = G_W[1:]
        along = dots(to_n, n)
        of_x = G_W[0] * (slant * length) + along / length * sinh_x
        of_length = (sum_gf - along * slant - of_x * x) / (length * length)
        of_n = to_n * slant
        of_n += n * of_length
        of_x *= s / length
        grads = (np.ascontiguousarray(part.T, kind) for part in (of_p, of_n))
        return *map(torch.from_numpy, grads), torch.from_numpy(of_x.astype(kind)), None


def _asinh_product(H: Tensor, W: Tensor, scale: np.ndarray, f: Tensor, root: Tensor | None) -> None:
    """f = asinh(y)·scale with y = H W, in place, and √(1 + y²) if there is room for it.

    log(|y| + √(1 + y²)) takes half the passes of the log1p form and errs by a rounding of 1, not of y: in float32 and
    for |w|/√c up to 16 that is no more than the matrix product errs by already.
    """
    one, factor = f.new_ones(()), torch.from_numpy(scale).to(f.dtype)
    brief = f.dtype == torch.float32 and scale.max() <= _LONGEST
    for part, size, work in chunks(f):
        y = torch.mm(H[part], W, out=f[part])
        slope = torch.addcmul(one, y, y, out=work if root is None else root[part]).sqrt_()
        torch.abs(y, out=size)
        if brief:
            size.add_(slope).log_()
        else:
            size.addcmul_(y, torch.div(y, slope + one)).log1p_()
        y.sign_().mul_(size.mul_(factor))


def _through_asinh(
    grad: Tensor, f: Tensor, root: Tensor | None, H: np.ndarray, W: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From the gradient in f to those in H, W, and Σ gf for that in the scale, in float64."""
    rows, planes = torch.from_numpy(H), torch.from_numpy(W)
    scaled = torch.from_numpy((W * scale).astype(W.dtype))
    G_H, G_W, sum_gf = torch.empty_like(rows), torch.zeros_like(planes), f.new_zeros(f.shape[1])
    one = f.new_ones(())
    for part, slope, work in chunks(f):
        g = grad[part]
        if root is None:
            y = torch.mm(rows[:, part].mT, planes, out=slope)
            torch.div(g, torch.addcmul(one, y, y, out=work).sqrt_(), out=slope)
        else:
            torch.div(g, root[part], out=slope)
        torch.mm(scaled, slope.mT, out=G_H[:, part])
        G_W.addmm_(rows[:, part], slope)
        sum_gf += torch.mul(g, f[part], out=work).sum(0)
    by_W = G_W.numpy() * scale
    return G_H.numpy().astype(np.float64), by_W, sum_gf.numpy().astype(np.float64)
