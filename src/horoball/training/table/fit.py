"""Training of a model on a table."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from horoball.data.tables.table import Table
from horoball.models.table.vae import VAE
from horoball.objectives.distances import DistanceTerm
from horoball.objectives.places import PlaceTerm
from horoball.training.config import TrainConfig
from horoball.training.loop import run_loop
from horoball.training.progress import Progress
from horoball.training.record import FitRecord
from horoball.training.state import State
from horoball.training.table.objective import TableObjective

__all__ = ["fit"]


def fit(
    model: VAE,
    table: Table,
    config: TrainConfig,
    folder: Path | None = None,
    *,
    validation: Table | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    term: DistanceTerm | PlaceTerm | None = None,
    extra: dict[str, Tensor] | None = None,
    record: FitRecord | None = None,
) -> State:
    """Train a model on a table; it ends with the weights of the best validation loss, if rows were held out.

    Args:
        model: The model, trained in place.
        table: Rows to train on.
        config: Settings.
        folder: Folder for checkpoints and metrics; None writes nothing.
        validation: Rows to watch for early stopping.
        resume: Resume from the folder's last checkpoint, if there is one.
        progress: Progress reporter.
        term: The term of a map; the tables then hold what it compares rows with.
        extra: Tensors to store in the checkpoints with the weights.
        record: Record of the fit, stored in the checkpoints and checked on resume.

    Example:
        >>> import torch
        >>> from horoball.data import ArrayTable
        >>> from horoball.models import ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=3, hidden=(8,)))
        >>> state = fit(model, ArrayTable(torch.randn(64, 3)), TrainConfig(max_epochs=2))
        >>> len(state.history)
        2
    """
    objective = TableObjective(model, config, term)
    return run_loop(
        objective,
        table,
        config,
        folder,
        validation=validation,
        resume=resume,
        progress=progress,
        extra=extra,
        record=record,
    )
