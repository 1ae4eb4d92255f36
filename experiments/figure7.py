"""Figure 7, what the decoder's first layer is worth: `python -m experiments.figure7`.

MNIST, wrapped normal, c = 1: an MLP on ball coordinates, an MLP on log₀(z), and the gyroplane layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from experiments.mnist import STUDY, found, rough, run, setting
from experiments.runs import Setting, arguments, carry_out, figure
from experiments.table2 import SOME

DIMENSIONS = (2, 5, 10)
DECODERS = {"mlp": "MLP", "log0": "log₀, MLP", "gyroplane": "gyroplane"}


def settings(seeds: int) -> Iterator[Setting]:
    """Every run: a seed of everything first."""
    for seed in range(seeds):
        for d in DIMENSIONS:
            for decoder in DECODERS:
                part = {"images": SOME} if seed else {}
                yield setting(d, 1.0, seed, posterior="wrapped", decoder=decoder, **part)


def improvement(d: int, decoder: str) -> dict[int, float]:
    """How much lower a decoder's negative log-likelihood is than the MLP's, in percent, paired by seed."""
    base, other = (found(d=d, c=1.0, posterior="wrapped", decoder=kind) for kind in ("mlp", decoder))
    return {seed: 100 * (1 - other[seed] / base[seed]) for seed in sorted(base.keys() & other.keys())}


def table() -> str:
    """Likelihoods, and improvements over the MLP, from what has been run."""
    columns = " | ".join(f"d = {d} | gain, %" for d in DIMENSIONS)
    lines = [f"| decoder | {columns} |", f"|---|{'--:|--:|' * len(DIMENSIONS)}"]
    for decoder, name in DECODERS.items():
        cells = []
        for d in DIMENSIONS:
            which: dict[str, Any] = {"d": d, "c": 1.0, "posterior": "wrapped", "decoder": decoder}
            cells.append(rough(**which) + figure(found(**which), 2))
            cells.append("" if decoder == "mlp" else figure(improvement(d, decoder), 2, "+"))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 3)
    carry_out(STUDY, settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
