"""The probability of an edge, given the distance of its ends."""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor, nn

__all__ = ["EDGES", "Direction", "Edges", "FermiDiracEdges", "TanhEdges"]


class Edges(Protocol):
    """What a graph's likelihood needs: log p and log(1 − p) of an edge, by distance, each without cancellation."""

    def log_edge(self, d: Tensor) -> Tensor:
        """Log p(A_ij = 1)."""

    def log_no_edge(self, d: Tensor) -> Tensor:
        """Log p(A_ij = 0)."""

    def parameters(self) -> Any:
        """What is learned."""


class _LogTanh(torch.autograd.Function):
    """Log tanh d. For d → 0 it is log d and its rate 1/d; for d → ∞ both vanish as exp(−2d), to the last digit."""

    @staticmethod
    def forward(d: Tensor) -> Tensor:
        t = torch.exp(-2 * d)
        return torch.where(d < 0.5, torch.log(torch.tanh(d)), torch.log1p(-2 * t / (1 + t)))

    @staticmethod
    def setup_context(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:
        (d,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad * (-4 * torch.exp(-2 * d) / torch.expm1(-4 * d))  # 2/sinh(2d)


class TanhEdges(nn.Module):
    """The paper's distribution, p = 1 − tanh d [eq:edge]: it has nothing to learn.

    Example:
        >>> edges = TanhEdges()
        >>> d = torch.tensor([0.5, 50.0])
        >>> edges.log_edge(d), edges.log_no_edge(d)
        (tensor([ -0.6201, -99.3069]), tensor([-7.7194e-01, -7.5670e-44]))
    """

    def log_edge(self, d: Tensor) -> Tensor:
        """log(1 − tanh d) = −2d − log((1 + exp(−2d))/2), which is −d near 0."""
        return -2 * d - torch.log1p(torch.expm1(-2 * d) / 2)

    def log_no_edge(self, d: Tensor) -> Tensor:
        """Log tanh d."""
        return _LogTanh.apply(d)


class FermiDiracEdges(nn.Module):
    """The Fermi–Dirac distribution, p = 1/(exp((d − r)/t) + 1), with radius r and temperature t learned.

    It starts at r = 0, t = ½, at half of the paper's probability: few pairs of a prior's points are then edges, as few
    pairs of a graph are. From r = 2, t = 1 training ends with all points in one place.

    Args:
        radius: Where r starts.
        temperature: Where t > 0 starts.

    Example:
        >>> FermiDiracEdges(radius=2.0).log_edge(torch.tensor([2.0])).exp()
        tensor([0.5000], grad_fn=<ExpBackward0>)
    """

    def __init__(self, radius: float = 0.0, temperature: float = 0.5) -> None:
        super().__init__()
        self.radius = nn.Parameter(torch.tensor(float(radius)))
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)))

    def log_edge(self, d: Tensor) -> Tensor:
        """Log p, a log-sigmoid."""
        return nn.functional.logsigmoid((self.radius - d) * torch.exp(-self.log_temperature))

    def log_no_edge(self, d: Tensor) -> Tensor:
        """log(1 − p), the log-sigmoid of the negative."""
        return nn.functional.logsigmoid((d - self.radius) * torch.exp(-self.log_temperature))


class Direction(nn.Module):
    """What tells a parent from a child: of a pair (i, j), a child and its parent, γ(|z_j| − |z_i|) is added to d.

    At γ = 1, d + |z_j| − |z_i| is the detour from the origin to i by way of j, twice a Gromov product: 0 for all points
    j on the way, and never less. A node is then below another if it is behind it. γ > 0 is learned.

    Args:
        weight: Where γ starts.

    Example:
        >>> Direction().offset(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([5., 1.], grad_fn=<MulBackward0>)
    """

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.log_weight = nn.Parameter(torch.tensor(math.log(weight)))

    def offset(self, z: Tensor) -> Tensor:
        """γ|z| of points in the tangent chart, shape (n,)."""
        return self.log_weight.exp() * torch.linalg.vector_norm(z, dim=-1)


EDGES = {"tanh": TanhEdges, "fermi_dirac": FermiDiracEdges}
