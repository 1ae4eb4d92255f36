"""The term of a map in training: its layout in the loss, samples of it, and the encoder's head start.

The term of a map for tables that are streamed, or too large for a search among all pairs: by a sample in memory.
Neighbors and distances are those of a sample of the rows. A row outside of it belongs where its nearest row of the
sample is, and its geodesics begin with a step to one of the nearest.

A head start for a map: the encoder learns the layout before all else is trained with it. A step here runs the encoder
alone and costs a fraction of a whole one, and a place is harder to learn than a decoder for rows that are in their
places already.

Rows are blurred by half of what is between neighbors, so that the encoder learns a place for each neighborhood and not
for each row by heart: a row that it has not seen then lies closer to where it should.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Self, cast

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from horoball.devices import resolved
from horoball.geometry.random import generator_for
from horoball.tables.geodesics import axes_of_some, shortest_paths
from horoball.tables.mapped import Mapped
from horoball.tables.table import ArrayTable, Batch, Order, Table, held_out
from horoball.training.config import TrainConfig
from horoball.training.engine import Adam
from horoball.training.progress import counted
from horoball.vae.distances import DistanceTerm, PlaceTerm
from horoball.vae.encoder import Encoder
from horoball.vae.layout import (
    LANDMARKS,
    grouped_graph,
    grouped_landmarks,
    in_medians,
    layout,
    rise_and_fall,
    searches_all_pairs,
    surveyed,
    with_landmarks,
)
from horoball.vae.model import VAE
from horoball.vae.run import Run

_SAMPLE = 8192  # rows: a search in them takes about as long as a step
_BLOCK = 4096  # rows whose nearest is looked for at a time, if they are in memory
_NEAREST = 15  # rows of the sample that a geodesic may begin with

Points = Callable[[Tensor], Tensor]
Places = Callable[[Tensor, csr_matrix, Tensor, np.ndarray], Tensor]


def with_sample(
    rows: Table,
    held: Table | None,
    points: Points,
    *,
    neighbors: int = 20,
    seed: int = 0,
    places: Places | None = None,
    library: bool = False,
) -> tuple[SampledTable, SampledTable | None, DistanceTerm | PlaceTerm]:
    """The tables with numbers beside their rows that a term of a map compares them with, and the term.

    Args:
        rows: Rows to train on, as the model sees them; the sample is drawn from these.
        held: Rows held out, if there are any.
        points: Makes points of rows, between which distances are measured.
        neighbors: Neighbors of the graph.
        seed: Seed of the sample.
        places: Makes a layout of the sample's rows, from the rows, the graph of their neighbors, their geodesics to
            landmarks, and the landmarks. Without it, rows are compared by these geodesics.
        library: Whether rows are counts of a library, whose points are along main axes; see `count_axes`.
    """
    rng = np.random.default_rng(seed)
    sample = _drawn(rows, rng)
    counts, codes = sample[:, : rows.features], _codes(rows)
    points = axes_of_some(counts) if library else points
    at, of = points(counts), sample[:, codes]
    group = np.unique(of.numpy(), axis=0, return_inverse=True)[1].ravel() if codes else None
    graph = grouped_graph(at.numpy(), neighbors, group)
    landmarks = np.sort(rng.choice(len(sample), min(len(sample), LANDMARKS), replace=False))
    if group is not None:
        landmarks = grouped_landmarks(np.arange(len(sample)), group, len(landmarks), seed)
    paths = shortest_paths(graph, landmarks).T
    paths[np.diff(graph.indptr) == 0] = np.inf  # of a row alone in its category nothing is known
    lengths, unit = in_medians(paths)
    at = at / unit
    term: DistanceTerm | PlaceTerm
    if places is None:
        term = DistanceTerm()
    else:
        term, place = PlaceTerm(), places(sample, graph, lengths, landmarks)

    def beside(x: Tensor) -> Tensor:
        found = points(x[:, : rows.features]) / unit
        apart = torch.cdist(found, at)
        if codes:
            apart = apart.masked_fill((x[:, codes].unsqueeze(1) != of).any(-1), torch.inf)
        away, nearest = apart.topk(1 if places else min(_NEAREST, len(at)), largest=False)
        if places is not None:
            return place[nearest[:, 0]]
        # The search expands squares, which loses the digits of close pairs.
        gap = torch.linalg.vector_norm(found.unsqueeze(1) - at[nearest], dim=-1).masked_fill(away.isinf(), torch.inf)
        return (gap.unsqueeze(-1) + lengths[nearest]).amin(1)

    return SampledTable(rows, beside), None if held is None else SampledTable(held, beside), term


def _codes(table: Table) -> list[int]:
    """Where rows have their categories, across which nothing is known of distances; see `surveyed`."""
    sizes = () if table.covariates is None else table.covariates.sizes
    return [table.features + number for number, size in enumerate(sizes) if size > 1]


def _drawn(table: Table, rng: np.random.Generator) -> Tensor:
    """A random sample of the rows, in one pass over them."""
    chosen = np.sort(rng.choice(table.rows, min(table.rows, _SAMPLE), replace=False))
    parts, first = [], 0
    for block in table.blocks():
        inside = chosen[(chosen >= first) & (chosen < first + len(block))] - first
        parts.append(block[torch.from_numpy(inside)])
        first += len(block)
    return torch.cat(parts)


class SampledTable(Mapped):
    """A table whose batches bring what a term of a map compares rows with, found by a sample."""

    def __init__(self, table: Table, beside: Points) -> None:
        super().__init__(table)
        self.beside = beside

    def _of(self, table: Table) -> Self:
        return type(self)(table, self.beside)

    def batches(self, order: Order) -> Iterator[Batch]:
        """The table's batches with what the term of a map needs."""
        for batch in self.table.batches(order):
            yield batch._replace(side=self.beside(batch.x))


