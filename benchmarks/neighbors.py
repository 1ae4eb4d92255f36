"""Nearest neighbors: `python -m benchmarks.neighbors speed | engines | radius | promise | changes`.

`speed`: recall and time of `hb.neighbors.Index` beside the same FAISS index asked for inner products alone, in turns on
one thread. `engines`: other ways to search the same inner products. `radius`: where float32 stops. `promise`: whether
queries of all kinds find the share of their neighbors that `recall` promises, over sizes, dimensions and clouds.
`changes`: what it takes to remove and to move points, and the search that follows. All take `--quick`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import horoball as hb
from benchmarks.neighbors_promise import promise
from benchmarks.table import markdown
from horoball.neighbors.lift import Lift
from horoball.neighbors.partitions import Probe
from horoball.neighbors.search import Engine, Search
from horoball.plugins import required

K = 10
RECALL, RATIO = 0.99, 1.2  # goals of `speed`


class Cloud(NamedTuple):
    """Points of an index and queries that are not among them, in the tangent chart."""

    name: str
    ball: hb.PoincareBall
    z: Tensor
    q: Tensor


def wrapped(n: int, d: int, queries: int) -> Cloud:
    """A wrapped normal at the origin with scale 1, c = 1."""
    ball = hb.PoincareBall(1.0)
    z = hb.WrappedNormal(torch.zeros(d), torch.ones(1), ball).sample((n + queries,))
    return Cloud(f"wrapped normal, d = {d}", ball, z[queries:], z[:queries])


def embedding(path: Path, c: float, queries: int) -> Cloud:
    """Ball coordinates from a file: .npy, or the columns z0, z1, … of a Parquet file as `horoball embed` writes it."""
    if path.suffix == ".npy":
        x = np.load(path, allow_pickle=False)
    else:
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        names = [name for name in table.column_names if name[:1] == "z" and name[1:].isdigit()]
        x = np.stack([table[name].to_numpy() for name in names], 1)
    ball = hb.PoincareBall(c)
    z = ball.from_ball(torch.from_numpy(x).double())[torch.randperm(len(x))].float()
    return Cloud(f"{path.name}, d = {z.shape[1]}", ball, z[queries:], z[:queries])


def spread(n: int, d: int, radius: float) -> Tensor:
    """Points over all directions, most of them near a radius."""
    u = torch.nn.functional.normalize(torch.randn(n, d).double(), dim=-1)
    return u * radius * torch.rand(n, 1).double().pow(0.2)


def clustered(n: int, d: int, radius: float) -> Tensor:
    """Twelve clusters, a wrapped normal of scale ½ each."""
    centers = spread(12, d, radius)
    return hb.PoincareBall(1.0).exp(centers[torch.randint(12, (n,))], 0.5 * torch.randn(n, d).double())


def truth(cloud: Cloud, one_by_one: bool = False) -> Tensor:
    """Ids of the nearest points, by all distances in float64."""
    z, found = cloud.z.double(), []
    for q in cloud.q.double().split(1 if one_by_one else max(1, 2**23 // len(z))):
        d = cloud.ball.dist(q, z)[None] if one_by_one else cloud.ball.cdist(q, z)
        found.append(d.topk(K, largest=False).indices)
    return torch.cat(found)


def recall(ids: Tensor, true: Tensor) -> float:
    return (ids.unsqueeze(-1) == true.unsqueeze(-2)).any(-1).double().mean().item()


def seconds(step: Callable[[], Any]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def in_turns(subject: Callable[[], Any], reference: Callable[[], Any], turns: int) -> tuple[float, float, float]:
    """Median seconds of both, and the median ratio of turns."""
    subject(), reference()
    times = []
    for turn in range(turns):
        order = (subject, reference) if turn % 2 else (reference, subject)
        pair = [seconds(step) for step in order]
        times.append(pair if turn % 2 else pair[::-1])
    ratio = statistics.median(a / b for a, b in times)
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    return ours, theirs, ratio


def looked_through(engine: Engine, probe: Probe) -> str:
    """How many partitions a search looks through, of how many."""
    return "all" if engine.partitions is None else f"{probe.own} + {probe.best} of {len(engine.partitions)}"


def speed(options: argparse.Namespace) -> int:
    clouds = [wrapped(options.points, 10, options.queries)]
    if options.embedding is not None:
        clouds.append(embedding(options.embedding, options.c, options.queries))
    lines, missed = [], False
    for cloud in clouds:
        index = hb.neighbors.Index(cloud.ball).add(cloud.z)
        made = seconds(lambda: index.search(cloud.q[:1], K))  # noqa: B023  called at once
        engine, probe = index._ready(), Probe(1, 1) if index._probes is None else index._probes.of(K)
        rows = engine.lift.queries(cloud.q).rows

        def alone(k: int) -> np.ndarray:
            parts = engine.partitions  # noqa: B023  called at once
            probed = None if parts is None else parts.probed(cloud.q, probe)  # noqa: B023
            return engine.search(rows, k, probed)[1]  # noqa: B023

        ours, bare, ratio = in_turns(
            lambda: index.search(cloud.q, K),  # noqa: B023
            lambda: alone(K),
            options.turns,
        )
        lift = seconds(lambda: engine.lift.queries(cloud.q))  # noqa: B023
        wide = in_turns(
            lambda: alone(K + 6),
            lambda: alone(K),
            options.turns,
        )
        one = statistics.median(seconds(lambda: index.search(q[None], K)) for q in cloud.q[:100])  # noqa: B023
        true = truth(cloud)
        found = index.search(cloud.q, K)[1]
        unsettled = Search(engine, cloud.ball, cloud.z).nearest(cloud.q, K, probe).unsettled
        share = recall(found, true)
        missed |= share < RECALL or ratio > RATIO
        per = 1e3 / len(cloud.q)
        lines.append(
            [
                cloud.name,
                f"{len(cloud.z):,}",
                looked_through(engine, probe),
                f"{made:.1f}",
                f"{share:.4f}",
                f"{recall(torch.from_numpy(alone(K)), true):.4f}",
                f"{ours * per:.3f}",
                f"{bare * per:.3f}",
                f"{ratio:.2f}",
                f"{wide[2]:.2f}",
                f"{lift * per:.4f}",
                f"{unsettled / len(cloud.q):.1%}",
                f"{1e3 * one:.2f}",
            ]
        )
    print(
        f"recall@{K} of {options.queries} queries, one thread, median of {options.turns} turns; times in ms a query\n"
    )
    header = ["cloud", "points", "partitions looked through", "made in s", "recall", "bare", "time", "bare", "ratio"]
    print(markdown([*header, "bare, six more", "lift", "unsettled", "one by one"], lines))
    print(f"\ngoals: recall at least {RECALL}, ratio at most {RATIO}" + (": missed" if missed else ": met"))
    return int(missed)


def engines(options: argparse.Namespace) -> int:
    faiss, lines = required("faiss"), []
    for cloud in (wrapped(options.points, 10, options.queries), _prior(options.points, 10, options.queries)):
        lift = Lift.of(cloud.z, 1.0)
        x, rows, true = lift.points(cloud.z), lift.queries(cloud.q).rows, truth(cloud)
        index = hb.neighbors.Index(cloud.ball).add(cloud.z)
        index.search(cloud.q[:1], K)
        engine, probe = index._ready(), Probe(1, 1) if index._probes is None else index._probes.of(K)
        count, width = len(engine.partitions or (0,)), x.shape[1]
        flat = faiss.IndexFlatIP(width)
        own = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, count, faiss.METRIC_INNER_PRODUCT)
        own.train(x)
        own.nprobe = sum(probe)
        graph = faiss.IndexHNSWFlat(width, 32, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efSearch = 128
        for other in (flat, own, graph):
            other.add(x)
        ways = {
            "Index": lambda: index.search(cloud.q, K)[1].numpy(),  # noqa: B023
            "flat": lambda: flat.search(rows, K)[1],  # noqa: B023
            "inverted file with partitions of its own": lambda: own.search(rows, K)[1],  # noqa: B023
            "HNSW, 32 links, efSearch 128": lambda: graph.search(rows, K)[1],  # noqa: B023
        }
        for name, way in ways.items():
            took = statistics.median(seconds(way) for _ in range(options.turns))
            share = recall(torch.from_numpy(way()), true)
            looked = looked_through(engine, probe) if name.startswith(("Index", "inverted file")) else ""
            lines.append([cloud.name, name, looked, f"{share:.3f}", f"{1e3 * took / len(rows):.3f}"])
    print(f"{options.points:,} points, recall@{K}, float32 inner products but for Index, one thread\n")
    print(markdown(["cloud", "engine", "partitions looked through", "recall", "ms a query"], lines))
    return 0


def _prior(n: int, d: int, queries: int) -> Cloud:
    ball = hb.PoincareBall(1.0)
    z = hb.RiemannianNormal(torch.zeros(d), torch.ones(1), ball).sample((n + queries,))
    return Cloud(f"Riemannian normal, d = {d}", ball, z[queries:], z[:queries])


def radius(options: argparse.Namespace) -> int:
    ball, lines, wrong = hb.PoincareBall(1.0), [], False
    n, queries = (2000, 20) if options.quick else (10_000, 100)
    for name, make in (("spread", spread), ("clusters", clustered)):
        for d in (2, 10):
            for far in (4.0, 12.0) if options.quick else (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0):
                points = make(n + queries, d, far)
                cloud = Cloud(name, ball, points[queries:], points[:queries])
                true = truth(cloud, one_by_one=True)
                engine = Engine(Lift.of(cloud.z, 1.0), d)
                engine.add(cloud.z)
                rows = engine.lift.queries(cloud.q).rows
                hundred = torch.from_numpy(engine.search(rows, 100)[1])
                search = Search(engine, ball, cloud.z)
                nearest = ball.dist(cloud.q[:, None], cloud.z[hundred]).topk(K, largest=False).indices
                found = search.nearest(cloud.q, K)
                took = seconds(lambda: search.nearest(cloud.q, K))  # noqa: B023
                shares = [recall(ids, true) for ids in (hundred[:, :K], hundred.gather(1, nearest), found.ids)]
                wrong |= shares[2] < 1
                fields = [*(f"{share:.3f}" for share in shares), f"{found.unsettled / queries:.0%}"]
                lines.append([name, str(d), f"{far:g}", *fields, f"{1e3 * took / queries:.2f}"])
    print(f"recall@{K} of {n:,} points, c = 1, no partitions\n")
    header = ["points", "d", "√cR up to", "float32 alone", "its best 100 in float64", "Index", "unsettled"]
    print(markdown([*header, "ms a query"], lines))
    return int(wrong)


def changes(options: argparse.Namespace) -> int:
    """Seconds of adding, removing and moving named points, each with the first search after it."""
    cloud, lines = wrapped(options.points, 10, options.queries), []
    names = np.array([f"point {i}" for i in range(options.points)], object)
    rng = np.random.default_rng(0)
    for share in (1 / options.points, 0.01, 0.1):
        some = np.sort(rng.choice(options.points, max(1, round(share * options.points)), replace=False))
        index = hb.neighbors.Index(cloud.ball, coordinates="tangent")
        steps: dict[str, Callable[[], object]] = {
            "add all": lambda: index.add(cloud.z, names=names),  # noqa: B023
            "move": lambda: index.update(cloud.z[some] / 2, names=names[some]),  # noqa: B023
            "remove": lambda: index.remove(names=names[some]),  # noqa: B023
        }
        for name, step in steps.items():
            began = time.process_time()
            step()
            took, began = time.process_time() - began, time.process_time()
            index.search(cloud.q[:1], K)
            count = options.points if name == "add all" else len(some)
            lines.append([name, f"{count:,}", f"{took:.2f}", f"{time.process_time() - began:.2f}"])
    print(f"{options.points:,} named points, d = 10, one thread, CPU seconds\n")
    print(markdown(["", "points", "s", "the search after it, s"], lines))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["speed", "engines", "radius", "promise", "changes"])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--embedding", type=Path, help="for speed: ball coordinates, .npy or Parquet")
    parser.add_argument("--c", type=float, default=1.0, help="of that model")
    parser.add_argument("--quick", action="store_true", help="few points")
    options = parser.parse_args(arguments)
    if options.quick:
        options.points, options.queries, options.turns = 52_000, 100, 3
    torch.set_num_threads(1)
    required("faiss").omp_set_num_threads(1)
    torch.manual_seed(0)
    if options.what == "promise":
        return promise(options.quick)
    return {"speed": speed, "engines": engines, "radius": radius, "changes": changes}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
