"""Table 4's diseases graph trained on sampled pairs, on one rank and two: `python -m experiments.sampled_pairs`.

The paper sums over all pairs of nodes. Large graphs are trained on their edges and a few random pairs for each: this
compares the two on the same splits, and sampled pairs on one process with the same on two (torchrun).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from experiments import table4
from experiments.runs import Setting, arguments, carry_out, figure, paired, results

NON_EDGES = 10
STUDY, RANKS_STUDY = "sampled", "ranks"
_RANK_SEEDS = 5
_RANK = """
import json, os
from experiments.sampled_pairs import run_on_ranks
found = run_on_ranks(int(os.environ["WORLD_SIZE"]), {seed}, {epochs})
if os.environ["RANK"] == "0":
    print(json.dumps(found))
"""


def run_on_ranks(ranks: int, seed: int, epochs: int = 400) -> dict[str, Any]:
    """Scores of one split with sampled pairs, trained by this process or by as many as `ranks` says."""
    if ranks == int(os.environ.get("WORLD_SIZE", "1")):
        return table4.run("diseases", "P", seed, epochs, NON_EDGES)
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "--no-python"]
    command = [sys.executable, *launch, sys.executable, "-c", _RANK.format(seed=seed, epochs=epochs)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def settings(seeds: int) -> list[Setting]:
    """Runs with all pairs and with sampled ones."""
    return [
        {"graph": "diseases", "model": "P", "seed": seed, "epochs": 800, "non_edges": non_edges}
        for seed in range(seeds)
        for non_edges in (0, NON_EDGES)
    ]


def rank_settings(seeds: int) -> list[Setting]:
    """Runs with sampled pairs on one rank and on two."""
    return [{"ranks": ranks, "seed": seed} for seed in range(min(seeds, _RANK_SEEDS)) for ranks in (1, 2)]


def _found(study: str, key: str, value: int, score: str) -> dict[int, float]:
    """A score in percent by seed."""
    runs = [record for record in results(study) if record["setting"][key] == value]
    return {record["setting"]["seed"]: 100 * record["result"][score] for record in runs}


def _compared(study: str, key: str, names: dict[int, str], difference: str) -> list[str]:
    """Lines of a table: the two settings and their paired difference, second − first."""
    scores = {score: [_found(study, key, value, score) for value in names] for score in ("auc", "ap")}
    lines = [
        f"| {name} | {' | '.join(figure(columns[i], 2) for columns in scores.values())} |"
        for i, name in enumerate(names.values())
    ]
    gains = " | ".join(figure(paired(second, first), 2, "+") for first, second in scores.values())
    return [*lines, f"| {difference} | {gains} |"]


def table() -> str:
    """The table, from what has been run."""
    pairs = {0: "all pairs, 800 epochs", NON_EDGES: f"{NON_EDGES} random pairs for each edge, 800 epochs"}
    ranks = {1: "one rank, random pairs, 400 epochs", 2: "two ranks, random pairs, 400 epochs"}
    return "\n".join(
        [
            "| diseases, P, d = 5 | AUC, % | AP, % |",
            "|---|--:|--:|",
            *_compared(STUDY, "non_edges", pairs, "random − all, paired by split"),
            *_compared(RANKS_STUDY, "ranks", ranks, "two − one, paired by split"),
        ]
    )


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 10)
    carry_out(STUDY, settings(options.seeds), table4.run, options.workers)
    carry_out(RANKS_STUDY, rank_settings(options.seeds), run_on_ranks, options.workers)
    print(table())


if __name__ == "__main__":
    main()
