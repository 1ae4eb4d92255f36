"""Graphs of a million nodes and more: `OMP_NUM_THREADS=1 python -m benchmarks.graphs scale|free|ranks|grow`.

scale    seconds of an epoch and peak memory by the number of nodes, each measurement in its own process; and the sum
         over all pairs, ours and by plain autograd
free     the same for posteriors of the nodes' own, up to ten million nodes
ranks    seconds of an epoch and peak memory on one rank and on two
grow     milliseconds of a leaf that is added to a taxonomy, by how many nodes it has and how many come at once
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.graph_costs import EPOCHS, Numbers, added, attach, epoch, exact, free_epoch, plain, rank_speed
from benchmarks.table import markdown

FREE = (100_000, 1_000_000, 10_000_000)
NODES, EXACT, PLAIN = tuple(EPOCHS), (1000, 3000, 10_000), (1000, 2000, 4000)
GROWN = ((100_000, 1000), (1_000_000, 100), (1_000_000, 1000))  # known, and new at once
GIB = 1 << 30


def _child(*arguments: object, ranks: int = 1) -> Any:
    """A part of the benchmark in a process of its own, or one for each rank."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    command = [sys.executable, *launch, "-m", "benchmarks.graphs", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return json.loads(done.stdout.splitlines()[-1])


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def scale() -> bool:
    """Seconds and memory by the number of nodes."""
    lines, passed, largest = [], True, {}
    for kind in ("tree", "preferential"):
        found = [_child("epoch", kind, nodes) for nodes in NODES]
        for nodes, one in zip(NODES, found, strict=True):
            cells = [kind, f"{nodes:,}", f"{one['edges']:,.0f}", f"{one['epoch']:.3g}", f"{one['wall']:.3g}"]
            lines.append([*cells, f"{one['embed']:.2g}", f"{one['peak'] / GIB:.2f}", f"{one['above'] / GIB:.3f}"])
        slopes = [_slope(NODES, [one[key] for one in found]) for key in ("epoch", "wall", "embed", "above")]
        passed &= slopes[0] <= 1.1 and found[-1]["peak"] < 12 * GIB
        largest[kind] = found[-1]
        seconds, wall, embed, memory = (f"{slope:.2f}" for slope in slopes)
        lines.append([kind, "slope", "", seconds, wall, embed, "", memory])
    header = ("graph", "nodes", "edges", "epoch, CPU s", "epoch, s", "embed, CPU s", "peak, GiB", "above imports, GiB")
    print(markdown(header, lines))
    _extrapolate(largest["tree"], largest["preferential"])
    _dense()
    return passed


def _extrapolate(tree: Numbers, preferential: Numbers) -> None:
    """What a node and an edge take, from two graphs with as many nodes, and what a billion edges would."""
    n, edges = NODES[-1], preferential["edges"] - tree["edges"]
    edge = {key: (preferential[key] - tree[key]) / edges for key in ("above", "epoch")}
    node = {key: (tree[key] - edge[key] * tree["edges"]) / n for key in edge}
    print(f"\nBytes: {node['above']:.0f} a node, {edge['above']:.0f} an edge.", end=" ")
    print(f"Microseconds of an epoch: {1e6 * node['epoch']:.2f} a node, {1e6 * edge['epoch']:.2f} an edge.")
    memory, seconds = (node[key] * 2e8 + edge[key] * 1e9 for key in ("above", "epoch"))
    print(f"10⁹ edges, 2·10⁸ nodes: {memory / GIB:.0f} GiB, {seconds / 60:.0f} CPU minutes an epoch.\n")


def _dense() -> None:
    """The sum over all pairs, by the number of nodes."""
    lines = []
    for name, sizes in (("exact", EXACT), ("plain", PLAIN)):
        found = [_child(name, nodes) for nodes in sizes]
        lines += [
            [name, f"{nodes:,}", f"{one['epoch']:.2f}", f"{one['above'] / (1 << 20):.0f}"]
            for nodes, one in zip(sizes, found, strict=True)
        ]
    print(markdown(("sum over all pairs", "nodes", "CPU s", "memory above, MiB"), lines))
    each = found[-1]["above"] / PLAIN[-1] ** 2
    wall = math.sqrt(24 * GIB / each)
    print(f"\nPlain autograd keeps {each:.0f} bytes a pair: 24 GiB are full at {wall:,.0f} nodes,", end=" ")
    print(f"and 10⁶ nodes would need {each * 1e12 / (1 << 40):,.0f} TiB.")


