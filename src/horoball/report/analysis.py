"""`horoball report`: is the table hierarchical, did geometry help, in numbers and in plain words.

Does curvature help? The hyperbolic model and its Euclidean baseline (c = 0), compared on held-out rows.

A report is short or thorough. A short one takes as long for any table: the verdict is that of `check`, pairs are
trained on 1,250 rows, drawn anew by each seed, and the tree of the labels is that of columns. A thorough one trains on
all rows, and its trees are by the first hyperbolic model, which weights columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.special import stdtrit
from torch import Tensor

from horoball.geometry.coordinates import frozen
from horoball.geometry.random import generator_for
from horoball.hierarchy.delta import Delta, delta, fixed_sample, references
from horoball.hierarchy.metrics import Metrics, metrics
from horoball.hierarchy.space import Space
from horoball.report.check import Check
from horoball.report.check import tree as tree_of_columns
from horoball.tables.cell_values import category_names
from horoball.tables.table import ArrayTable, Table
from horoball.training.bounds import log_likelihood
from horoball.training.config import TrainConfig
from horoball.trees.tree import Tree
from horoball.trees.verdict import Verdict
from horoball.vae.model import ModelFields
from horoball.vae.run import Run
from horoball.vae.train import train
from horoball.vae.tree import table_tree

SHORT_ROWS = 1250  # that a pair of a short report is trained and compared on, at most
_HELD_OUT = 0.2  # of the rows, for the log-likelihood


@dataclass(frozen=True)
class Candidate:
    """One trained model, judged."""

    c: float
    seed: int
    log_likelihood: float  # mean over the held-out rows, in the units the model sees
    metrics: Metrics
    epochs: int
    embedding: Tensor = field(repr=False)  # of all rows, in the tangent chart


@dataclass(frozen=True)
class Difference:
    """Hyperbolic less Euclidean, paired by seed: the mean and its 95 % interval.

    The seeds' rows overlap, so their differences are not independent: the interval is Student's, widened by Nadeau and
    Bengio's factor for random splits.
    """

    mean: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or −1 where the interval is on one side of 0, otherwise 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


@dataclass(frozen=True)
class Candidates:
    """Pairs of models, hyperbolic and Euclidean, one pair per seed."""

    hyperbolic: list[Candidate]
    euclidean: list[Candidate]
    seen: Tensor = field(repr=False)  # all rows, as the first model sees them
    first: Run | None = field(default=None, repr=False)  # the first hyperbolic model

    def values(self, name: str) -> tuple[list[float], list[float]] | None:
        """A figure of all hyperbolic and all Euclidean models; None where it was not measured."""
        found = [[_figure(candidate, name) for candidate in side] for side in (self.hyperbolic, self.euclidean)]
        if any(value is None for side in found for value in side):
            return None
        return ([float(v) for v in found[0] if v is not None], [float(v) for v in found[1] if v is not None])


def _figure(candidate: Candidate, name: str) -> float | None:
    return candidate.log_likelihood if name == "log_likelihood" else getattr(candidate.metrics, name, None)


def difference(hyperbolic: list[float], euclidean: list[float]) -> Difference:
    """The paired difference with its interval, infinite for a single pair.

    Example:
        >>> difference([1.0, 3.0], [0.0, 1.0]).mean
        1.5
    """
    gap = np.subtract(hyperbolic, euclidean)
    mean, n = float(gap.mean()), len(gap)
    if n < 2:
        return Difference(mean, -np.inf, np.inf)
    reach = float(stdtrit(n - 1, 0.975) * gap.std(ddof=1) * np.sqrt(1 / n + _HELD_OUT / (1 - _HELD_OUT)))
    return Difference(mean, mean - reach, mean + reach)


def compare_geometries(
    table: ArrayTable,
    model: ModelFields,
    config: TrainConfig,
    *,
    c: float = 1.0,
    seeds: int = 3,
    most: int | None = None,
    samples: int = 500,
    told: Callable[[int, int], None] | None = None,
) -> Candidates:
    """Train both models with each seed, on the same rows, with the same budget, and judge them.

    A fifth of the rows is held out for the log-likelihood, a new fifth for each seed. Metrics are those of all rows.

    Args:
        table: Rows.
        model: Fields of `ModelConfig` other than features and c.
        config: Settings of the training.
        c: Minus the curvature of the hyperbolic model.
        seeds: Number of pairs.
        most: Rows that a pair is trained and compared on, at most, drawn anew by each seed; all if not given.
        samples: Importance samples of the log-likelihood.
        told: Called with the number of models that are done, and of all.

    Example:
        >>> from horoball.datasets import branching_diffusion
        >>> x = branching_diffusion(depth=3).x
        >>> short = TrainConfig(max_epochs=1)
        >>> candidates = compare_geometries(ArrayTable(x), {"hidden": (8,)}, short, seeds=2, samples=5)
        >>> [candidate.c for candidate in (*candidates.hyperbolic, *candidates.euclidean)]
        [1.0, 1.0, 0.0, 0.0]
    """
    if not c > 0:
        raise ValueError(f"The hyperbolic model needs c > 0, got {c}.")
    found: dict[float, list[Candidate]] = {c: [], 0.0: []}
    first: list[Run] = []
    for seed in range(seeds):
        drawn = table if most is None else table.part(fixed_sample(table.rows, most, seed))
        part, held = drawn.split(_HELD_OUT, seed + 1000)
        if held is None:
            raise ValueError(f"A comparison holds out a fifth of the rows; {table.rows} rows are too few.")
        for curvature, candidates in found.items():
            run = train(part, model | {"c": curvature}, config.replace(seed=seed))
            first = first or [run]
            candidates.append(_judged(run, table, held, curvature, seed, samples))
            if told is not None:
                told(sum(map(len, found.values())), 2 * seeds)
    return Candidates(found[c], found[0.0], first[0].seen(table), first[0])


def _judged(run: Run, table: ArrayTable, held: ArrayTable, c: float, seed: int, samples: int) -> Candidate:
    with torch.no_grad():
        held_out = torch.cat(list(run.blocks(held)))
        likelihood = float(log_likelihood(run.model, held_out, samples, generator=generator_for(seed)).mean())
        z = torch.cat([run.model.embed(block).cpu().double() for block in run.blocks(table)])
    judged = metrics(run.seen(table), z, frozen(run.model.ball), labels=table.labels)
    return Candidate(c, seed, likelihood, judged, len(run.history), z)


# Of a candidate: name, how it is called, whether more is better
FIGURES = (
    ("log_likelihood", "held-out log-likelihood, nats a row", True),
    ("q_local", "Q_local, neighborhoods kept", True),
    ("q_global", "Q_global, layout kept", True),
    ("rank_correlation", "rank correlation of distances", True),
    ("trustworthiness", "trustworthiness", True),
    ("mean_distortion", "mean distortion", False),
    ("neighbor_accuracy", "5-NN accuracy of the labels", True),
    ("dendrogram_purity", "dendrogram purity of the labels", True),
)

_LABELS = 64  # leaves of a tree that can be drawn on the page
_DRAWS = 100  # replicates for its support, as in `horoball tree`
_ROWS = 1500  # of a table that are judged and measured, a fixed sample
_LABEL_ROWS, _OF_A_LABEL = 600, 40  # that say how far labels are apart, in a short report: in all, and of each
_LANDMARKS = 80  # that δ is measured from: its intervals are then some 0.02 wide

CALLED = {"hyperbolic": "hyperbolic", "euclidean": "Euclidean", "neither": "neither"}


@dataclass(frozen=True)
class Report:
    """All that the page shows."""

    name: str
    rows: int
    columns: int
    c: float
    distance_weight: float  # of both models
    verdict: Verdict
    judged: tuple[int, int]  # rows and columns that the verdict is of
    trained: int  # rows that each pair was trained and compared on
    measured: Delta  # of the geodesics of the table
    references: dict[str, Delta]
    candidates: Candidates
    labels: np.ndarray | None
    tree: Tree  # of the labels where there are up to 64, else of the rows
    labeled: bool  # whether it is of the labels

    def comparison(self) -> list[dict[str, Any]]:
        """One line per figure: both means, the paired difference, and for whom it speaks."""
        lines = []
        for name, called, more_is_better in FIGURES:
            values = self.candidates.values(name)
            if values is None:
                continue
            gap = difference(*values)
            better = gap.sign if more_is_better else -gap.sign
            line = {"figure": name, "called": called, "hyperbolic": values[0], "euclidean": values[1]}
            side = ("euclidean", "neither", "hyperbolic")[better + 1]
            lines.append(line | {"difference": asdict(gap), "better": side})
        return lines

    @property
    def words(self) -> list[str]:
        """The answers in plain words: is it hierarchical, did geometry help, what to do."""
        return [_is_hierarchical(self.verdict), *_did_it_help(self.comparison(), len(self.candidates.hyperbolic))]

    def as_dict(self) -> dict[str, Any]:
        """Everything but the maps, ready for JSON."""
        return {
            "name": self.name,
            "rows": self.rows,
            "columns": self.columns,
            "c": self.c,
            "distance_weight": self.distance_weight,
            "words": self.words,
            "verdict": {"answer": self.verdict.answer} | asdict(self.verdict),
            "judged": {"rows": self.judged[0], "columns": self.judged[1]},
            "trained": self.trained,
            "measured": asdict(self.measured),
            "references": {name: asdict(known) for name, known in self.references.items()},
            "comparison": self.comparison(),
            "tree": self.tree.to_newick(),
            "epochs": {
                "hyperbolic": _epochs(self.candidates.hyperbolic),
                "euclidean": _epochs(self.candidates.euclidean),
            },
        }


def make_report(
    table: Table,
    config: TrainConfig,
    *,
    name: str = "",
    model: ModelFields | None = None,
    c: float = 1.0,
    seeds: int = 3,
    checked: Check | None = None,
    told: Callable[[int, int], None] | None = None,
) -> Report:
    """Judge a table, train both models with several seeds, and put everything together.

    Args:
        table: Rows, with labels if there are some; they are used to judge, not to fit.
        config: Settings of the training, the same for both models.
        name: Heading.
        model: Fields of `ModelConfig` other than features and c.
        c: Minus the curvature of the hyperbolic model.
        seeds: Number of pairs of models.
        checked: What `check` found: the report is then a short one. A thorough one if not given.
        told: Called with the number of parts that are done, and of all: the models, then the tree.

    Example:
        >>> from horoball.datasets import branching_diffusion
        >>> table = ArrayTable(branching_diffusion(depth=5, seed=1).x)
        >>> report = make_report(table, TrainConfig(max_epochs=1), model={"hidden": (8,)}, seeds=2)
        >>> report.verdict.answer
        'branching'
    """
    if table.rows < 20:
        raise ValueError(f"A report needs at least 20 rows, got {table.rows}.")
    given = table.read_labels()
    labels = None if given is None else category_names(given)
    table = table.loaded()
    table.labels = labels
    parts, most = 2 * seeds + 1, None if checked is None else SHORT_ROWS
    trained = None if told is None else lambda done, _: told(done, parts)
    candidates = compare_geometries(table, model or {}, config, c=c, seeds=seeds, most=most, told=trained)
    labeled = labels is not None and 2 < len(np.unique(labels)) <= _LABELS
    sample = fixed_sample(table.rows, _ROWS)
    seen = candidates.seen[sample]
    if checked is not None and checked.tree is not None:
        rows, judged = checked.tree, checked.judged
        of_labels = tree_of_columns(table.part(_of_labels(table)), by_label=True, draws=_DRAWS) if labeled else rows
    else:
        first = _first(candidates)
        rows, judged = table_tree(first, table.part(sample), draws=_DRAWS, n_jobs=1), (len(sample), table.features)
        of_labels = table_tree(first, table, labels=labels, draws=_DRAWS) if labeled else rows
    if rows.verdict is None:
        raise ValueError("The tree of a report has replicates, and so a verdict.")
    if told is not None:
        told(parts, parts)
    return Report(
        name=name,
        rows=table.rows,
        columns=table.features,
        c=c,
        distance_weight=config.distance_weight,
        verdict=rows.verdict,
        judged=judged,
        trained=table.rows if most is None else min(most, table.rows),
        measured=delta(Space.of_neighbors(seen), landmarks=_LANDMARKS),
        references=references(len(seen), table.features, landmarks=_LANDMARKS),
        candidates=candidates,
        labels=table.labels,
        tree=of_labels,
        labeled=labeled,
    )


def _first(candidates: Candidates) -> Run:
    if candidates.first is None:
        raise ValueError("A report needs at least one pair of models.")
    return candidates.first


def _of_labels(table: ArrayTable) -> np.ndarray:
    """Rows of every label, of each about as many."""
    rng = np.random.default_rng(0)
    _, label = np.unique(np.asarray(table.labels), return_inverse=True)
    order = rng.permutation(table.rows)
    order = order[np.argsort(label[order], kind="stable")]
    rank = np.arange(table.rows) - np.searchsorted(label[order], label[order])  # within its label
    return np.sort(order[rank < min(_OF_A_LABEL, _LABEL_ROWS // (label.max() + 1))])


def _epochs(side: list[Any]) -> list[int]:
    return [candidate.epochs for candidate in side]


def _is_hierarchical(found: Verdict) -> str:
    if found.hierarchical:
        return f"Yes: {found}."
    return f"A hierarchy was not detected. {found.sentence}"


def _did_it_help(comparison: list[dict[str, Any]], seeds: int) -> list[str]:
    """The likelihood first, then the map; a difference counts if its interval leaves out 0."""
    if seeds < 2:
        return ["One pair of models says nothing about chance: run the report with two seeds or more."]
    likelihood, *others = comparison
    gap = likelihood["difference"]
    interval = f"{gap['mean']:+.2f} [{gap['low']:+.2f}, {gap['high']:+.2f}] nats a row over {seeds} pairs"
    said = {
        "hyperbolic": f"Geometry helped: the hyperbolic model explains unseen rows better, {interval}.",
        "euclidean": f"No, geometry did not help: the Euclidean model explains unseen rows better, {interval}.",
        "neither": f"No difference could be shown in how well the two models explain unseen rows: {interval}.",
    }
    maps = []
    for side in ("hyperbolic", "euclidean"):
        names = [line["called"] for line in others if line["better"] == side]
        maps += [f"The {CALLED[side]} map is better in: {'; '.join(names)}."] if names else []
    return [said[likelihood["better"]], *(maps or ["Neither map is better than the other beyond chance."])]
