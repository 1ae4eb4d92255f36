"""Pairs of a closure that were not given: `python -m experiments.closure_prediction`.

The common split keeps all direct edges and a share of the other pairs of the closure, and asks for held-out ones among
ten times as many wrong pairs. There a rule without any model is always right: a pair is true if a chain of given edges
leads from one to the other. So a second split takes a tenth of the direct edges away, too, and asks for pairs that no
chain of given pairs leads to. In the first split models are fitted to the pairs as they are given, as published ones
are; in the second to all pairs that chains of them lead to, as `PoincareGraphVAE(directed=True)` is by itself. F1 is
that of the threshold that is best on one half of the pairs, on the other half; AP is the average precision of them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from experiments.runs import Setting, arguments, carry_out, interval, results
from experiments.taxonomies import taxonomy
from experiments.wordnet_data import Taxonomy
from horoball.geometry.random import generator_for
from horoball.graphs import Graph, GraphConfig, GraphVAE, link_scores
from horoball.graphs.fit import fit_graph, training_for
from horoball.graphs.graph import transitive_closure
from horoball.graphs.model import FreeEncoder
from horoball.graphs.run import non_edges_for
from horoball.graphs.start import place_nodes

__all__ = ["STUDY", "Split", "boxes", "f1", "run", "settings", "split_closure", "table"]

STUDY = "closure_prediction"
DIMENSIONS = (5, 10)
PARTS = ("mammals", "google")
SPLITS = {"all": "all direct edges are given", "fewer": "a tenth of them is not, and no chain leads to a pair"}
SHARES = (0.0, 0.1, 0.25, 0.5)
MODELS = {"flat": "c = 0", "boxes": "boxes", "cones": "settled cones", "directed": "c = 1"}
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


def run(part: str, split: str, share: float, model: str, d: int, seed: int) -> dict[str, Any]:
    """F1 and average precision of a model and of two rules."""
    tree = taxonomy(part)
    made = split_closure(tree, split, share, seed)
    pairs = [torch.from_numpy(which) for which in (made.true, made.wrong)]
    reached = [made.reached.holds(which).numpy().astype(float) for which in pairs]
    below = np.bincount(made.reached.edges[:, 1].numpy(), minlength=tree.nodes)
    general = [(below[which[:, 1]] - below[which[:, 0]]).astype(float) for which in pairs]
    score = boxes(made.given, d, seed) if model == "boxes" else _detours(made.given, model, d, seed)
    scores = [score(which).numpy() for which in pairs]
    is_true = np.repeat([True, False], [len(made.true), len(made.wrong)])
    return {
        "pairs": len(made.true),
        "given": len(made.given.edges),
        "f1": f1(*scores),
        "ap": link_scores(np.concatenate(scores), is_true).ap,
        "reachable": f1(*reached),
        "general": f1(*general),
        "general_ap": link_scores(np.concatenate(general), is_true).ap,
    }


def _detours(given: Graph, model: str, d: int, seed: int) -> Callable[[Tensor], Tensor]:
    """Scores of our model: the less of a detour the ancestor is, the likelier is the pair."""
    config = GraphConfig(
        given.nodes, d=d, c=float(model != "flat"), encoder="free", edges="fermi_dirac", learn_prior=True, directed=True
    )
    vae = GraphVAE.from_config(config, generator=generator_for(seed))
    assert isinstance(vae.encoder, FreeEncoder)
    place_nodes(vae.encoder, given, seed=seed)
    if model != "cones":
        epochs = 100 if model == "directed" else 300  # c = 0 has no cones to start from
        training = training_for("free", directed=True, transitive=model != "flat", seed=seed, max_epochs=epochs)
        fit_graph(vae, given, training, non_edges=non_edges_for(given))
    with torch.no_grad():
        z = vae.embed(given).double()
        offset = vae.offset(z)
        assert offset is not None

    def score(which: Tensor) -> Tensor:
        i, j = which.T
        return offset[i] - offset[j] - vae.ball.dist(z[i], z[j])

    return score


def boxes(given: Graph, d: int, seed: int, *, steps: int = 3000) -> Callable[[Tensor], Tensor]:
    """Scores of box embeddings: log p(ancestor | node) = log vol(node ∩ ancestor) − log vol(node).

    Sides are softened (Li and others, 2019), so that boxes apart have a gradient: a box has d centers and d lengths,
    twice the numbers of a point. Trained by binary cross-entropy with ten random pairs for each given one.

    Example:
        >>> chain = Graph.of([(1, 0), (2, 1), (2, 0)], 3, directed=True)
        >>> score = boxes(chain, 2, 0, steps=200)
        >>> bool(score(torch.tensor([[2, 0]])) > score(torch.tensor([[0, 2]])))
        True
    """
    generator = generator_for(seed)
    center = torch.rand(given.nodes, d, generator=generator).requires_grad_()
    length = torch.full((given.nodes, d), -1.0).requires_grad_()  # before softplus
    optimizer = torch.optim.Adam([center, length], 0.02)

    def volume(low: Tensor, high: Tensor) -> Tensor:
        return functional.softplus(high - low, beta=10).clamp_min(1e-30).log().sum(-1)

    def score(which: Tensor) -> Tensor:
        half = functional.softplus(length) / 2
        low, high = center - half, center + half
        i, j = which.T
        both = volume(torch.maximum(low[i], low[j]), torch.minimum(high[i], high[j]))
        return (both - volume(low[i], high[i])).clamp_max(-1e-6)

    for _ in range(steps):
        right = given.edges[torch.randint(len(given.edges), (512,), generator=generator)]
        wrong = right.repeat_interleave(_WRONG, 0)
        end = torch.randint(2, (len(wrong), 1), generator=generator)
        wrong = wrong.scatter(1, end, torch.randint(given.nodes, end.shape, generator=generator))
        wrong = wrong[~given.holds(wrong) & (wrong[:, 0] != wrong[:, 1])]
        loss = -score(right).mean() - _WRONG * torch.log(-torch.expm1(score(wrong))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return lambda which: score(which).detach()


def settings(seeds: int) -> Iterator[Setting]:
    """Every run: five dimensions of all seeds first."""
    for d, seed in product(DIMENSIONS, range(seeds)):
        for part, split, share, model in product(PARTS, SPLITS, SHARES, MODELS):
            yield {"part": part, "split": split, "share": share, "model": model, "d": d, "seed": seed}


def table() -> str:
    """A line for each split and share, F1 / average precision, from what has been run."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in results(STUDY):
        at = record["setting"]
        found.setdefault(tuple(at[name] for name in ("d", "part", "split", "share", "model")), []).append(
            record["result"]
        )
    lines = [
        "| taxonomy | split | closure given | pairs asked for | reachable | most descendants | d | "
        f"{' | '.join(MODELS.values())} | seeds |",
        f"|---|---|--:|--:|--:|--:|--:|{'--:|' * len(MODELS)}--:|",
    ]
    for part, (split, told), share, d in product(PARTS, SPLITS.items(), SHARES, DIMENSIONS):
        runs = {model: found.get((d, part, split, share, model), []) for model in MODELS}
        all_of = [result for each in runs.values() for result in each]
        if not all_of:
            continue

        def mean(given: list[dict[str, Any]], name: str) -> str:
            return f"{interval(result[name] for result in given)[0]:.3f}" if given else ""

        cells = [mean(all_of, "reachable"), f"{mean(all_of, 'general')} / {mean(all_of, 'general_ap')}", str(d)]
        cells += [f"{mean(each, 'f1')} / {mean(each, 'ap')}" if each else "" for each in runs.values()]
        pairs = round(interval(result["pairs"] for result in all_of)[0])
        seeds = min(map(len, runs.values()))
        lines.append(f"| {part} | {told} | {share:.0%} | {pairs:,} | {' | '.join(cells)} | {seeds} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 3)
    carry_out(STUDY, settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
