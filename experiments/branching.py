"""The model of the branching diffusion process, as Table 1 and what goes beyond it train it (§5.1, App. C.1).

Where the paper is silent: a seed draws a tree and a split of its own, so that an interval is over trees too; the
posterior is the Riemannian normal; each feature is standardized over all observations.
"""

from __future__ import annotations

from typing import Any

import torch

from experiments import mnist
from experiments.runs import results
from horoball.datasets import Branching, branching_diffusion
from horoball.tables import ArrayTable
from horoball.training import TrainConfig, log_likelihood
from horoball.vae import VAE, ModelConfig, fit

__all__ = ["STUDY", "found", "run", "split", "trained"]

STUDY = "branching"
_TRAINING = TrainConfig(max_epochs=1000, batch_size=64, learning_rate=1e-3, validation=0.0, patience=0)


def split(seed: int) -> tuple[Branching, torch.Tensor, torch.Tensor]:
    """A tree, and the numbers of its observations to train on and to test on, 0.7 and 0.3 of them."""
    tree = branching_diffusion(seed=seed)
    order = torch.randperm(len(tree.x), generator=torch.Generator().manual_seed(seed))
    train, test = order.tensor_split([round(0.7 * len(order))])
    return tree, train, test


def trained(
    c: float,
    prior_scale: float,
    seed: int,
    posterior: str = "riemannian",
    scale: str = "isotropic",
    learn: str = "",
    start: str = "linear",
    epochs: int = 1000,
) -> VAE:
    """A model trained on the tree of a seed; `learn` is "", "c" or "prior", `start` "linear" or "spread"."""
    tree, train, _ = split(seed)
    torch.manual_seed(seed)
    config = ModelConfig(
        features=tree.x.shape[1],
        c=c,
        learn_c=learn == "c",
        posterior=posterior,
        scale=scale,
        prior_scale=prior_scale,
        learn_prior=learn == "prior",
        hidden=(200,),
    )
    model = VAE.from_config(config)
    if start == "spread":
        mnist.spread(model.decoder.network[0])  # type: ignore[index, arg-type]
    fit(model, ArrayTable(tree.x[train]), _TRAINING.replace(max_epochs=epochs, seed=seed))
    return model.eval()


def run(c: float, prior_scale: float, seed: int, samples: int = 5000, **options: Any) -> dict[str, Any]:
    """The negative log-likelihood of the held-out observations, in nats."""
    model = trained(c, prior_scale, seed, **options)
    tree, _, test = split(seed)
    torch.manual_seed(seed)
    return {
        "nll": float(-log_likelihood(model, tree.x[test], samples, prior_share=0.0).mean()),
        "c": model.ball.c_value,
        "prior_scale": float(model.prior.scale.detach()),
    }


def found(value: str = "nll", **setting: Any) -> dict[int, float]:
    """A value of the runs so far with this setting, by seed."""
    runs = {r["setting"]["seed"]: r for r in results(STUDY) if r["setting"] == setting | {"seed": r["setting"]["seed"]}}
    return {seed: runs[seed]["result"][value] for seed in sorted(runs)}
