"""What the paper leaves open: `python -m experiments.beyond`.

Does learning c find the best fixed one? How much of a gain is where the decoder's hyperplanes start? Do posteriors
with a scale for each axis, or a full covariance, do better? Does a product of spaces, or a prior that is learned? The
Euclidean twin has the same freedom: where c is learned, its prior's scale is, for c sets the unit in which σ₀ = 1 is
measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from experiments import branching, mnist
from experiments.runs import Setting, arguments, carry_out, counted, figure, paired
from experiments.table1 import CURVATURES
from experiments.table2 import PAPER, SOME

DIMENSIONS = (2, 10)
PRIOR_SCALES = (1.0, 1.7)
_SCALES = ("isotropic", "diagonal", "full")
_FIVE: dict[str, Setting] = {
    "H5, c = 0.7": {"c": 0.7},
    "E5": {"c": 0.0},
    "H5, c learned": {"c": 1.0, "learn": "c"},
    "H2xH3, c learned": {"c": 1.0, "learn": "c", "manifold": "H2xH3"},
    "H2xE3, c learned": {"c": 1.0, "learn": "c", "manifold": "H2xE3"},
    "H5, c = 0.7, mixture of ten": {"c": 0.7, "prior": "mixture"},
    "H5, c = 0.7, VampPrior of fifty": {"c": 0.7, "prior": "vamp"},
    "E5, VampPrior of fifty": {"c": 0.0, "prior": "vamp"},
}
STARTS = {"linear": "as `torch.nn.Linear`", "spread": "spread out"}


def branching_settings(seeds: int) -> Iterator[Setting]:
    """Learned curvature on the tree, from c = 1, and another start."""
    for seed in range(seeds):
        yield from (Setting(c=c, prior_scale=1.7, start="spread", seed=seed) for c in (1.2, 0.0))
        for prior_scale in PRIOR_SCALES:
            yield {"c": 1.0, "prior_scale": prior_scale, "learn": "c", "seed": seed}
            yield {"c": 0.0, "prior_scale": prior_scale, "learn": "prior", "seed": seed}


def mnist_settings(seeds: int) -> Iterator[Setting]:
    """Learned curvature, another start, then other covariances, with their twins."""
    for seed in range(seeds):
        for d in DIMENSIONS:
            yield mnist.setting(d, 1.0, seed, learn="c")
            yield mnist.setting(d, 0.0, seed, learn="prior")
        for start in STARTS:
            yield from (mnist.setting(2, c, seed, start=start) for c in (1.4, 0.0))
        for d in DIMENSIONS:
            for scale in _SCALES:
                part = {"images": SOME} if scale == "full" else {}
                yield from (mnist.setting(d, c, seed, posterior="wrapped", scale=scale, **part) for c in (1.0, 0.0))


def five_settings(seeds: int) -> Iterator[Setting]:
    """Five dimensions: one ball, products, and priors that are learned; what the tables above have is not run again."""
    for seed in range(seeds):
        for options in _FIVE.values():
            new = {"images": SOME} if {"learn", "prior"} & set(options) else {}
            yield mnist.setting(5, seed=seed, **(options | new))  # type: ignore[arg-type]


def five() -> str:
    """Spaces and priors in five dimensions, by the bound of 5,000 samples."""
    lines = ["| MNIST, d = 5 | negative log-likelihood | c | seeds |", "|---|--:|--:|--:|"]
    for name, options in _FIVE.items():
        runs, c = (mnist.found(value, d=5, **options) for value in ("nll", "c"))  # type: ignore[arg-type]
        each = next(iter(c.values()), "")
        shown = ", ".join(f"{value:.2f}" for value in each) if isinstance(each, list) else f"{each:.2f}" if runs else ""
        mark = mnist.rough(d=5, **options)  # type: ignore[arg-type]
        lines.append(f"| {name} | {mark}{figure(runs, 2)} | {shown} | {len(runs)} |")
    return "\n".join(lines)


def learned() -> str:
    """What is learned, and what it is worth beside the best fixed c."""
    lines = [
        "| | learned c | negative log-likelihood | best fixed c | its | learned − best | N-VAE, σ₀ learned | − best |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for prior_scale in PRIOR_SCALES:
        fixed = {c: branching.found(c=c, prior_scale=prior_scale) for c in CURVATURES[1:]}
        free: dict[str, Any] = {"c": 1.0, "prior_scale": prior_scale, "learn": "c"}
        found = (branching.found("c", **free), branching.found(**free))
        twin = branching.found(c=0.0, prior_scale=prior_scale, learn="prior")
        lines.append(_line(f"branching, σ₀ = {prior_scale:g}", *found, fixed, twin, {}))
    for d in DIMENSIONS:
        fixed = {c: mnist.found(d=d, c=c) for normal, c in PAPER if normal == "riemannian"}
        found = (mnist.found("c", d=d, c=1.0, learn="c"), mnist.found(d=d, c=1.0, learn="c"))
        marks = {c: mnist.rough(d=d, c=c) for c in fixed}
        lines.append(_line(f"MNIST, d = {d}", *found, fixed, mnist.found(d=d, c=0.0, learn="prior"), marks))
    return "\n".join(lines)


def _line(
    name: str,
    c: dict[int, float],
    nll: dict[int, float],
    fixed: dict[float, dict[int, float]],
    twin: dict[int, float],
    marks: dict[float, str],
) -> str:
    tried = {value: runs for value, runs in fixed.items() if runs}
    best = min(tried, key=lambda value: sum(tried[value].values()) / len(tried[value])) if tried else None
    runs = {} if best is None else tried[best]
    cells = [
        figure(c, 2),
        counted(nll, 2),
        "" if best is None else f"{best:g}",
        "not run" if best is None else marks.get(best, "") + counted(runs, 2),
        counted(paired(nll, runs), 2, "+"),
        counted(twin, 2),
        counted(paired(twin, runs), 2, "+"),
    ]
    return f"| {name} | {' | '.join(cells)} |"


def starts() -> str:
    """What it is worth where the hyperplanes of the decoder's first layer start, to either model."""
    lines = ["| | hyperplanes start | P-VAE | N-VAE | P − N, paired |", "|---|---|--:|--:|--:|"]
    tree: dict[str, dict[str, Any]] = {s: {"start": s} if s == "spread" else {} for s in STARTS}
    found = {
        "MNIST, d = 2, c = 1.4": [{s: mnist.found(d=2, c=c, start=s) for s in STARTS} for c in (1.4, 0.0)],
        "branching, σ₀ = 1.7, c = 1.2": [
            {s: branching.found(c=c, prior_scale=1.7, **tree[s]) for s in STARTS} for c in (1.2, 0.0)
        ],
    }
    for data, (curved, flat) in found.items():
        for first, second in (("linear", "linear"), ("spread", "spread"), ("spread", "linear")):
            name = f"both {STARTS[first]}" if first == second else f"the P-VAE's {STARTS[first]}, the N-VAE's not"
            cells = [counted(curved[first], 2), counted(flat[second], 2)]
            difference = counted(paired(curved[first], flat[second]), 2, "+")
            lines.append(f"| {data} | {name} | {' | '.join(cells)} | {difference} |")
    return "\n".join(lines)


