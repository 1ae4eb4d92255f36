"""The tree of a fitted model, and where new rows belong in its groups.

Note [Weights]: distances over all columns count noise as much as structure. The model knows the difference: a column
that it can reconstruct from the latent space varies with the others, one that it cannot is noise of its own. Columns
are therefore weighted by the share of their variance that the model explains, w = 1 − Var(x − x̂)/Var(x). Distances
stay those of the data, so that twigs which the latent space has no room for are not lost.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np
import torch
from torch import Tensor

from horoball.distributions.base import drawn_from
from horoball.distributions.normal import BallNormal
from horoball.geometry.ball import PoincareBall
from horoball.geometry.random import generator_for
from horoball.options import TreeOptions
from horoball.storage.checkpoint import load_checkpoint, reject_incomplete, save_checkpoint
from horoball.storage.stores import located
from horoball.tables.table import Table
from horoball.training.state import PLACES  # beside the model in the folder of a run
from horoball.trees.grow import grow, joined_by
from horoball.trees.levels import Levels
from horoball.trees.placement import Placer
from horoball.trees.source import Source
from horoball.trees.taxonomy import NameGroup, Taxonomy, taxonomy
from horoball.trees.tree import Tree
from horoball.vae.run import Run

__all__ = [
    "PLACES",
    "SOURCES",
    "SourceName",
    "latent_source",
    "load_places",
    "places_of",
    "save_places",
    "table_points",
    "table_taxonomy",
    "table_tree",
]

SourceName = Literal["auto", "columns", "weighted", "latent"]
SOURCES: tuple[SourceName, ...] = get_args(SourceName)

_WEIGHTED = "columns weighted by the model"
_ROWS = 5_000  # drawn to measure what the model explains of each column
_LITTLE = 0.02  # a model that explains less of every column has nothing to say
_ROOM = 5  # dimensions below which a latent space has no room for twigs
_log = logging.getLogger("horoball")


def table_tree(
    run: Run,
    table: Table,
    *,
    source: str = "auto",
    seed: int = 0,
    **options: Unpack[TreeOptions],
) -> Tree:
    """The tree of a table's rows, or of groups of them; see `PoincareVAE.tree`."""
    if source not in SOURCES:
        raise ValueError(f"Expected a source of {', '.join(SOURCES)}, got {source!r}.")
    rng = np.random.default_rng(seed)
    plain = _by_columns(run)
    if source == "latent" or (source == "auto" and not plain):
        return grow([latent_source(list(run.posteriors(table)))], None, rng, **options)
    if not plain:
        raise ValueError(f'source="{source}" needs columns of numbers and no covariates. Use source="latent".')
    kind, owners = run.record.kind, run.record.kind.owners(table)
    x, spread = kind.standardized(run.seen(table).double().numpy())
    if kind.joined:
        options["method"] = joined_by(**options)
    if kind.joined and source == "auto":
        # Draws from posteriors would move vectors by more than their neighbors are apart, and cost fine branches.
        return grow([Source("vectors", x)], None, rng, **options)
    if source == "columns":
        return grow([Source("columns", x, owners=owners)], x, rng, **options)
    decoder = _Decoder(run, table, spread)
    weight = decoder.explained(x, np.sort(rng.permutation(len(x))[:_ROWS]))
    weighted = Source(_WEIGHTED, x, decoder.shift, weight, owners=owners)
    if weight.max() < _LITTLE:
        _log.warning("The model explains nothing of any column: its weights are not used. Train it for longer.")
        return grow([Source("columns", x, owners=owners)], x, rng, **options)
    if source == "weighted":
        return grow([weighted], x, rng, weights={_WEIGHTED: weight}, **options)
    both = {"columns": np.ones_like(weight), _WEIGHTED: weight}
    return grow([weighted, Source("columns", x, decoder.shift, owners=owners)], x, rng, weights=both, **options)


def table_taxonomy(
    run: Run,
    table: Table,
    found: Tree,
    levels: Levels,
    *,
    texts: Sequence[str] | None = None,
    name: NameGroup | None = None,
) -> Taxonomy:
    """Named groups of a tree of a table's rows; see `taxonomy`."""
    x = run.seen(table).double().numpy() if run.model.likelihood.numeric else None
    columns = None if x is None else run.record.kind.names(run)
    marks = None if columns is None else run.record.kind.marks(table)
    return taxonomy(found, levels, x=x, columns=columns, marks=marks, texts=texts, name=name)


