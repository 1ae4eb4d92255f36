"""The command line: how many inputs, from which seed, and where those that were found are kept."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.table import markdown
from quality.fuzzing.readers import READERS, STRUCTURED
from quality.fuzzing.seeds import seeds
from quality.fuzzing.watch import Outcome
from quality.fuzzing.worker import Stretch, outcomes

__all__ = ["main", "spread"]

_ALL = READERS | STRUCTURED


@dataclass
class Count:
    """What became of a reader's inputs."""

    inputs: int = 0
    read: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Count one more."""
        self.inputs += 1
        self.slowest = max(self.slowest, outcome.seconds)
        if outcome.kind == "read":
            self.read += 1
        else:
            (self.refused if outcome.kind == "refused" else self.findings)[outcome.what] += 1

    def cells(self, name: str) -> list[str]:
        """What is printed."""
        types = ", ".join(f"{kind} {count:,}" for kind, count in self.refused.most_common())
        numbers = [f"{number:,}" for number in (self.inputs, self.read, self.refused.total())]
        return [name, *numbers, types, f"{self.slowest:.2f}", str(self.findings.total())]


def spread(inputs: int, names: Sequence[str]) -> list[Stretch]:
    """So many inputs for each reader, by their weights."""
    whole = sum(_ALL[name].weight for name in names)
    counts = {name: max(1, int(inputs * _ALL[name].weight / whole)) for name in names}
    counts[names[0]] += max(0, inputs - sum(counts.values()))  # what rounding has left over
    return [Stretch(name, 0, count) for name, count in counts.items()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read damaged files; the code is 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m quality.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the inputs that something was found with")
    parser.add_argument("--reader", action="append", choices=list(_ALL), help="only this one; may be repeated")
    parser.add_argument(
        "--structure", action="store_true", help="only files that are sound in themselves and ask for much"
    )
    parser.add_argument("--number", type=int, help="only the input of this number, of one reader")
    options = parser.parse_args(arguments)
    names = options.reader or list(STRUCTURED if options.structure else READERS)
    files, start = seeds(tuple(names)), time.perf_counter()
    stretches = spread(options.inputs, names)
    if options.number is not None:
        stretches = [Stretch(stretch.reader, options.number, options.number + 1) for stretch in stretches]
    counts = {stretch.reader: Count() for stretch in stretches}
    for reader, number, outcome in outcomes(stretches, options.seed, files):
        counts[reader].add(outcome)
        if outcome.kind != "finding":
            continue
        given = _ALL[reader].given(options.seed, reader, number, files[reader])
        if counts[reader].findings[outcome.what] == 1:
            print(f"{reader}: {outcome.what}; {given.said}")
            print(f'    python -m quality.fuzz --seed {options.seed} --reader "{reader}" --number {number}', flush=True)
        if options.keep and counts[reader].findings[outcome.what] <= 3:
            for name, data in given.files.items():
                path = options.keep / f"{reader}-{number}" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data if isinstance(data, bytes) else f"({data.kind} {data.target})".encode())
    header = ("reader", "inputs", "read", "refused", "by type of refusal", "slowest, s", "findings")
    print(markdown(header, [count.cells(name) for name, count in counts.items()]))
    total, seconds = sum(count.inputs for count in counts.values()), time.perf_counter() - start
    print(f"\n{total:,} inputs in {seconds / 60:.1f} min, {total / seconds:.0f} a second.")
    for name, count in counts.items():
        for what, times in count.findings.most_common():
            print(f"- {name}: {what} ({times:,} ×)")
    return 1 if any(count.findings for count in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
