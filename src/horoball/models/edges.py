"""The probability of an edge, given the distance of its ends."""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor, nn

__all__ = ["EDGES", "Edges", "FermiDiracEdges", "TanhEdges"]


class Edges(Protocol):
    """What a graph's likelihood needs: log p and log(1 − p) of an edge, by distance, each without cancellation."""

    def log_edge(self, d: Tensor) -> Tensor:
        """Log p(A_ij = 1)."""

    def log_no_edge(self, d: Tensor) -> Tensor:
        """Log p(A_ij = 0)."""

    def parameters(self) -> Any:
        """What is learnt."""


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
    """The paper's law, p = 1 − tanh d [eq:edge]: it has nothing to learn.

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
    """The Fermi–Dirac law, p = 1/(exp((d − r)/t) + 1), with radius r and temperature t learnt.

    It starts at r = 0, t = ½, where it is half the paper's law: few pairs of a prior's points are then edges, as few
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


EDGES = {"tanh": TanhEdges, "fermi_dirac": FermiDiracEdges}