def free() -> bool:
    """Seconds and memory of posteriors of the nodes' own."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for nodes in FREE:
            _child("attach", nodes, f"{folder}/edges.npy")
            found.append(_child("free_epoch", nodes, f"{folder}/edges.npy"))
    lines = [
        [f"{nodes:,}", f"{one['edges']:,.0f}", f"{one['epoch']:.3g}", f"{one['wall']:.3g}", f"{one['peak'] / GIB:.2f}"]
        for nodes, one in zip(FREE, found, strict=True)
    ]
    print(markdown(("nodes", "edges", "epoch, CPU s", "epoch, s", "peak, GiB"), lines))
    growth = found[-1]["epoch"] / found[-2]["epoch"] / (FREE[-1] / FREE[-2])
    each = [(found[-1][key] - found[-2][key]) / (FREE[-1] - FREE[-2]) for key in ("above", "epoch")]
    print(f"\nTen times as many nodes take {10 * growth:.1f} times as long.", end=" ")
    print(f"A node with its five edges takes {each[0]:.0f} bytes, and {1e6 * each[1]:.1f} µs of an epoch.")
    print(f"10⁹ edges, 2·10⁸ nodes: {2e8 * each[0] / GIB:.0f} GiB, {2e8 * each[1] / 60:.0f} CPU minutes an epoch.")
    return growth <= 1.5 and found[-1]["peak"] < 6 * GIB


def ranks(turns: int = 3) -> bool:
    """One rank and two: the paper's encoder, and posteriors of the nodes' own."""
    with tempfile.TemporaryDirectory() as folder:
        _child("attach", 1_000_000, f"{folder}/edges.npy")
        parts = {
            "gcn, 10⁵ nodes": ("rank_speed", 100_000),
            "free, 10⁶ nodes": ("free_epoch", 1_000_000, f"{folder}/edges.npy"),
        }
        lines = []
        for name, part in parts.items():
            pairs = [[_child(*part, ranks=count) for count in (1, 2)] for _ in range(turns)]
            seconds = [statistics.median(pair[k]["wall"] for pair in pairs) for k in (0, 1)]
            speed_up = seconds[0] / seconds[1]  # of the figures beside it; a median of ratios can contradict them
            memory = statistics.median(two["above"] / one["above"] for one, two in pairs)
            lines.append([name, *(f"{each:.3f}" for each in seconds), f"{speed_up:.2f}", f"{memory:.2f}"])
    header = ("", "one rank: s an epoch", "two ranks", "speed-up", "memory of a rank, of one's")
    print(markdown(header, lines))
    return True


def grow() -> bool:
    """Leaves that are added to taxonomies."""
    lines = []
    for nodes, new in GROWN:
        one = _child("added", nodes, new)
        each = [f"{1000 * one[key] / new:.0f}" for key in ("cpu", "wall")]
        lines.append([f"{nodes:,}", f"{one['edges']:,}", f"{new:,}", *each, f"{one['peak'] / GIB:.1f}"])
    print(markdown(("nodes", "pairs of the closure", "new", "CPU ms each", "ms each", "peak, GiB"), lines))
    return float(lines[-1][3]) <= 50


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    whole = {"scale": scale, "free": free, "ranks": ranks, "grow": grow}
    every = added, attach, epoch, exact, free_epoch, plain, rank_speed
    parts: dict[str, Callable[..., Any]] = {part.__name__: part for part in every}
    parser.add_argument("what", choices=(*whole, *parts))
    parser.add_argument("of", nargs="*")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.what in parts:
        found = parts[options.what](*(int(word) if word.isdigit() else word for word in options.of))
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps(found), flush=True)
        return 0
    return 0 if whole[options.what]() else 1


if __name__ == "__main__":
    sys.exit(main())
