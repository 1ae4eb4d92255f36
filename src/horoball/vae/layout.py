"""A layout of rows: where a map should have them, found by descent on their coordinates alone.

The terms of a map are easy to satisfy for free points and hard for a network, whose every step moves all rows. So a
layout is found first, which takes seconds, and the encoder then learns it; see `PlaceTerm`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import block_diag, csr_matrix
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.tables.geodesics import AXES, Neighborhood, count_axes, neighbor_graph, shortest_paths
from horoball.tables.table import ArrayTable, Table
from horoball.training.progress import counted
from horoball.vae.descent import Descent, Terms
from horoball.vae.distances import DistanceTerm

_WARMUP = 0.05  # part of the steps in which the rate rises
_LAST = 0.02  # what is left of it at the end


def rise_and_fall(rate: float, part: float) -> float:
    """The rate after a part of all steps: it rises for a twentieth of them, then falls in a line to a fiftieth."""
    return rate * min(1.0, part / _WARMUP) * (_LAST + (1 - _LAST) * (1 - part))


_MAX_MULTIPLICATIONS = 1e12  # of a search for nearest neighbors, some ten seconds
_ALL = 2048  # rows up to which every row is a landmark
_AT_ONCE = 128  # landmarks that a step compares
LANDMARKS = 512  # landmarks of more rows, and of a layout: 2 kB a row
_FEW = 128  # landmarks where not all pairs are searched, as there are many rows
_OF_EACH = 8  # landmarks that a category has at least, if it has as many rows
_SAMPLE = 20_000  # rows whose graph stands for that of all where these are too many
_BLOCK = 8192  # rows whose nearest is looked for at a time


def searches_all_pairs(table: Table, *, library: bool = False) -> bool:
    """Whether neighbors are found among all rows: of a table in memory, if it takes some ten seconds at most."""
    width = min(AXES, table.features) if library else table.features
    return isinstance(table, ArrayTable) and table.rows**2 * width <= _MAX_MULTIPLICATIONS


class Surveyed(NamedTuple):
    """Rows in memory, the graph of their neighbors, and their geodesics to some landmarks."""

    table: ArrayTable
    graph: csr_matrix  # of the sample alone where not all pairs were searched
    landmarks: np.ndarray  # numbers of rows
    lengths: torch.Tensor  # in units of their median, shape (rows, landmarks); infinite if they are not known


def surveyed(
    table: Table,
    *,
    candidates: np.ndarray | None = None,
    neighbors: int = 20,
    log: bool = False,
    library: bool = False,
    view: Callable[[torch.Tensor], torch.Tensor] | None = None,
    most: int = _ALL,
    seed: int = 0,
) -> Surveyed:
    """Distances in the data, which a map is compared with.

    They are geodesics of the graph of nearest neighbors. Landmarks are all rows of a small table, otherwise a random
    sample: time and memory are then linear in the rows, save for finding neighbors. Where these are too many to search,
    the graph is that of a sample of 20,000, and a path from any other row begins with a step to the nearest of the
    sample. Rows of different categories differ by more than their distance says, so they are infinitely far apart,
    which stands for not known.

    Args:
        table: Rows as the model sees them; they must fit in memory.
        candidates: Rows that may be landmarks: those a model is trained on. All rows if not given.
        neighbors: Neighbors of the graph.
        log: Whether distances are of log(1 + x), as they should be of counts.
        library: Whether rows are shares of a library; distances are then measured along their main axes, see
            `count_axes`, and a sparse table stays sparse.
        view: Makes points of the rows of a mixed table, between which distances are measured.
        most: Rows up to which all are landmarks.
        seed: Seed of the sample.
    """
    if library:
        if not isinstance(table, ArrayTable):
            raise ValueError(
                "Distances of all cells need them in memory, and these are streamed: see `map_term.with_sample`."
            )
        held = table
        points = count_axes(
            table, found_on=None if searches_all_pairs(table, library=True) else _some(table.rows, seed)
        )
    else:
        x = torch.cat(list(table.blocks()))
        features = x[:, : table.features]
        points = (view(features) if view is not None else features.log1p() if log else features).numpy()
        held = ArrayTable(features, table.columns, table.labels, None, table.covariates)
        held.schema = table.schema
    index = np.arange(table.rows) if candidates is None else np.sort(candidates)
    group = None if table.covariates is None else table.covariates.groups
    all_pairs = searches_all_pairs(held, library=library)  # rows that are seen scaled are in memory, too
    if len(index) > most:
        index = grouped_landmarks(index, group, LANDMARKS if all_pairs else _FEW, seed)
    rows = np.arange(table.rows) if all_pairs else np.union1d(index, _some(table.rows, seed))
    graph = grouped_graph(points[rows], neighbors, None if group is None else group[rows])
    lengths = shortest_paths(graph, np.searchsorted(rows, index)).T
    lengths[np.diff(graph.indptr) == 0] = np.inf  # of a row alone in its category nothing is known
    if not all_pairs:
        lengths = _by_the_nearest(points, rows, lengths, group)
    return Surveyed(held, graph, index, in_medians(lengths)[0])


def _some(rows: int, seed: int) -> np.ndarray:
    """The sample of a table of many rows."""
    return np.sort(np.random.default_rng(seed).choice(rows, min(rows, _SAMPLE), replace=False))


def grouped_landmarks(index: np.ndarray, group: np.ndarray | None, count: int, seed: int) -> np.ndarray:
    """A random sample of rows, with some of each category: where there is none, nothing is known."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(index, count, replace=False)
    if group is None:
        return np.sort(drawn)
    for number in np.unique(group[index]):
        mine = index[group[index] == number]
        lacking = min(_OF_EACH, len(mine)) - int((group[drawn] == number).sum())
        if lacking > 0:
            drawn = np.append(drawn, rng.choice(np.setdiff1d(mine, drawn), lacking, replace=False))
    return np.sort(drawn)


