"""A prior: affine couplings of the tangent coordinates (RealNVP, Dinh et al. 2017), in torch's own distributions."""

import torch
from torch import nn
from torch.distributions import Independent, Normal, TransformedDistribution, constraints
from torch.distributions.transforms import Transform

from horoball.vae.parts import register_prior


class Coupling(Transform):
    """Coordinates that are kept say how the others are moved and stretched."""

    domain = codomain = constraints.real_vector
    bijective = True

    def __init__(self, network, kept):
        super().__init__()
        self.network, self.kept = network, kept

    def _of(self, x):
        shift, raw = self.network(x * self.kept).chunk(2, -1)
        return (1 - self.kept) * shift, (1 - self.kept) * raw.tanh()

    def _call(self, x):
        shift, stretch = self._of(x)
        return x * stretch.exp() + shift

    def _inverse(self, y):
        shift, stretch = self._of(y)  # what is kept is the same in both
        return (y - shift) * (-stretch).exp()

    def log_abs_det_jacobian(self, x, y):
        return self._of(x)[1].sum(-1)


@register_prior
class Flow(nn.Module):
    """p(z) of any form: a normal of d numbers through some couplings."""

    name = "flow"

    def __init__(self, d, manifold, scale=1.0, couplings=4, hidden=32):
        super().__init__()
        self.ball = manifold
        self.register_buffer("at", torch.zeros(d), persistent=False)
        self.register_buffer("scale", torch.full((d,), float(scale)), persistent=False)
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(d, hidden), nn.Tanh(), nn.Linear(hidden, 2 * d)) for _ in range(couplings)
        )

    def forward(self):
        even = (torch.arange(len(self.at), device=self.at.device) % 2).to(self.at)
        couplings = [Coupling(network, (even, 1 - even)[k % 2]) for k, network in enumerate(self.networks)]
        normal = Independent(Normal(self.at, self.scale, validate_args=False), 1, validate_args=False)
        return TransformedDistribution(normal, couplings, validate_args=False)
