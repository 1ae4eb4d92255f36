"""An optimizer: Lion (Chen et al. 2023), whose steps are signs of a mean of gradients."""

import torch

from horoball.training.hooks import register_optimizer


@register_optimizer
class Lion(torch.optim.Optimizer):
    """A third of Adam's learning rate is a good start."""

    name = "lion"

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99)):
        super().__init__(params, {"lr": lr, "betas": betas})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                if p.grad is not None:
                    mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                    p.sub_(torch.sign(mean.lerp(p.grad, 1 - one)), alpha=group["lr"])
                    mean.lerp_(p.grad, 1 - two)
