"""What the paper claims, and what comes out here: `python -m experiments.claims`.

A claim has one or more parts, each some differences paired by seed. A part holds if the 95 % interval of its mean
lies on the claimed side of 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experiments import branching, mnist, table2, table3, table4
from experiments.figure7 import DIMENSIONS, improvement
from experiments.runs import figure, interval, paired

__all__ = ["Claim", "Part", "claims", "table"]

_RUNS = 3  # of two, the interval is 13 standard errors to each side, and tells nothing
_TOLERANCE = 0.2  # nats: the half width of the paper's own intervals in Table 1


@dataclass(frozen=True)
class Part:
    """Differences that should be below 0, above it, or about it."""

    name: str
    differences: dict[int, float]
    side: str = "below"

    @property
    def holds(self) -> bool | None:
        """Whether the interval lies where the claim says; None with too few runs to tell."""
        if len(self.differences) < _RUNS:
            return None
        mean, half = interval(self.differences.values())
        if self.side == "about":
            return abs(mean) + half <= _TOLERANCE
        return mean + half < 0 if self.side == "below" else mean - half > 0


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and its parts."""

    text: str
    where: str
    parts: list[Part]
    digits: int = 2

    @property
    def verdict(self) -> str:
        """In a word."""
        told = [part.holds for part in self.parts if part.holds is not None]
        if not told:
            return "not run" if not any(part.differences for part in self.parts) else "too few runs to tell"
        open_ = "" if len(told) == len(self.parts) else f" ({len(told)} of {len(self.parts)} parts have enough runs)"
        return ("reproduced" if all(told) else "partly" if any(told) else "not reproduced") + open_


def claims() -> Iterator[Claim]:
    """All claims of §5, from what has been run."""
    tree = {(c, s): branching.found(c=c, prior_scale=s) for c in (0.0, 0.1, 1.2) for s in (1.0, 1.7)}
    yield Claim(
        "The N-VAE is recovered as c tends to 0: c = 0.1 against the N-VAE, nats",
        "§5.1, Table 1",
        [Part("σ₀ = 1", paired(tree[0.1, 1.0], tree[0.0, 1.0]), "about")],
    )
    yield Claim(
        "The P-VAE outperforms its Euclidean counterpart: c = 1.2 against the N-VAE, nats",
        "§5.1, Table 1",
        [Part(f"σ₀ = {s:g}", paired(tree[1.2, s], tree[0.0, s])) for s in (1.7, 1.0)],
    )
    yield Claim(
        "A wider prior improves generalization: σ₀ = 1.7 against 1, nats",
        "§5.1, Table 1",
        [Part(f"c = {c:g}", paired(tree[c, 1.7], tree[c, 1.0])) for c in (1.2, 0.0)],
    )
    flat = [mnist.found(d=d, c=0.0) for d in table2.DIMENSIONS]
    best = {
        normal: [mnist.found(d=d, c=c, posterior=normal) for d, c in zip(table2.DIMENSIONS, cs, strict=True)]
        for normal, cs in table2.BEST.items()
    }
    gains = [paired(a, b) for a, b in zip(best["riemannian"], flat, strict=True)]
    yield Claim(
        "The P-VAE outperforms the N-VAE on MNIST: Riemannian, the paper's best c, against the N-VAE, nats",
        "§5.2, Table 2",
        [Part(f"d = {d}", gain) for d, gain in zip(table2.DIMENSIONS, gains, strict=True)],
    )
    yield Claim(
        "The Riemannian normal is slightly better than the wrapped one: each at its best c in the paper, nats",
        "§5.2, Table 2",
        [
            Part(f"d = {d}", paired(a, b))
            for d, a, b in zip(table2.DIMENSIONS, best["riemannian"], best["wrapped"], strict=True)
        ],
    )
    yield Claim(
        "The gain is largest in few dimensions: gain at d = 2 against the gain at d = 20, nats",
        "§5.2, Table 2",
        [Part("d = 2 against 20", paired(gains[0], gains[-1]))],
    )
    yield Claim(
        "log₀ before the MLP improves on the MLP, %",
        "§5.2, Figure 7",
        [Part(f"d = {d}", improvement(d, "log0"), "above") for d in DIMENSIONS],
    )
    yield Claim(
        "The gyroplane layer improves on log₀, %",
        "§5.2, Figure 7",
        [Part(f"d = {d}", paired(improvement(d, "gyroplane"), improvement(d, "log0")), "above") for d in DIMENSIONS],
    )
    yield Claim(
        "Digits are told apart better in the disc: mean accuracy at c = 1.4 less the N-VAE's, points",
        "§5.2, Table 3",
        [Part("d = 2", paired(table3.column(1.4, 10), table3.column(0.0, 10)), "above")],
        digits=1,
    )
    for score in ("auc", "ap"):
        yield Claim(
            f"The P-VAE predicts links better: {score.upper()} less the N-VAE's, points",
            "§5.3, Table 4",
            [Part(graph, table4.gain(graph, score), "above") for graph in table4.GRAPHS],
            digits=1,
        )


def table() -> str:
    """A line for each claim."""
    lines = ["| the paper | where | here | paired differences, mean ± 95 % (runs) |", "|---|---|---|---|"]
    for claim in claims():
        parts = "; ".join(
            f"{part.name}: {figure(part.differences, claim.digits, '+')}"
            + (f" ({len(part.differences)})" if part.differences else "")
            for part in claim.parts
        )
        lines.append(f"| {claim.text} | {claim.where} | **{claim.verdict}** | {parts} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    print(table())


if __name__ == "__main__":
    main()
