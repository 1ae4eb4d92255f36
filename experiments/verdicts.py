"""How often the verdict errs: tables of known structure, what it says of them, with binomial intervals.

`python -m experiments.verdicts` judges 50 tables of each kind.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from scipy.stats import beta

from experiments.runs import Setting, arguments, carry_out, results
from experiments.verdict_tables import FAMILIES, simulated
from horoball.hierarchy import verdict

__all__ = ["STUDY", "run", "share", "table"]

STUDY = "verdicts"
ANSWERS = ("none", "clusters", "nested", "branching", "undecided")
_BATCH = 10  # tables of a run


def run(kind: str, batch: int) -> dict[str, Any]:
    """Answers to ten tables of a kind, with the number of groups, levels and the position."""
    found = [verdict(simulated(kind, seed)) for seed in range(batch * _BATCH, (batch + 1) * _BATCH)]
    return {
        "answers": [one.answer for one in found],
        "groups": [one.groups for one in found],
        "levels": [one.levels for one in found],
        "position": [_number(one.position.value) for one in found],
        "p_nesting": [[[_number(level.p_ratio), _number(level.p_conflict)] for level in one.nesting] for one in found],
    }


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else round(value, 3)


def share(count: int, of: int) -> str:
    """A share in percent with its 95 % interval (Clopper and Pearson's).

    Example:
        >>> share(0, 200), share(5, 50)
        ('0.0 [0.0, 1.8]', '10.0 [3.3, 21.8]')
    """
    low = float(beta.ppf(0.025, count, of - count + 1)) if count else 0.0
    high = float(beta.ppf(0.975, count + 1, of - count)) if count < of else 1.0
    return f"{100 * count / of:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def table() -> str:
    """Answers by kind, and by family the share that is called hierarchical."""
    said: dict[str, Counter[str]] = {}
    for record in results(STUDY):
        said.setdefault(record["setting"]["kind"], Counter()).update(record["result"]["answers"])
    lines = [
        "| tables | number | none | clusters | nested | branching | undecided | hierarchical, % |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for family, kinds in FAMILIES.items():
        lines.append(_line(f"**{family}**", sum((said.get(kind, Counter()) for kind in kinds), Counter())))
        lines += [_line(kind, said.get(kind, Counter())) for kind in kinds]
    return "\n".join(lines)


def _line(name: str, said: Counter[str]) -> str:
    n = said.total()
    if not n:
        return f"| {name} | not run |" + " |" * 6
    counts = " | ".join(str(said[answer]) for answer in ANSWERS)
    return f"| {name} | {n} | {counts} | {share(said['nested'] + said['branching'], n)} |"


def main() -> None:
    """Judge the tables, and print what came out."""
    options = arguments(__doc__, 5, f"batches of {_BATCH} tables of each kind")
    kinds = [kind for family in FAMILIES.values() for kind in family]
    settings: list[Setting] = [{"kind": kind, "batch": batch} for batch in range(options.seeds) for kind in kinds]
    carry_out(STUDY, settings, run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
