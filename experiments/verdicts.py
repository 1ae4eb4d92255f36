"""How often the verdict errs: tables of known structure, what it says of them, with binomial intervals.

`python -m experiments.verdicts` judges 20 tables of each kind, and five of each cell of a grid of blobs, by one draw.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from scipy.stats import beta

from experiments.runs import Setting, arguments, carry_out, results
from experiments.verdict_tables import FAMILIES, GRID, simulated
from horoball.trees import verdict
from horoball.trees.verdict import ANSWERS

__all__ = ["STUDY", "grid_table", "run", "share", "table"]

STUDY = "verdicts"
_BATCH = 5  # tables of a run


def run(kind: str, batch: int) -> dict[str, Any]:
    """Answers to five tables of a kind, with the evidence."""
    found = [verdict(simulated(kind, seed), seeds=1) for seed in range(batch * _BATCH, (batch + 1) * _BATCH)]
    return {
        "answers": [one.answer for one in found],
        "groups": [one.groups for one in found],
        "p": [one.p for one in found],
        "nesting": [_number(one.nesting) for one in found],
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


def _said(kinds: Iterable[str]) -> Counter[str]:
    wanted = set(kinds)
    said: Counter[str] = Counter()
    for record in results(STUDY):
        if record["setting"]["kind"] in wanted:
            said.update(record["result"]["answers"])
    return said


def table() -> str:
    """Answers by kind, and the shares with structure, and that are called hierarchical."""
    lines = [f"| tables | number | {' | '.join(ANSWERS)} | structure, % | hierarchical, % |", "|---" + "|--:" * 7 + "|"]
    for family, kinds in FAMILIES.items():
        lines.append(_line(f"**{family}**", _said(kinds)))
        lines += [_line(kind, _said([kind])) for kind in kinds]
    return "\n".join(lines)


def grid_table() -> str:
    """Of blobs that are not nested, by how far they are apart: the share called hierarchical, and the worst cell."""
    measured = f"{' | '.join(ANSWERS)} | structure, % | hierarchical, % | worst cell, called hierarchical"
    lines = [f"| standard deviations apart | number | {measured} |"]
    lines.append("|--:" * 8 + "|---|")
    for apart in (3, 8, 20, 40):
        cells = {kind: _said([kind]) for kind in GRID if f" {apart} apart" in kind}
        worst = max(cells, key=lambda kind: _hierarchical(cells[kind]) / max(cells[kind].total(), 1))
        told = f"{worst}: {_hierarchical(cells[worst])} of {cells[worst].total()}"
        lines.append(f"{_line(str(apart), sum(cells.values(), Counter()))} {told} |")
    return "\n".join(lines)


def _hierarchical(said: Counter[str]) -> int:
    return said["nested"] + said["branching"]


def _line(name: str, said: Counter[str]) -> str:
    n = said.total()
    if not n:
        return f"| {name} | not run |" + " |" * 6
    counts = " | ".join(str(said[answer]) for answer in ANSWERS)
    return f"| {name} | {n} | {counts} | {share(n - said['not detected'], n)} | {share(_hierarchical(said), n)} |"


def main() -> None:
    """Judge the tables, and print what came out."""
    options = arguments(__doc__, 4, f"batches of {_BATCH} tables of each kind")
    kinds = [kind for family in FAMILIES.values() for kind in family]
    settings: list[Setting] = [
        {"kind": kind, "batch": batch}
        for batch in range(options.seeds)
        for kind in (*kinds, *(GRID if batch == 0 else ()))
    ]
    carry_out(STUDY, settings, run, options.workers)
    print(table(), grid_table(), sep="\n\n")


if __name__ == "__main__":
    main()
