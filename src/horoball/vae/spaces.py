"""Which curvature do the rows want, if any? Models of some spaces, compared on rows that they have not seen.

Note [Choice]: the rows are split in three; each model is trained on two thirds and judged on the last. Of the spaces
whose held-out log-likelihood is within one standard error of the best, those remain whose distances between held-out
rows are within one of the least distorted, and of these the simplest is taken: the Euclidean space before a ball of any
curvature, a ball before a product. Differences are paired, row by row; the standard error is that of the rows or that
of the three parts, whichever is larger, since models that are trained again differ as well.
"""

from __future__ import annotations

import json
import logging
import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from horoball.geometry.coordinates import frozen
from horoball.geometry.random import generator_for
from horoball.hierarchy.delta import fixed_sample
from horoball.hierarchy.metrics import distortion
from horoball.hierarchy.space import Space
from horoball.options import FitOptions
from horoball.storage.settings import SettingError
from horoball.tables.table import ArrayTable, Table, spread_rows
from horoball.training.bounds import log_likelihood
from horoball.training.hooks import Hooks
from horoball.vae.model import OWN, ModelConfig
from horoball.vae.options import TableRecord, table_fit
from horoball.vae.parts import Parts
from horoball.vae.train import train

_log = logging.getLogger("horoball")
AUTO = "auto"
CURVATURES = (1.0, 0.25, 4.0)  # of a ball that is tried
_PARTS = 3
_LEAST_ROWS = 30  # ten in a part
_ROWS = 1500  # that the models are trained and judged on, at most
_SAMPLES = 100  # of a row's likelihood
_DISTANT = 500  # held-out rows between which distances are taken


class Tried(NamedTuple):
    """A space, and what came of it on held-out rows.

    Example:
        >>> Tried("E2", "ball", 0.0, -3.2, 0.5, 0.1, 0.3, 0.2, 0.1, chosen=False).space
        'E2'
    """

    space: str  # E or H with its dimension, or a product
    manifold: str
    c: float
    log_likelihood: float  # mean over held-out rows, nats, in the units the model sees
    behind: float  # of the best, nats a row
    error: float  # standard error of that
    distortion: float  # mean of |s·d'/d − 1| between held-out rows
    more: float  # than the least distorted of those that are as likely
    more_error: float  # standard error of that
    chosen: bool


def spaces(d: int, *, products: bool = True) -> list[tuple[str, str, float]]:
    """The spaces that are tried, simplest first: their names, manifolds and curvatures.

    Args:
        d: Dimension.
        products: Whether products are among them.

    Example:
        >>> [(name, c) for name, _, c in spaces(5)]
        [('E5', 0.0), ('H5', 1.0), ('H5', 0.25), ('H5', 4.0), ('H2xE3', 1.0), ('H2xH3', 1.0)]
    """
    balls = [(f"H{d}", "ball", c) for c in CURVATURES]
    signatures = [f"H2x{kind}{d - 2}" for kind in "EH" if d > 3 or kind == "E"] if products and d > 2 else []
    made = [(signature, "product:" + json.dumps({"signature": signature}), 1.0) for signature in signatures]
    return [(f"E{d}", "ball", 0.0), *balls, *made]


def choose_space(
    table: Table,
    options: FitOptions,
    parts: Parts = Parts(),  # noqa: B008
    hooks: Hooks = Hooks(),  # noqa: B008
) -> tuple[FitOptions, list[Tried]]:
    """Options of a fit with the curvature, and the space, that suit the rows in place of c = "auto"; see Note [Choice].

    It takes as long as twelve fits to at most 1,500 rows, or eighteen where products are tried: that is where no map is
    laid out.

    Args:
        table: Rows.
        options: Of the fit; any c but "auto" is left as it is.
        parts: What makes parts of the model that have no name.
        hooks: Of the fit; callbacks and loggers are told of the last one alone.

    Example:
        >>> from horoball.datasets import branching_diffusion
        >>> table = ArrayTable(branching_diffusion(depth=3).x)
        >>> short = {"hidden": (8,), "max_epochs": 1, "distance_weight": 0.0, "seed": 0}
        >>> options, tried = choose_space(table, {"c": "auto", **short})
        >>> [each.space for each in tried], options["c"] == next(each.c for each in tried if each.chosen)
        (['E2', 'H2', 'H2', 'H2'], True)
    """
    if options.get("c") != AUTO:
        return options, []
    d = ModelConfig.checked("d", options.get("d", ModelConfig.d))
    if d < 2:
        raise SettingError("c", '"auto" is for two dimensions or more; a line has no curvature. Leave it out.')
    if options.get("manifold", "ball") not in OWN["manifold"]:
        raise SettingError("c", '"auto" chooses the space as well. Leave the manifold out, or give c as a number.')
    if table.rows < _LEAST_ROWS:
        raise SettingError("c", f'"auto" compares models on held-out rows: {_LEAST_ROWS} or more, got {table.rows}.')
    known: FitOptions = {**options, "c": 0.0}
    drawn, seed = _some(table), int(options.get("seed") or 0)
    mapped = table_fit(drawn, **known)[1].distance_weight > 0
    candidates = spaces(d, products=not mapped)
    part = np.random.default_rng((seed, 0x5ACE)).permutation(drawn.rows) % _PARTS
    level = _log.level
    _log.setLevel(logging.WARNING)  # what is said of the rows, the fit says once
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [
                _judged(drawn, part, {**options, "manifold": manifold, "c": c}, parts, hooks, seed)
                for _, manifold, c in candidates
            ]
    finally:
        _log.setLevel(level)
    tried = _compared(candidates, [rows for rows, _ in found], [bent for _, bent in found], part)
    for line in lines(tried):
        _log.info("%s", line)
    chosen = next(each for each in tried if each.chosen)
    return {**options, "manifold": chosen.manifold, "c": chosen.c}, tried


