"""Table 1, likelihood of the branching diffusion process by curvature: `python -m experiments.table1`."""

from __future__ import annotations

from experiments.branching import STUDY, found, run
from experiments.runs import Setting, arguments, carry_out, figure, paired

CURVATURES = (0.0, 0.1, 0.3, 0.8, 1.0, 1.2)
PAPER = {1.0: (57.1, 57.1, 57.2, 56.9, 56.7, 56.6), 1.7: (57.0, 56.8, 56.6, 55.9, 55.7, 55.6)}  # each ± 0.2


def settings(seeds: int) -> list[Setting]:
    """Every run of the table: a few seeds of everything first, so that a table stands early."""
    return [
        {"c": c, "prior_scale": prior_scale, "seed": seed}
        for seed in range(seeds)
        for prior_scale in PAPER
        for c in CURVATURES
    ]


def table() -> str:
    """The table, from what has been run."""
    names = ["N-VAE", *(f"c = {c:g}" for c in CURVATURES[1:])]
    lines = [f"| negative log-likelihood, nats | σ₀ | {' | '.join(names)} |", f"|---|--:|{'--:|' * len(names)}"]
    for prior_scale, row in PAPER.items():
        lines.append(f"| the paper's | {prior_scale:g} | {' | '.join(f'{value:.1f} ± 0.2' for value in row)} |")
        runs = [found(c=c, prior_scale=prior_scale) for c in CURVATURES]
        lines.append(f"| horoball | {prior_scale:g} | {' | '.join(figure(values, 2) for values in runs)} |")
        less = [figure(paired(values, runs[0]), 2, "+") for values in runs[1:]]
        lines.append(f"| minus the N-VAE's, paired | {prior_scale:g} | | {' | '.join(less)} |")
    seeds = len(found(c=1.2, prior_scale=1.7))
    return "\n".join(lines) + f"\n\nTrainings of a cell: {seeds}."


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 20)
    carry_out(STUDY, settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
