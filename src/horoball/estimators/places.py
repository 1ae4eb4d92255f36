"""The groups of a fitted model's rows, kept with the model, so that new rows find theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from horoball.data.tables.table import Table
from horoball.hierarchy.taxonomies import Placer, Taxonomy
from horoball.storage.checkpoint import load_checkpoint, save_checkpoint
from horoball.storage.restore import reject_incomplete
from horoball.training.state import PLACES  # beside the model in the folder of a run
from horoball.training.table.run import Run

__all__ = ["PLACES", "load_places", "places_of", "save_places", "table_points"]

_MOST = 20_000  # rows that new ones are compared with
_FITTED = 1e-6, 1e6  # what sharpness, temperature and calibration lie within; probabilities are finite there


def table_points(run: Run, table: Table) -> np.ndarray:
    """Rows as points whose distances mean something: columns as the model sees them, vectors at length 1.

    Example:
        >>> from horoball.data import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.table.train import train
        >>> table = ArrayTable(torch.randn(40, 6))
        >>> table_points(train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1)), table).shape
        (40, 6)
    """
    if not run.model.likelihood.numeric or run.record.covariates:
        raise ValueError("Rows are placed by columns of numbers, without covariates; this model has other ones.")
    x = run.seen(table).numpy()
    return x / np.float32(x.shape[1] ** 0.5) if run.record.model.unit_input else x


def places_of(run: Run, table: Table, found: Taxonomy, *, seed: int = 0) -> Placer:
    """What places new rows in the groups of a table; see `Placer`.

    Args:
        run: The fitted model.
        table: The rows of the taxonomy.
        found: Their groups.
        seed: Seed of the rows that are kept, where there are more than 20,000, and of those that are held out.

    Example:
        >>> from horoball.data import ArrayTable
        >>> from horoball.hierarchy import taxonomy, tree
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.table.train import train
        >>> table = ArrayTable(torch.randn(40, 6))
        >>> run = train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1))
        >>> groups = taxonomy(tree(next(table.blocks()), draws=0), [3])
        >>> places_of(run, table, groups).place(table_points(run, table)).path.shape
        (40, 1)
    """
    keep = np.sort(np.random.default_rng(seed).permutation(len(found.levels))[:_MOST])
    names = [[group.name for group in level] for level in found.groups]
    return Placer.fit(table_points(run, table)[keep], found.levels[keep], names=names, seed=seed)


def save_places(placer: Placer, run: Run, folder: Path) -> None:
    """Write a placer to the folder of its run.

    Example:
        >>> import tempfile
        >>> from horoball.data import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.table.train import train
        >>> run = train(ArrayTable(torch.randn(40, 6)), {"hidden": (8,)}, TrainConfig(max_epochs=1))
        >>> folder = Path(tempfile.mkdtemp())
        >>> save_places(Placer(torch.randn(4, 6), [[0], [0], [1], [1]], (0.1, 0.1, 1, 0, 1, 0)), run, folder)
        >>> load_places(folder, run).levels.ravel().tolist()
        [0, 0, 1, 1]
    """
    arrays = {"points": placer.points, "levels": placer.levels, "held": placer.held, "limits": placer.limits}
    fitted = [float(number) for number in placer.fitted]
    state = {"fitted": fitted, "names": [list(level) for level in placer.names], "run": run.digest}
    save_checkpoint(folder / PLACES, {name: torch.from_numpy(array) for name, array in arrays.items()}, state)


def load_places(folder: Path, run: Run) -> Placer:
    """Read the placer of a run back; refuses one of another run.

    A file of an earlier version knows of no held-out rows: its placer is fitted again, to the same rows.

    Example:
        >>> load_places(Path("run"), None)
        Traceback (most recent call last):
        ...
        FileNotFoundError: run holds no groups to place rows in. Make them first: horoball tree run DATA -o groups.csv.
    """
    path = folder / PLACES
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} holds no groups to place rows in. Make them first: horoball tree {folder} DATA -o groups.csv."
        )
    tensors, state = load_checkpoint(path)
    with reject_incomplete(path, "does not hold whole groups"):
        if state["run"] != run.digest:
            raise ValueError("it belongs to another run.")
        points, levels = tensors["points"], tensors["levels"]
        if points.dtype != torch.float32 or levels.dtype != torch.int64 or not bool(points.isfinite().all()):
            raise ValueError("its points are not finite numbers in float32, or its groups no whole numbers.")
        if points.dim() != 2 or points.shape[1] != _width(run) or levels.dim() != 2 or len(points) != len(levels):
            raise ValueError("its points are not those of the model.")
        names: Any = state["names"]
        sizes = (levels.amax(0) + 1).tolist()
        if len(names) not in (0, len(sizes)) or any(len(said) < size for said, size in zip(names, sizes, strict=False)):
            raise ValueError("its names are not those of its groups.")
        fitted = [float(number) for number in state["fitted"]]
        low, high = _FITTED
        if len(fitted) != 6 or not all(abs(number) <= high for number in fitted) or not min(fitted[:2]) >= low:
            raise ValueError(f"what was fitted is not finite, or lies outside {low:g} to {high:g}.")
        # Groups are of all rows of the fit, those that were held out of the points too.
        most = len(levels) + (tensors["held"].numel() if "held" in tensors else 0)
        if bool((levels < -1).any()) or bool((levels >= most).any()):
            raise ValueError("its groups have numbers that none of so many rows has.")
        called = [[str(name) for name in level] for level in names]
        if "held" not in tensors and "limits" not in tensors:  # of an earlier version
            return Placer.fit(points.numpy(), levels.numpy(), names=called)
        held, limits = tensors["held"], tensors["limits"]
        if held.dtype != torch.float64 or limits.dtype != torch.float64 or not bool(((held >= 0) & (held <= 1)).all()):
            raise ValueError("what it knows of held-out rows are not probabilities in float64.")
        if not bool((limits < torch.inf).all()):  # −∞ is a group that is too small to have a limit
            raise ValueError("its limits are not numbers.")
        return Placer(points.numpy(), levels.numpy(), fitted, called, held=held.numpy(), limits=limits.numpy())


def _width(run: Run) -> int:
    """Numbers of a point."""
    encoder: Any = run.model.encoder
    return len(run.columns) if encoder.view is None else int(encoder.view.numbers)