def latent_source(posteriors: list[BallNormal]) -> Source:
    """Posterior means as a source of a tree, with draws of all posteriors for the replicates."""
    ball = posteriors[0].ball
    if not isinstance(ball, PoincareBall):
        raise ValueError(
            f'A tree of the latent space is known for PoincareBall, not {type(ball).__name__}. Use source="columns".'
        )
    mean = torch.cat([q.mean.cpu() for q in posteriors]).double().numpy()
    if mean.shape[1] < _ROOM:
        _log.warning(
            "The tree is made from %d dimensions, which have no room for twigs, and its support is too high. Fit a "
            "model of %d dimensions for the tree, and keep this one for the map.",
            mean.shape[1],
            _ROOM,
        )

    def noise(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        generator = generator_for(int(rng.integers(2**62)))
        with torch.no_grad():
            drawn = torch.cat([q.sample(generator=generator) for q in posteriors])
        return drawn.cpu()[rows].double().numpy() - mean[rows]

    return Source("latent space", mean, noise, c=ball.c_value)


class _Decoder:
    """What the model makes of rows, in units of the standardized columns."""

    def __init__(self, run: Run, table: Table, spread: np.ndarray) -> None:
        self.run, self.model = run, run.model
        self.inputs = torch.cat([block.cpu() for block in run.blocks(table)])  # a part at a time is on the device
        self.scale = np.where(spread > 0, spread, 1.0)

    @torch.no_grad()
    def explained(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The share of each column's variance that the model explains; see Note [Weights]."""
        given = self.inputs[rows].to(self.run.device)
        error = (x[rows] - x[rows].mean(0)) - self._centered(given)
        return np.clip(1 - error.var(0) / np.maximum(x[rows].var(0), 1e-12), 0.0, 1.0)

    @torch.no_grad()
    def shift(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        """How draws from their posteriors move rows, x̂(z) − x̂(E z)."""
        given = self.inputs[rows].to(self.run.device)
        q = self.model.posterior(given)
        drawn = drawn_from(q, (), generator_for(int(rng.integers(2**62))))
        return self._decoded(drawn, given) - self._decoded(q.mean, given)

    def _centered(self, given: Tensor) -> np.ndarray:
        mean = self._decoded(self.model.embed(given), given)
        return mean - mean.mean(0)

    def _decoded(self, z: Tensor, given: Tensor) -> np.ndarray:
        mean = self.model.mean(z, self.model.conditioning(given)).cpu()
        return self.run.record.kind.filled(self.run, mean).double().numpy() / self.scale


_MOST = 20_000  # rows that new ones are compared with
_FITTED = 1e-6, 1e6  # what sharpness, temperature and calibration lie within; probabilities are finite there


def table_points(run: Run, table: Table, first: int = 0) -> np.ndarray:
    """Rows as points whose distances mean something: columns as the model sees them, vectors at length 1.

    Codes have no distances, and columns keep the batch effects that a conditional model takes out: such rows are points
    of the latent space, in its tangent space at the origin. In messages, the first row has the number `first`.
    """
    if _by_columns(run):
        return run.record.kind.placed(run.seen(table, first).numpy())
    with torch.no_grad():
        return torch.cat([run.model.embed(block).cpu() for block in run.blocks(table, first=first)]).float().numpy()


def places_of(run: Run, table: Table, found: Taxonomy, *, seed: int = 0) -> Placer:
    """What places new rows in the groups of a table; see `Placer`.

    Args:
        run: The fitted model.
        table: The rows of the taxonomy.
        found: Their groups.
        seed: Seed of the rows that are kept, where there are more than 20,000, and of those that are held out.
    """
    keep = np.sort(np.random.default_rng(seed).permutation(len(found.levels))[:_MOST])
    names = [[group.name for group in level] for level in found.groups]
    return Placer.fit(table_points(run, table)[keep], found.levels[keep], names=names, seed=seed)


def save_places(placer: Placer, run: Run, folder: Path) -> None:
    """Write a placer to the folder of its run."""
    arrays = {"points": placer.points, "levels": placer.levels, "held": placer.held, "limits": placer.limits}
    arrays["typical"] = placer.typical
    fitted = [float(number) for number in placer.fitted]
    state = {"fitted": fitted, "names": [list(level) for level in placer.names], "model": run.identity}
    save_checkpoint(located(folder) / PLACES, {name: torch.from_numpy(array) for name, array in arrays.items()}, state)


def load_places(folder: Path, run: Run) -> Placer:
    """Read the placer of a run back; refuses one of another run.

    A file of an earlier version knows of no held-out rows: its placer is fitted again, to the same rows.
    """
    folder = located(folder)
    path = folder / PLACES
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} holds no groups to place rows in. Make them first: horoball tree {folder} DATA -o groups.csv."
        )
    tensors, state = load_checkpoint(path)
    with reject_incomplete(path, "does not hold whole groups"):
        # Of an earlier version it names the run, if a command made it.
        if state["model"] != run.identity if "model" in state else state["run"] != run.digest:
            raise ValueError("it belongs to another model.")
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
        typical = tensors.get("typical", held.new_empty(0))  # not of an earlier version
        if (
            typical.dtype != torch.float64
            or not bool(typical.isfinite().all())
            or typical.numel() not in (0, held.numel())
        ):
            raise ValueError("what it knows of typical rows are not finite numbers in float64.")
        known = {"held": held.numpy(), "limits": limits.numpy(), "typical": typical.numpy()}
        return Placer(points.numpy(), levels.numpy(), fitted, called, **known)


def _by_columns(run: Run) -> bool:
    """Whether rows are compared by their columns, and not in the latent space."""
    return run.model.likelihood.numeric and not run.record.covariates


def _width(run: Run) -> int:
    """Numbers of a point."""
    if not _by_columns(run):
        return run.record.model.d
    encoder: Any = run.model.encoder
    return len(run.columns) if encoder.view is None else int(encoder.view.numbers)