def tried_of(record: TableRecord) -> list[Tried]:
    """The spaces that a fit has tried, from its record; none if its c was given or learned.

    Example:
        >>> from horoball.training import TrainConfig
        >>> made = {"training": TrainConfig(), "columns": ["a"], "rows": 9, "data": "0f"}
        >>> tried_of(TableRecord(model=ModelConfig(features=1), **made))
        []
    """
    return [Tried(**each) for each in record.tried]


def lines(tried: Sequence[Tried]) -> list[str]:
    """The table of what was tried, as it is printed.

    Example:
        >>> print(*lines([Tried("E2", "ball", 0.0, -3.2, 0.0, 0.0, 0.31, 0.0, 0.0, chosen=True)]), sep=chr(10))
        Space: E2, chosen among 1 on held-out rows.
          space  c  nats a row  behind the best  distortion
          E2     0  -3.200      0.000 ± 0.000    0.310       chosen
    """
    chosen = next(each for each in tried if each.chosen)
    said = chosen.space if chosen.space[0] == "E" else f"{chosen.space}, c = {chosen.c:g}"
    shown = [("space", "c", "nats a row", "behind the best", "distortion", "")]
    for each in tried:
        figures = f"{each.log_likelihood:.3f}", f"{each.behind:.3f} ± {each.error:.3f}", f"{each.distortion:.3f}"
        shown.append((each.space, f"{each.c:g}", *figures, "chosen" * each.chosen))
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    rows = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in shown)
    return [
        f"Space: {said}, chosen among {len(tried)} on held-out rows.",
        *(f"  {row.rstrip()}" for row in rows),
    ]


def _some(table: Table) -> ArrayTable:
    """At most 1,500 rows, in memory: a fixed sample."""
    if isinstance(table, ArrayTable) or table.covariates is not None:
        table = table.loaded()
        return table.part(fixed_sample(table.rows, _ROWS, 0))
    drawn = ArrayTable(spread_rows(table, _ROWS), table.columns)
    drawn.schema, drawn.kind, drawn.reading = table.schema, table.kind, table.reading
    return drawn


def _judged(
    table: ArrayTable, part: np.ndarray, options: FitOptions, parts: Parts, hooks: Hooks, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The log-likelihood of every row, by the model that has not seen it, and the distortion of each part."""
    likelihood, bent = np.empty(table.rows), []
    for k in range(_PARTS):
        held = table.part(np.flatnonzero(part == k))
        seen = table.part(np.flatnonzero(part != k))
        model, config = table_fit(seen, **options)
        run = train(seen, model, config, parts=parts, hooks=hooks._replace(callbacks=(), loggers=()))
        with torch.no_grad():
            rows = torch.cat(list(run.blocks(held)))
            likelihood[part == k] = log_likelihood(run.model, rows, _SAMPLES, generator=generator_for(seed)).numpy()
            z = torch.cat([run.model.embed(block).cpu().double() for block in run.blocks(held)])
        data = Space.of_points(run.seen(held).double())
        bent.append(distortion(data, Space.of_points(z, frozen(run.model.ball)), sources=_DISTANT).mean)
    return likelihood, np.nan_to_num(np.array(bent), nan=1.0)  # all rows at one place: d' is 0


def _compared(
    candidates: Sequence[tuple[str, str, float]],
    likelihood: Sequence[np.ndarray],
    bent: Sequence[np.ndarray],
    part: np.ndarray,
) -> list[Tried]:
    """Which is chosen, with all differences."""
    means = [float(rows.mean()) for rows in likelihood]
    best = int(np.argmax(means))
    behind = [_difference(likelihood[best] - rows, part) for rows in likelihood]
    near = [k for k, (gap, error) in enumerate(behind) if gap <= error]
    least = min(near, key=lambda k: float(bent[k].mean()))
    more = [_difference(rows - bent[least], np.arange(_PARTS)) for rows in bent]
    kept = [k for k in near if more[k][0] <= more[k][1]]
    chosen = min(kept, key=lambda k: (_complexity(candidates[k]), behind[k][0]))
    return [
        Tried(space, manifold, c, means[k], *behind[k], float(bent[k].mean()), *more[k], chosen=k == chosen)
        for k, (space, manifold, c) in enumerate(candidates)
    ]


def _difference(gap: np.ndarray, part: np.ndarray) -> tuple[float, float]:
    """The mean, and its standard error by rows or by parts, whichever is larger."""
    of_parts = np.array([gap[part == k].mean() for k in range(_PARTS)])
    errors = [float(each.std(ddof=1)) / math.sqrt(len(each)) for each in (gap, of_parts)]
    return float(gap.mean()), max(errors)


def _complexity(candidate: tuple[str, str, float]) -> int:
    space, _, c = candidate
    return 0 if c == 0 else 1 + space.count("x")
