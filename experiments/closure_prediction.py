"""Pairs of a closure that were not given: `python -m experiments.closure_prediction`.

The common split keeps all direct edges and a share of the other pairs of the closure, and asks for held-out ones among
ten times as many wrong pairs. There a rule without any model is always right: a pair is true if a chain of given edges
leads from one to the other. So a second split takes a tenth of the direct edges away, too, and asks for pairs that no
chain of given pairs leads to. In the first split models are fitted to the pairs as they are given, as published ones
are; in the second to all pairs that chains of them lead to, as `PoincareGraphVAE(directed=True)` is by itself. F1 is
that of the threshold that is best on one half of the pairs, on the other half.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch

from experiments.runs import Setting, arguments, carry_out, interval, results
from experiments.taxonomies import taxonomy
from experiments.wordnet_data import Taxonomy
from horoball.geometry.random import generator_for
from horoball.graphs import Graph, GraphConfig, GraphVAE
from horoball.graphs.fit import fit_graph, training_for
from horoball.graphs.graph import transitive_closure
from horoball.graphs.model import FreeEncoder
from horoball.graphs.run import non_edges_for
from horoball.graphs.start import place_nodes

__all__ = ["STUDY", "Split", "f1", "run", "settings", "split_closure", "table"]

STUDY = "closure_prediction"
D = 5
PARTS = ("mammals", "google")
SPLITS = {"all": "all direct edges are given", "fewer": "a tenth of them is not, and no chain leads to a pair"}
SHARES = (0.0, 0.1, 0.25, 0.5)
MODELS = {"directed": 1.0, "flat": 0.0}
_WRONG = 10  # wrong pairs for each that is asked for
_HELD = 0.1  # of the pairs, or of the direct edges


class Split(NamedTuple):
    """What is given and what is asked for."""

    given: Graph  # what models are fitted to
    reached: Graph  # all pairs that chains of given ones lead to
    true: np.ndarray  # pairs (child, ancestor), shape (k, 2)
    wrong: np.ndarray


def split_closure(tree: Taxonomy, kind: str, share: float, seed: int) -> Split:
    """Given pairs, and pairs to ask for.

    Example:
        >>> names = np.array([str(i) for i in range(40)])
        >>> chain = Taxonomy.of(names, torch.tensor([[i, i - 1] for i in range(1, 40)]))
        >>> split = split_closure(chain, "fewer", 0.1, 0)
        >>> bool(split.given.holds(torch.from_numpy(split.true)).any())
        False
    """
    rng = np.random.default_rng(seed)
    direct = Graph.of(tree.parents, tree.nodes, directed=True)
    closure = tree.closure.numpy()
    indirect = closure[~direct.holds(tree.closure).numpy()]
    edges = tree.parents.numpy()
    if kind == "fewer":
        edges = edges[np.sort(rng.permutation(len(edges))[int(_HELD * len(edges)) :])]
    indirect = indirect[rng.permutation(len(indirect))]
    if kind == "all":
        held, rest = np.split(indirect, [int(_HELD * len(indirect))])
    else:
        held, rest = closure, indirect
    known = np.concatenate((edges, rest[: int(share * len(indirect))]))
    given = Graph.of(torch.from_numpy(known), tree.nodes, directed=True)
    reached = transitive_closure(given)
    if kind == "fewer":
        given, held = reached, held[~reached.holds(torch.from_numpy(held)).numpy()]
    return Split(given, reached, held, _wrong(tree, held, rng))


def _wrong(tree: Taxonomy, true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pairs that are not in the closure: of each true pair one end or the other is replaced."""
    whole = Graph.of(tree.closure, tree.nodes, directed=True)
    right = np.repeat(true, _WRONG, axis=0)
    pairs, todo = right.copy(), np.arange(len(right))
    while len(todo):  # an end is drawn, too: everything is below the root
        pairs[todo] = right[todo]
        pairs[todo, rng.integers(2, size=len(todo))] = rng.integers(tree.nodes, size=len(todo))
        same = pairs[todo, 0] == pairs[todo, 1]
        todo = todo[same | whole.holds(torch.from_numpy(pairs[todo])).numpy()]
    return pairs