def _by_the_nearest(points: np.ndarray, rows: np.ndarray, lengths: np.ndarray, group: np.ndarray | None) -> np.ndarray:
    """Lengths from all rows, by those of the rows of a sample: the step to the nearest of the category, and on."""
    from sklearn.neighbors import NearestNeighbors  # as large as torch: only who asks for neighbors pays

    found = np.full((len(points), lengths.shape[1]), np.inf, np.float32)
    found[rows] = lengths
    outside, of = np.setdiff1d(np.arange(len(points)), rows), np.zeros(len(points)) if group is None else group
    for number in np.unique(of[outside]):
        sample, mine = np.flatnonzero(of[rows] == number), outside[of[outside] == number]
        if not len(sample):
            continue  # a category of a few rows of very many
        search = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(points[rows[sample]])
        for first in range(0, len(mine), _BLOCK):
            some = mine[first : first + _BLOCK]
            gap, nearest = search.kneighbors(points[some])
            found[some] = gap + lengths[sample[nearest[:, 0]]]
    return found


def in_medians(lengths: np.ndarray) -> tuple[torch.Tensor, float]:
    """Lengths in units of their median, and that median."""
    known = lengths[np.isfinite(lengths)]
    apart = known[known > 1e-6 * known.max(initial=0.0)]  # equal rows are joined by a hair
    unit = float(np.median(apart)) if len(apart) else 1.0
    return torch.from_numpy(np.ascontiguousarray(lengths)) / unit, unit


def with_landmarks(table: Table, **options: Any) -> tuple[ArrayTable, DistanceTerm]:
    """The table with the distances of its rows to the landmarks beside them, and the `DistanceTerm` that uses them."""
    found = surveyed(table, **options)
    candidates = options.get("candidates")
    every = len(found.landmarks) == (table.rows if candidates is None else len(candidates))
    marks = found.table.take(found.landmarks) if every else None
    return found.table.beside(found.lengths), DistanceTerm(marks, _AT_ONCE)


def grouped_graph(points: np.ndarray, neighbors: int, group: np.ndarray | None) -> csr_matrix:
    """The graph of nearest neighbors; rows of different categories are in parts that no path joins."""
    if group is None:
        return neighbor_graph(points, neighbors)
    parts, order = [], []
    for number in range(group.max() + 1):
        rows = np.flatnonzero(group == number)
        parts.append(neighbor_graph(points[rows], neighbors) if len(rows) > 1 else csr_matrix((1, 1)))
        order.append(rows)
    back = np.argsort(np.concatenate(order))
    return block_diag(parts, format="csr")[back][:, back]


