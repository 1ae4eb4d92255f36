"""What more settling would do for taxonomies: `python -m experiments.settling`.

Each attempt starts from the nested cones of a taxonomy. Besides the mammals and all nouns there is a part of the nouns:
1,000 leaves drawn at random with all of their ancestors, so that second parents are as many as in all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments.runs import Setting, arguments, carry_out, interval, results
from experiments.taxonomies import taxonomy
from experiments.wordnet_data import Taxonomy
from horoball.geometry import PoincareBall
from horoball.graphs import Graph, ranking, settle
from horoball.graphs.local_steps import take_local_steps
from horoball.graphs.model import DETOUR
from horoball.graphs.start import nested_cones

STUDY = "settling"
PARTS = {"mammals": "mammals", "part": "a part of the nouns", "nouns": "nouns"}
# title, dimension, and the steps, each from where the one before ends
ATTEMPTS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "settled": ("settled without ranking, 150 steps", 5, ("settled",)),
    "longer": ("twice as many steps, twice as long", 5, ("longer",)),
    "softmax": ("ranked by a softmax of detours, then settled: a model's start", 5, ("softmax", "briefly")),
    "wide": ("settled without ranking, d = 10", 10, ("settled",)),
    "distance": ("settled by distance: `distance_cones`", 5, ("distance",)),
    "published": ("the same, then the published objective", 5, ("distance", "published")),
    "broad": ("the same, d = 10", 10, ("distance", "published")),
    "further": ("settled by distance, then ten passes of the published objective", 5, ("distance", "further")),
    "both": ("the same, d = 10", 10, ("distance", "further")),
}
_LEAVES = 1000
_RANKED = 2000  # nodes whose ancestors are ranked
_RANDOM = 50  # nodes that an ancestor is compared with, as published
_PAIRS = 2048  # of a step of the published objective
_PASSES = {"published": 1, "further": 10}  # of it over all pairs, if that is more than 300 steps


def part_of_nouns() -> Taxonomy:
    """Some leaves of the nouns, and all of their ancestors.

    Example:
        >>> part_of_nouns().nodes  # doctest: +SKIP
        2849
    """
    whole = taxonomy("nouns")
    leaves = np.setdiff1d(whole.parents[:, 0].numpy(), whole.parents[:, 1].numpy())
    kept = torch.zeros(whole.nodes, dtype=torch.bool)
    kept[np.random.default_rng(0).permutation(leaves)[:_LEAVES]] = True
    kept[whole.closure[kept[whole.closure[:, 0]], 1]] = True
    number = kept.cumsum(0) - 1
    parents, closure = (number[pairs[kept[pairs].all(1)]] for pairs in (whole.parents, whole.closure))
    return Taxonomy(whole.names[kept.numpy()], parents, closure)


def parents_of(closure: Graph) -> np.ndarray:
    """One parent a node, −1 for none: its ancestor with fewest descendants, whose cone holds it."""
    child, ancestor = closure.edges.numpy().T
    descendants = np.bincount(ancestor, minlength=closure.nodes)
    parent = np.full(closure.nodes, -1)
    general_first = np.lexsort((-descendants[ancestor], child))
    parent[child[general_first]] = ancestor[general_first]
    return parent


def published_objective(z: Tensor, closure: Graph, seed: int, *, steps: int, rate: float = 0.05) -> Tensor:
    """Points moved by local steps, one by one, as Nickel and Kiela (2017) have it.

    The softmax of minus the distance is maximized for each ancestor of a node among 50 random nodes that are none.
    """
    generator = torch.Generator().manual_seed(seed)
    points = torch.nn.Parameter(z.double().clone())
    optimizer = torch.optim.Adam([points], rate, betas=(0.9, 0.99))
    take_local_steps(optimizer, points, PoincareBall(1.0))
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * 0.05 ** (step / steps)
        related = closure.edges[torch.randint(len(closure.edges), (_PAIRS,), generator=generator)]
        random = torch.randint(closure.nodes, (_PAIRS, _RANDOM), generator=generator)
        others = torch.stack((related[:, :1].expand_as(random), random), -1).reshape(-1, 2)
        wrong = ~closure.holds(others) & (others[:, 0] != others[:, 1])
        r = torch.linalg.vector_norm(points, dim=1)
        direction = points / r.clamp_min(1e-300).unsqueeze(1)
        near = -settle._distance(direction, r, related).unsqueeze(1)
        far = torch.where(wrong, -settle._distance(direction, r, others), -torch.inf).view_as(random)
        loss = (torch.logsumexp(torch.cat((near, far), 1), 1) - near[:, 0]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return points.detach()


def _step(kind: str, z: Tensor, closure: Graph, parent: np.ndarray, seed: int) -> Tensor:
    """Points after one step of an attempt."""
    if kind == "softmax":
        return settle.rank_cones(z, closure, parent, seed=seed)
    if kind in _PASSES:
        return published_objective(z, closure, seed, steps=max(300, _PASSES[kind] * len(closure.edges) // _PAIRS))
    if kind == "distance":
        return settle.settle_distances(z, closure, parent, seed=seed)
    given = settle._STEPS, settle._RATE
    settle._STEPS, settle._RATE = {"settled": (150, 0.05), "longer": (300, 0.1), "briefly": given}[kind]
    try:
        return settle.settle_cones(z, closure, parent, *DETOUR, seed=seed)
    finally:
        settle._STEPS, settle._RATE = given


def run(part: str, attempt: str, seed: int) -> dict[str, Any]:
    """MAP and mean rank of ancestors, by detour and by distance."""
    tree = part_of_nouns() if part == "part" else taxonomy(part)
    closure = Graph.of(tree.closure, tree.nodes, directed=True)
    _, d, steps = ATTEMPTS[attempt]
    began = time.process_time()
    parent = parents_of(closure)
    z = nested_cones(closure, d, seed=seed)
    for kind in steps:
        z = _step(kind, z, closure, parent, seed)
    seconds = time.process_time() - began
    z, ancestors, ball = z.double(), closure.relation(), PoincareBall(1.0)
    found: dict[str, float] = {}
    for name, offset in (("probability", torch.linalg.vector_norm(z, dim=1)), ("distance", None)):
        ranks = ranking(ancestors, z, ball, offset=offset, sources=_RANKED if tree.nodes > _RANKED else None)
        found |= {f"map_by_{name}": ranks.map, f"mean_rank_by_{name}": ranks.mean_rank}
    return found | {"nodes": tree.nodes, "cpu_minutes": seconds / 60}


def settings(seeds: int) -> Iterator[Setting]:
    """Every run, small taxonomies first."""
    for part in PARTS:
        for seed in range(seeds):
            for attempt in ATTEMPTS if part == "nouns" else [one for one in ATTEMPTS if one not in ("further", "both")]:
                yield {"part": part, "attempt": attempt, "seed": seed}


def table() -> str:
    """A line for each attempt that has been run."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in results(STUDY):
        at = record["setting"]
        found.setdefault((at["part"], at["attempt"]), []).append(record["result"])
    columns = [f"{what}_by_{how}" for how in ("probability", "distance") for what in ("map", "mean_rank")]
    lines = [
        "| taxonomy | attempt | MAP | mean rank | MAP by distance | mean rank by distance | CPU minutes | seeds |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for part, named in PARTS.items():
        for attempt, (title, _, _) in ATTEMPTS.items():
            if runs := found.get((part, attempt)):
                means = [f"{interval(r[name] for r in runs)[0]:.{1 + 2 * ('map' in name)}f}" for name in columns]
                minutes = interval(r["cpu_minutes"] for r in runs)[0]
                lines.append(f"| {named} | {title} | {' | '.join(means)} | {minutes:.1f} | {len(runs)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 1)
    carry_out(STUDY, settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
