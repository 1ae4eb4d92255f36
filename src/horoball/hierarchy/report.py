"""`horoball report`: is the table hierarchical, did geometry help, in numbers and in plain words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from horoball.data.array_table import ArrayTable
from horoball.hierarchy.delta import Delta
from horoball.hierarchy.references import references
from horoball.hierarchy.twins import Twins, compare_twins, difference
from horoball.hierarchy.verdict import Verdict, verdict
from horoball.palette import named
from horoball.training.config import TrainConfig

__all__ = ["CALLED", "FIGURES", "Report", "make_report"]

# Of a twin: name, how it is called, whether more is better
FIGURES = (
    ("log_likelihood", "held-out log-likelihood, nats a row", True),
    ("q_local", "Q_local, neighbourhoods kept", True),
    ("q_global", "Q_global, layout kept", True),
    ("rank_correlation", "rank correlation of distances", True),
    ("trustworthiness", "trustworthiness", True),
    ("mean_distortion", "mean distortion", False),
    ("neighbour_accuracy", "5-NN accuracy of the labels", True),
    ("dendrogram_purity", "dendrogram purity of the labels", True),
)

CALLED = {"hyperbolic": "hyperbolic", "euclidean": "Euclidean", "neither": "neither"}


@dataclass(frozen=True)
class Report:
    """All that the page shows.

    Example:
        >>> sorted(Report.__dataclass_fields__)
        ['c', 'columns', 'labels', 'name', 'references', 'rows', 'twins', 'verdict']
    """

    name: str
    rows: int
    columns: int
    c: float
    verdict: Verdict
    references: dict[str, Delta]
    twins: Twins
    labels: np.ndarray | None

    def comparison(self) -> list[dict[str, Any]]:
        """One line per figure: both means, the paired difference, and for whom it speaks."""
        lines = []
        for name, called, more_is_better in FIGURES:
            values = self.twins.values(name)
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
        return [_is_hierarchical(self.verdict), *_did_it_help(self.comparison(), len(self.twins.hyperbolic))]

    def as_dict(self) -> dict[str, Any]:
        """Everything but the maps, ready for JSON."""
        return {
            "name": self.name,
            "rows": self.rows,
            "columns": self.columns,
            "c": self.c,
            "words": self.words,
            "verdict": asdict(self.verdict),
            "references": {name: asdict(known) for name, known in self.references.items()},
            "comparison": self.comparison(),
            "epochs": {"hyperbolic": _epochs(self.twins.hyperbolic), "euclidean": _epochs(self.twins.euclidean)},
        }


def make_report(
    table: ArrayTable,
    config: TrainConfig,
    *,
    name: str = "",
    model: dict[str, Any] | None = None,
    c: float = 1.0,
    seeds: int = 3,
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
        told: Called with the number of models that are done, and of all.

    Example:
        >>> from horoball.data import branching_diffusion
        >>> table = ArrayTable(branching_diffusion(depth=4).x)
        >>> report = make_report(table, TrainConfig(max_epochs=1), model={"hidden": (8,)}, seeds=2)
        >>> report.verdict.answer
        'hierarchical'
    """
    if table.rows < 20:
        raise ValueError(f"A report needs at least 20 rows, got {table.rows}.")
    labels = None if table.labels is None else named(table.labels)
    table = ArrayTable(torch.cat(list(table.blocks())), table.columns, labels)
    twins = compare_twins(table, model or {}, config, c=c, seeds=seeds, told=told)
    known = references(min(table.rows, 1500), table.features)
    return Report(name, table.rows, table.features, c, verdict(twins.seen), known, twins, table.labels)


def _epochs(side: list[Any]) -> list[int]:
    return [twin.epochs for twin in side]


def _is_hierarchical(found: Verdict) -> str:
    if not math.isfinite(found.position.value):
        return "Cannot say: the data have no branches to speak of, as a line or a star has none."
    where = f"position {found.position.value:.2f} [{found.position.low:.2f}, {found.position.high:.2f}]"
    scale = "on the scale from a tree (0) to a normal cloud of the same spectrum (1)"
    return {
        "hierarchical": f"Yes, the data are hierarchical: {where} {scale}.",
        "partly": f"Partly: the data lie between a hierarchy and a cloud, {where} {scale}.",
        "no": f"No, the data show no hierarchy: {where} {scale}.",
    }[found.answer]


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