_STEPS = 400
_FEW_ROWS, _STEPS_OF_FEW = 1000, 200  # fewer rows than these have found their places by then
_RATE = 0.1  # of coordinates, at first
_SCALE_RATE = 0.02  # of the scales of the terms
_DISTANCES_FIRST = 0.2  # part of the steps with the distance term alone
_CROWD, _ROWS_PER_CROWD = 10.0, 100.0  # weight of the crowd: groups of more rows are finer, as a share of all
_AXES = 256  # landmarks that main axes are taken from, at most
_LANDMARKS_AT_ONCE = 64  # landmarks, and rows in the crowd, of a step
_KEPT, _KEPT_SQUARE, _SMALL = 0.9, 0.999, 1e-8  # of Adam


def layout(
    ball: PoincareBall,
    d: int,
    graph: csr_matrix,
    lengths: Tensor,
    landmarks: np.ndarray,
    *,
    locality: float,
    start: Tensor | None = None,
    seed: int = 0,
) -> Tensor:
    """Points in tangent coordinates at the origin, float32, shape (rows, d), that make the terms of a map small.

    The sum is (1 − λ) distance term + λ neighbor term, where λ is `locality`. Distances come first, so that neighbors
    are sorted out within a layout that is right at large.

    Args:
        ball: Where the points are.
        d: Dimension.
        graph: Neighbors of rows, with lengths.
        lengths: Geodesics from rows to landmarks in units of their median, shape (rows, landmarks).
        landmarks: Numbers of the landmarks.
        locality: Share of the neighbor term.
        start: Where points start; at the main axes of the geodesics if not given.
        seed: Seed of the draws.

    Example:
        >>> from horoball.tables.geodesics import neighbor_graph, shortest_paths
        >>> x, index = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60)
        >>> graph = neighbor_graph(x, 5)
        >>> g = torch.from_numpy(shortest_paths(graph, index).T)
        >>> layout(PoincareBall(0.0), 2, graph, g / g.median(), index, locality=0.5).shape
        torch.Size([60, 2])
    """
    rng = np.random.default_rng(seed)
    neighbors, rows, fixed = Neighborhood.of_graph(graph), len(lengths), PoincareBall(ball.c_value)
    by_landmark = lengths.mT.contiguous()  # a step takes whole rows of it
    z = _main_axes(lengths, d) if start is None else start.detach().float()
    # Coordinates, and logarithms of the two scales, in one row: Adam is then some operations for all of them.
    held = torch.cat((z.flatten(), z.new_zeros(2)))
    grad, first, second = (torch.zeros_like(held) for _ in range(3))
    z, at_once = held[:-2].view(rows, d), min(len(landmarks), _LANDMARKS_AT_ONCE)
    steps = _STEPS if rows >= _FEW_ROWS else min(_STEPS, _STEPS_OF_FEW)
    for step in counted("Layout", steps):
        part = step / steps
        weight = locality if part >= _DISTANCES_FIRST else 0.0
        index = rng.choice(len(landmarks), at_once, replace=False)
        # Others than the landmarks, too: rows that are in no crowd would not move apart.
        others = rng.choice(rows, min(rows, _LANDMARKS_AT_ONCE), replace=False)
        terms = Terms(
            torch.from_numpy(landmarks[index]),
            by_landmark[torch.from_numpy(index)],
            1 - weight,
            torch.from_numpy(neighbors.drawn(rng)),
            torch.from_numpy(others),
            max(_CROWD, rows / _ROWS_PER_CROWD),
            weight,
        )
        pull = Descent(fixed, z).pull(terms, *held[-2:].tolist())
        grad[:-2] = pull.z.flatten()
        grad[-2:] = torch.tensor((pull.distances, pull.kernel))
        first.lerp_(grad, 1 - _KEPT)
        second.mul_(_KEPT_SQUARE).addcmul_(grad, grad, value=1 - _KEPT_SQUARE)
        move = first / (second / (1 - _KEPT_SQUARE ** (step + 1))).sqrt_().add_(_SMALL) / (1 - _KEPT ** (step + 1))
        held[:-2] -= rise_and_fall(_RATE, part) * move[:-2]
        held[-2:] -= _SCALE_RATE * move[-2:]
    return z.clone()


def _main_axes(lengths: Tensor, d: int) -> Tensor:
    """The rows' main axes by their geodesics to some landmarks, of spread 1; 0 for those there are not."""
    some = lengths[:, :: -(-lengths.shape[1] // _AXES)].double()
    centered = some - some.mean(0)
    _, axes = torch.linalg.eigh(centered.mT @ centered)
    points = centered @ axes.flip(1)[:, :d]
    points = points / points.std().clamp_min(1e-12)
    return torch.nn.functional.pad(points, (0, d - points.shape[1])).float()