def f1(true: np.ndarray, wrong: np.ndarray) -> float:
    """F1 of scores, larger for true pairs: the threshold is that of every other pair, the figure that of the others.

    Example:
        >>> f1(np.array([3.0, 4.0, 3.5, 5.0]), np.array([1.0, 2.0, 1.5, 0.0]))
        1.0
    """
    score, label = np.concatenate((true[::2], wrong[::2])), np.repeat([1, 0], [len(true[::2]), len(wrong[::2])])
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(label[order])
    last = np.append(np.diff(score[order]) != 0, True)  # thresholds are between different scores
    found = np.where(last, 2 * hits / (np.arange(1, len(order) + 1) + len(true[::2])), 0.0)
    best = int(found.argmax())
    low = score[order][best]
    below = score[order][best + 1] if best + 1 < len(order) else low
    right, false = int((true[1::2] > (low + below) / 2).sum()), int((wrong[1::2] > (low + below) / 2).sum())
    return 2 * right / max(1, right + false + len(true[1::2]))


def run(part: str, split: str, share: float, model: str, seed: int) -> dict[str, Any]:
    """F1 of a model and of two rules."""
    tree = taxonomy(part)
    made = split_closure(tree, split, share, seed)
    pairs = [torch.from_numpy(which) for which in (made.true, made.wrong)]
    reached = [made.reached.holds(which).numpy().astype(float) for which in pairs]
    below = np.bincount(made.reached.edges[:, 1].numpy(), minlength=tree.nodes)
    general = [(below[which[:, 1]] - below[which[:, 0]]).astype(float) for which in pairs]
    config = GraphConfig(
        tree.nodes, d=D, c=MODELS[model], encoder="free", edges="fermi_dirac", learn_prior=True, directed=True
    )
    vae = GraphVAE.from_config(config, generator=generator_for(seed))
    assert isinstance(vae.encoder, FreeEncoder)
    place_nodes(vae.encoder, made.given, seed=seed)
    epochs = 100 if model == "directed" else 300  # c = 0 has no cones to start from
    training = training_for("free", directed=True, transitive=model != "flat", seed=seed, max_epochs=epochs)
    fit_graph(vae, made.given, training, non_edges=non_edges_for(made.given))
    with torch.no_grad():
        z = vae.embed(made.given).double()
        offset = vae.offset(z)
        assert offset is not None
        # The less of a detour the ancestor is, the likelier is the pair.
        scores = [(offset[i] - offset[j] - vae.ball.dist(z[i], z[j])).numpy() for i, j in (p.T for p in pairs)]
    return {
        "pairs": len(made.true),
        "given": len(made.given.edges),
        "f1": f1(*scores),
        "reachable": f1(*reached),
        "general": f1(*general),
    }


def settings(seeds: int) -> Iterator[Setting]:
    """Every run: a seed of all first."""
    for seed, part, split, share, model in product(range(seeds), PARTS, SPLITS, SHARES, MODELS):
        yield {"part": part, "split": split, "share": share, "model": model, "seed": seed}


def table() -> str:
    """A line for each split and share, from what has been run."""
    lines = [
        "| taxonomy | split | closure given | pairs asked for | reachable | most descendants | c = 0 | c = 1 | seeds |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    found: dict[tuple[str, str, float], dict[str, list[dict[str, Any]]]] = {}
    for record in results(STUDY):
        at = record["setting"]
        kinds = found.setdefault((at["part"], at["split"], at["share"]), {})
        kinds.setdefault(at["model"], []).append(record["result"])
    for part in PARTS:
        for split, told in SPLITS.items():
            for share in SHARES:
                kinds = found.get((part, split, share), {})
                both = [result for runs in kinds.values() for result in runs]
                if both:
                    cells = [f"{interval(r[name] for r in both)[0]:.3f}" for name in ("reachable", "general")]
                    for model in ("flat", "directed"):
                        runs = kinds.get(model, [])
                        cells.append(f"{interval(r['f1'] for r in runs)[0]:.3f}" if runs else "")
                    pairs, seeds = round(interval(r["pairs"] for r in both)[0]), len(kinds.get("directed", []))
                    lines.append(f"| {part} | {told} | {share:.0%} | {pairs:,} | {' | '.join(cells)} | {seeds} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 3)
    carry_out(STUDY, settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
