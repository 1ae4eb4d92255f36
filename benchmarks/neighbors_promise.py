"""Whether `hb.neighbors.Index` finds what it promises: `python -m benchmarks.neighbors promise [--quick]`.

Three kinds of queries are asked of every cloud: points of the index, near-duplicates of them, and fresh points of the
same distribution. Near-duplicates are moved in a random direction, a hundredth to a half of the way to their nearest
neighbor. Recalls are given with the Wilson interval of their share, counting a query as one trial, and the time beside
that of an index that looks at all points, in turns in the same process.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

import horoball as hb
from benchmarks.table import markdown

__all__ = ["promise"]

BALL = hb.PoincareBall(1.0)
RECALL, Z = 0.99, 1.96


def tangent_normal(n: int, d: int) -> Tensor:
    """A standard normal in the tangent chart: the wrapped normal at the origin."""
    return torch.randn(n, d)


def riemannian_normal(n: int, d: int) -> Tensor:
    """Points that fill the ball as its own volume does."""
    return hb.RiemannianNormal(torch.zeros(d), torch.ones(1), BALL).sample((n,))


def clusters(n: int, d: int) -> Tensor:
    """Forty clusters at distances of up to 4, a wrapped normal of scale 0.3 each."""
    centers = torch.nn.functional.normalize(torch.randn(40, d).double(), dim=-1) * 4 * torch.rand(40, 1).double()
    return BALL.exp(centers[torch.randint(40, (n,))], 0.3 * torch.randn(n, d).double()).float()


def posteriors(n: int, d: int) -> Tensor:
    """Samples of the posteriors of a tree's rows: narrow far out, wide near the origin; one in ten is there twice."""
    means = torch.zeros(1, d).double()
    for _ in range(10):
        means = torch.cat([BALL.exp(means, 0.6 * torch.randn_like(means)) for _ in range(2)])
    radius = torch.linalg.vector_norm(means, dim=-1, keepdim=True)
    scales = 0.3 * torch.exp(-radius / 2) * (0.5 + torch.rand_like(means))
    row = torch.randint(len(means), (n,))
    z = BALL.exp(means[row], scales[row] * torch.randn(n, d).double()).float()
    z[: n // 10] = z[n // 10 : 2 * (n // 10)]
    return z[torch.randperm(n)]


CLOUDS: tuple[Callable[[int, int], Tensor], ...] = (tangent_normal, riemannian_normal, clusters, posteriors)


class Case(NamedTuple):
    """A cloud of a size; `exact_up_to` is lowered where partitions are to be measured below 50,000 points."""

    make: Callable[[int, int], Tensor]
    n: int
    d: int
    exact_up_to: int = 50_000


def cases(quick: bool) -> Iterator[Case]:
    if quick:
        yield from (Case(make, 6_000, 5, 5_000) for make in CLOUDS)
        return
    yield from (Case(tangent_normal, 60_000, d) for d in (20, 10, 5, 2))
    yield from (Case(make, 60_000, d) for d in (10, 2) for make in CLOUDS[1:])
    yield from (Case(tangent_normal, n, 10, min(n - 1, 50_000)) for n in (20_000, 55_000, 120_000))
    yield from (Case(make, 60_000, 20) for make in CLOUDS[1:])
    yield from (Case(posteriors, n, 10, min(n - 1, 50_000)) for n in (20_000, 55_000, 120_000))


def near_duplicates(z: Tensor, apart: Tensor) -> Tensor:
    """Points moved a hundredth to a half of the way to their nearest neighbor, in random directions."""
    v = torch.nn.functional.normalize(torch.randn(z.shape, dtype=torch.float64), dim=-1)
    steps = torch.exp(torch.empty(len(z), 1, dtype=torch.float64).uniform_(math.log(0.01), math.log(0.5)))
    return BALL.exp(z.double(), apart.unsqueeze(-1) * steps * v)


def wilson(share: float, n: int) -> tuple[float, float]:
    """The 95% interval of a share of n trials."""
    middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    return middle - half, min(1.0, middle + half)


def recalls(index: hb.neighbors.Index, everything: hb.neighbors.Index, q: Tensor) -> tuple[float, float]:
    """Recall@1 and recall@10. A point at the distance of a true neighbor counts as that: doubles are as good."""
    shares = []
    for k in (1, 10):
        last = everything.search(q, k)[0][:, -1:]
        shares.append((index.search(q, k)[0] <= last * (1 + 1e-12) + 1e-12).double().mean().item())
    return shares[0], shares[1]


def promise(quick: bool = False) -> int:
    """Print the table; 1 if an interval lies below what is promised."""
    lines, missed, queries = [], False, 100 if quick else 500
    for case in cases(quick):
        torch.manual_seed(0)
        both = case.make(case.n + queries, case.d)
        fresh, z = both[:queries], both[queries:]
        index = hb.neighbors.Index(BALL, exact_up_to=case.exact_up_to).add(z)
        everything = hb.neighbors.Index(BALL, recall=1.0).add(z)
        members = z[torch.randperm(len(z))[:queries]]
        distances = everything.search(members, 20)[0]
        apart = distances.masked_fill(distances == 0, torch.inf).amin(1).nan_to_num(posinf=0.0)
        fields = []
        for q in (members, near_duplicates(members, apart), fresh):
            for share in recalls(index, everything, q):
                low, high = wilson(share, len(q))
                missed |= high < RECALL
                fields.append(f"{share:.4f} ({low:.3f}–{high:.3f})")
        engine, probes = index._ready(), index._probes
        looked = "all" if probes is None else f"{probes.share:.1%}"
        lines.append([case.make.__name__.replace("_", " "), f"{case.n:,}", str(case.d), looked, *fields])
        lines[-1].append(f"{ratio(index, everything, fresh):.2f}" if engine.partitions is not None else "1")
        print(*lines[-1], sep=" | ", flush=True)
    print(f"\n{queries} queries of each kind, c = 1, recall={RECALL}\n")
    kinds = (f"{kind} @{k}" for kind in ("members", "near-duplicates", "fresh") for k in (1, 10))
    print(markdown(["cloud", "points", "d", "looked at", *kinds, "time/exact"], lines))
    print(f"\npromise of {RECALL}" + (": missed" if missed else ": kept"))
    return int(missed)


def ratio(index: hb.neighbors.Index, everything: hb.neighbors.Index, q: Tensor, turns: int = 3) -> float:
    """The time of a search beside that of looking at everything, the median of some turns."""
    times = []
    for _ in range(turns):
        turn = []
        for one in (index, everything):
            start = time.process_time()
            one.search(q, 10)
            turn.append(time.process_time() - start)
        times.append(turn[0] / turn[1])
    return statistics.median(times)