_log = logging.getLogger("horoball")


def with_map_term(run: Run, table: Table, *, warm: bool) -> tuple[Table, Table | None, DistanceTerm | PlaceTerm | None]:
    """Rows to train on, rows held out, and the term of a map, if there is one."""
    config, model, seen, kind = run.record.training, run.record.model, run.scaled(table), run.record.kind
    if config.distance_weight == 0:
        return *seen.split(config.validation, config.seed), None
    _log.info("Distance weight: %g; geodesics of the 20-neighbor graph are computed first.", config.distance_weight)
    laid_out = config.locality > 0 and table.covariates is None  # how batches lie to each other is the model's to find

    def places(x: Tensor, graph: csr_matrix, lengths: Tensor, landmarks: np.ndarray) -> Tensor:
        with torch.no_grad():
            start = run.model.posterior(x).loc if warm else None
        shape: dict[str, Any] = {"locality": config.locality, "start": start, "seed": config.seed}
        return layout(run.model.ball, model.d, graph, lengths, landmarks, **shape)

    by_landmarks = table.covariates is not None or (model.library and not laid_out)
    if searches_all_pairs(table, library=model.library) or (isinstance(table, ArrayTable) and by_landmarks):
        # Landmarks are trained on, so none is drawn from the rows that are held out.
        candidates = np.setdiff1d(np.arange(table.rows), held_out(table.rows, config.validation, config.seed))
        options: dict[str, Any] = {"library": model.library, "view": kind.map_points(run)}
        term: DistanceTerm | PlaceTerm
        if laid_out:
            found = surveyed(seen, candidates=candidates, most=LANDMARKS, **options)
            x = torch.cat(list(found.table.blocks()))
            term, seen = PlaceTerm(), found.table.beside(places(x, found.graph, found.lengths, found.landmarks))
        else:
            seen, term = with_landmarks(seen, candidates=candidates, **options)
        return *seen.split(config.validation, config.seed), term

    parts = seen.split(config.validation, config.seed)
    points = kind.map_points(run) or (lambda x: x)
    rows, rest, by_sample = with_sample(
        *parts, points, places=places if laid_out else None, library=model.library, seed=config.seed
    )
    if laid_out and isinstance(table, ArrayTable):
        # The head start sees a row many times, and to look for its nearest in the sample takes longer than a step.
        found_once = torch.cat([rows.beside(x) for x in seen.blocks(_BLOCK)])
        return *run.scaled(table.beside(found_once)).split(config.validation, config.seed), by_sample
    return rows, rest, by_sample


_EPOCHS = 80
_MANY_ROWS = 2000  # from which it takes twice as many: layouts have details that are harder to learn
_MOST = 6000  # steps
_RATE = 0.01  # learning rate at its highest
_BLUR = 0.5  # of the distance to the nearest row
_PROBES, _AMONG = 256, 8192  # rows whose nearest is looked for, and among how many


def head_start(model: VAE, table: Table, config: TrainConfig) -> None:
    """Train the encoder of a model to put rows where a layout has them.

    It takes 80 epochs, twice as many of 2,000 rows or more, and 6,000 steps at most.

    Args:
        model: The model, trained in place.
        table: Rows to train on, with their places beside them.
        config: Settings: batch size, seed and device.

    Example:
        >>> from horoball.tables import ArrayTable
        >>> from horoball.vae import ModelConfig
        >>> x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
        >>> model = VAE.from_config(ModelConfig(features=3, hidden=(32,)), generator=torch.Generator().manual_seed(0))
        >>> head_start(model, ArrayTable(x).beside(x[:, :2]), TrainConfig())
        >>> bool(model.ball.dist(model.posterior(x).loc, x[:, :2]).mean() < 0.1)
        True
    """
    device = resolved(config.device)
    model.to(device)
    encoder, generator = cast(Encoder, model.encoder), generator_for(config.seed)
    term, optimizer = PlaceTerm(), Adam(encoder.parameters(), fused=True)
    epochs = _EPOCHS if table.rows < _MANY_ROWS else 2 * _EPOCHS
    steps = min(_MOST, epochs * table.steps(Order(config.batch_size, config.seed)))
    noise = _BLUR * _spacing(encoder, table, config, device)
    for step, (x, places) in zip(counted("Head start", steps), _batches(table, config), strict=False):
        optimizer.param_groups[0]["lr"] = rise_and_fall(_RATE, step / steps)
        seen = encoder.inputs(x.to(device))
        blurred = seen + noise * torch.randn(seen.shape, generator=generator).to(device)  # the same on every device
        loss = term(model.ball, encoder.posterior(blurred).loc, places.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for parameter in model.parameters():  # a learned curvature has a gradient too
        parameter.grad = None


@torch.no_grad()
def _spacing(encoder: Encoder, table: Table, config: TrainConfig, device: torch.device) -> Tensor:
    """How far apart neighbors are in each number that the encoder sees: a multiple of its spread."""
    rows, found = 0, []
    for x, _ in _batches(table, config):
        found.append(encoder.inputs(x.to(device)))
        rows += len(x)
        if rows >= min(table.rows, _AMONG):
            break
    seen = torch.cat(found)[:_AMONG]
    spread = seen.std(0, correction=0)
    nearest = torch.cdist(seen[:_PROBES], seen).fill_diagonal_(torch.inf).amin(1)
    return spread * (nearest.median() / spread.norm().clamp_min(1e-12))


def _batches(table: Table, config: TrainConfig) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows and their places, epoch after epoch; every rank sees all of them, and learns the same."""
    for epoch in count():
        for batch in table.batches(Order(config.batch_size, config.seed, epoch)):
            x, places = batch.inputs
            yield cast(Tensor, x), cast(Tensor, places)
