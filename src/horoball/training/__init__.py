"""Training on Lightning Fabric, of any model: settings, the loop, checkpoints, progress."""

from horoball._moved import moved_names
from horoball.training.bounds import Elbo, LatentModel, elbo, iwae, log_likelihood
from horoball.training.config import TrainConfig
from horoball.training.loop import run_loop

__all__ = ["Elbo", "LatentModel", "TrainConfig", "elbo", "iwae", "log_likelihood", "run_loop"]

__getattr__ = moved_names(__name__)