def covariances() -> str:
    """Wrapped posteriors by the shape of their covariance, curved and flat."""
    names = " | ".join(f"{scale} | − isotropic, paired" for scale in _SCALES[1:])
    lines = [f"| MNIST | c | isotropic | {names} |", f"|---|--:|--:|{'--:|--:|' * 2}"]
    for d in DIMENSIONS:
        for c in (1.0, 0.0):
            runs = {scale: mnist.found(d=d, c=c, posterior="wrapped", scale=scale) for scale in _SCALES}
            marks = {scale: mnist.rough(d=d, c=c, posterior="wrapped", scale=scale) for scale in _SCALES}
            cells = [figure(runs["isotropic"], 2)]
            for scale in _SCALES[1:]:
                cells += [marks[scale] + figure(runs[scale], 2), figure(paired(runs[scale], runs["isotropic"]), 2, "+")]
            lines.append(f"| d = {d} | {c:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the tables."""
    options = arguments(__doc__, 1, "of MNIST; the tree has 20")
    carry_out(branching.STUDY, branching_settings(20), branching.run, options.workers)
    carry_out(mnist.STUDY, five_settings(options.seeds), mnist.run, options.workers)
    carry_out(mnist.STUDY, mnist_settings(options.seeds), mnist.run, options.workers)
    print(learned(), starts(), covariances(), five(), sep="\n\n")


if __name__ == "__main__":
    main()
