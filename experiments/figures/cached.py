"""Models that a figure trains by itself, kept beside those of MNIST, so that it is drawn at once the next time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from torch import Tensor

from experiments import mnist
from experiments.branching import split, trained
from experiments.figures.baselines import gplvm
from experiments.runs import slug
from horoball.storage.checkpoint import load_checkpoint, save_checkpoint
from horoball.vae import VAE, ModelConfig

__all__ = ["latent_points", "model_of_tree"]


def model_of_tree(c: float, seed: int, epochs: int = 1000) -> VAE:
    """The model of curvature −c on the tree of a seed, σ₀ = 1."""

    def train() -> tuple[dict[str, Tensor], dict[str, Any]]:
        model = trained(c, 1.0, seed, epochs=epochs)
        assert model.config is not None
        return model.state_dict(), model.config.as_dict()

    tensors, config = _kept(slug({"branching": "P" if c else "N", "c": c, "seed": seed, "epochs": epochs}), train)
    model = VAE.from_config(
        ModelConfig.from_dict({key: config[key] for key in (field.name for field in fields(ModelConfig))})
    )
    model.load_state_dict(tensors)
    return model.eval()


def latent_points(seed: int, steps: int = 500) -> Tensor:
    """The GPLVM's points for the observations of a seed's tree."""
    name = slug({"branching": "gplvm", "seed": seed, "steps": steps})
    return _kept(name, lambda: ({"z": gplvm(split(seed)[0].x, steps)}, {}))[0]["z"]


def _kept(
    name: str, make: Callable[[], tuple[dict[str, Tensor], dict[str, Any]]]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What a file holds, made now if there is none."""
    path = mnist.WEIGHTS / f"{name}.safetensors"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        save_checkpoint(path, *make())
    return load_checkpoint(path)
