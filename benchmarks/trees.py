"""What a tree with support costs, by the number of rows: `python -m benchmarks.trees`.

Rows are a branching diffusion with 50 columns, as many as asked for, of 1,023 nodes. The tree is
`horoball.trees.tree`, with its replicates and flat tables. Beside it is what its engines take by themselves: k-means of
FAISS to as many centers as there are leaves and the search for the nearest of them, for more rows than leaves, and one
average linkage of scipy of as many leaves. Every run is a process of its own with one thread; seconds are of the CPU,
memory is the process's own peak.

`python -m benchmarks.trees rare` plants ten groups of 0.1 % of the rows, eight standard deviations or more from all
other centers, among twelve large ones, and prints how many have a branch that overlaps them by 0.8 or more, and how
many of these are above chance.

`python -m benchmarks.trees texts` makes a named taxonomy of the 12,000 diagnoses of HOROBALL_DATA, 256 numbers each, by
the commands: `horoball fit` and `horoball tree` of the model, and `horoball tree` of the data alone. Wall and CPU
seconds of each command with the threads that it takes by itself; every run is a line of `results/trees.jsonl`.

`python -m benchmarks.trees peers` compares the tree of products, of diagnoses, and of 70,000 images of MNIST, with 20
replicates and without a model, with Ward's linkage of the same micro-clusters, weighted by their rows, with HDBSCAN,
and with EVōC if it is installed: dendrogram purity of all rows at the true hierarchy's first two levels, the adjusted
Rand index of the tree cut into as many groups, and CPU seconds. HDBSCAN chooses the number of groups itself, and EVōC
has a few layers, of which the one with nearly as many groups counts.

`python -m benchmarks.trees --rows 1000 --against COMMIT` compares `horoball.trees.tree`, without a model, with that of
an earlier commit of this repository: the same rows, one thread, CPU seconds. Every run is a process of its own, by
turns, and a line of `results/trees.jsonl`, written as soon as it is done. Memory is the most that was resident, and how
much of it came after the imports; it is read from `/proc`, so this part needs Linux.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist, pdist
from sklearn.cluster import HDBSCAN
from sklearn.metrics import adjusted_rand_score

from horoball.datasets import branching_diffusion, mnist
from horoball.report.check import tree as tree_of_rows
from horoball.trees import Tree, tree

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "trees.jsonl"
_MANY = 30_000  # rows from which HDBSCAN, which compares all pairs, is left out
_BACK = 0.8  # overlap of a planted group with its branch
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# Run with the source folder of either commit on the path. The function has moved since. The peak is the kernel's VmHWM:
# that of getrusage begins with the memory of the process that started this one, which has imported torch as well.
_ONE = """
import json, sys, time
from pathlib import Path
import numpy as np
import horoball
assert Path(sys.argv[3]) in Path(horoball.__file__).parents, horoball.__file__
try:
    from horoball.trees import tree
except ImportError:
    from horoball.hierarchy.trees import tree
def peak():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024
tree(np.random.default_rng(0).normal(size=(40, 5)), draws=1, n_jobs=1)  # imports the rest
x, before, began = np.load(sys.argv[1]), peak(), time.process_time()
tree(x, draws=int(sys.argv[2]), n_jobs=1)
print(json.dumps({"seconds": time.process_time() - began, "peak": peak(), "above": peak() - before}))
"""


def rows_of(n: int, seed: int = 0) -> np.ndarray:
    """Rows of a branching diffusion of 1,023 nodes, as many as asked for."""
    data = branching_diffusion(depth=9, copies=1, seed=seed)
    rng = np.random.default_rng(seed)
    at = rng.integers(0, len(data.x), n)
    return (data.x.numpy()[at] + 0.2 * rng.standard_normal((n, data.x.shape[1]))).astype(np.float32)


def measure(n: int, draws: int) -> dict[str, float]:
    """CPU seconds of a tree and of its engines, its leaves, and the peak of memory in GiB."""
    tree(rows_of(50), draws=1)  # imports the rest
    x = rows_of(n)
    began = time.process_time()
    found = tree(x, draws=draws, n_jobs=1)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"rows": n, "leaves": found.leaves, "seconds": seconds, "peak": peak} | engines(x, found.leaves)


def engines(x: np.ndarray, leaves: int) -> dict[str, float]:
    """CPU seconds of FAISS's k-means and search, and of scipy's linkage of as many leaves."""
    import faiss

    faiss.omp_set_num_threads(1)
    began = time.process_time()
    if leaves < len(x):
        means = faiss.Kmeans(x.shape[1], leaves, niter=8, seed=0, max_points_per_centroid=64, min_points_per_centroid=1)
        means.train(x)
        means.index.search(x, 1)
    middle = time.process_time()
    linkage(pdist(x[:leaves]), "average")
    return {"k-means": middle - began, "linkage": time.process_time() - middle}


def planted(n: int, seed: int = 0, gap: float = 8.0, columns: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Rows of twelve large groups, 0, and of ten of 0.1 % each, 1 to 10, a gap or more from all other centers."""
    rng = np.random.default_rng(seed)
    large = (4 * rng.normal(size=(4, 1, columns)) + 2 * rng.normal(size=(4, 3, columns))).reshape(12, columns)
    centers = list(large)
    while len(centers) < 22:
        one = 5 * rng.normal(size=columns)
        if cdist(one[None], np.array(centers)).min() >= gap:
            centers.append(one)
    few = round(n / 1000)
    of = np.concatenate(
        [rng.choice(12, n - 10 * few, p=rng.dirichlet(np.full(12, 3.0))), np.repeat(np.arange(12, 22), few)]
    )
    order = rng.permutation(n)
    return (np.array(centers)[of] + rng.normal(size=(n, columns)))[order], np.maximum(of - 11, 0)[order]


def kept(found: Tree, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The branch that overlaps each planted group most, and by how much."""
    assert found.leaf is not None
    held = np.array([np.bincount(found.leaf, group == one, found.leaves) for one in range(1, 11)])
    order, first, last = found.spans
    until = np.concatenate([np.zeros((10, 1)), held[:, order].cumsum(1)], 1)
    shared = (until[:, last] - until[:, first])[:, found.leaves :]
    overlap = shared / (found.rows[found.leaves :] + held.sum(1)[:, None] - shared)
    return found.leaves + overlap.argmax(1), overlap.max(1)


def rare(n: int, draws: int) -> str:
    """A line of the table of planted groups."""
    x, group = planted(n)
    found = tree(x, draws=draws, n_jobs=1)
    node, overlap = kept(found, group)
    back = overlap >= _BACK
    above = back & found.supported[node]
    sure = "" if found.support is None or not back.any() else f"{np.median(found.support[node[back]]):.2f}"
    return f"| {n:,} | {found.leaves:,} | {back.sum()} of 10 | {above.sum()} of 10 | {sure} |"


_TEXTS = ["--levels", "20,200", "--text", "text", "--force"]  # groups at two levels, named by their texts


def texts(folder: Path) -> Iterator[dict[str, Any]]:
    """Wall and CPU seconds of the commands that make a named taxonomy of texts, each a process of its own."""
    with np.load(Path(os.environ["HOROBALL_DATA"]) / "vectors" / "icd10cm.npz") as held:
        columns = {"embedding": list(held["vectors"].astype(np.float32)), "text": held["text"].astype(str)}
    data, run = str(folder / "texts.parquet"), str(folder / "run")
    pq.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), data)
    kind = ["--kind", "vectors", "--column", "embedding"]
    for words in (
        ["fit", data, "-o", run, *kind],
        ["tree", run, data, "-o", str(folder / "model.csv"), *_TEXTS],
        ["tree", data, "-o", str(folder / "data.csv"), *kind, *_TEXTS],
    ):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run([sys.executable, "-m", "horoball", *words], check=True, capture_output=True)  # noqa: S603 - own
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        of = "data" if words[1] == data else "model"
        yield {"what": "texts", "command": words[0], "of": of, "wall": round(wall, 1), "cpu": round(cpu, 1)}


def ward(centers: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Ward's linkage of centers that stand for rows, as scipy has it; by chains of nearest neighbors.

    Example:
        >>> ward(np.array([[0.0], [1.0], [9.0]]), np.ones(3))[:, :2].astype(int).tolist()
        [[0, 1], [2, 3]]
    """
    n = len(centers)
    at, weight, name = centers.astype(np.float64), rows.astype(np.float64), np.arange(n)
    left, chain = np.ones(n, bool), [0]
    merges: list[tuple[int, int, float]] = []
    while len(merges) < n - 1:
        if not chain:
            chain = [int(left.argmax())]
        now = chain[-1]
        gap = ((at - at[now]) ** 2).sum(1) * (2 * weight * weight[now] / (weight + weight[now]))
        gap[~left], gap[now] = np.inf, np.inf
        near = int(gap.argmin())
        if len(chain) < 2 or gap[chain[-2]] > gap[near]:
            chain.append(near)
            continue
        other = chain[-2]
        del chain[-2:]
        merges.append((now, other, gap[other] ** 0.5))
        at[now] = (weight[now] * at[now] + weight[other] * at[other]) / (weight[now] + weight[other])
        weight[now] += weight[other]
        left[other] = False
    made = np.zeros((n - 1, 4))
    size = np.ones(n)
    for step, one in enumerate(np.argsort([height for *_, height in merges], kind="stable").tolist()):
        a, b, height = merges[one]
        made[step] = *sorted((name[a], name[b])), height, size[a] + size[b]
        size[a], name[a] = size[a] + size[b], n + step
    return made


def purity(merges: np.ndarray, leaf: np.ndarray, labels: np.ndarray) -> float:
    """Dendrogram purity of rows whose leaves are joined; rows of a leaf meet there.

    Example:
        >>> purity(np.array([[0, 1]]), np.array([0, 0, 1, 1]), np.array(["a", "a", "b", "b"]))
        1.0
    """
    _, code = np.unique(labels, return_inverse=True)
    held = np.zeros((2 * len(merges) + 1, code.max() + 1))
    np.add.at(held, (leaf, code), 1)
    pairs = held * (held - 1) / 2
    for step, (a, b) in enumerate(merges.astype(int).tolist(), len(merges) + 1):
        held[step], pairs[step] = held[a] + held[b], held[a] * held[b]
    return float((pairs * held).sum(1) @ (1 / held.sum(1)) / pairs.sum())


Judged = tuple[str, np.ndarray, str, list[np.ndarray]]  # name, rows, their kind, the true groups of each level


def _judged() -> Iterator[Judged]:
    for name in ("google_products", "icd10cm"):
        with np.load(Path(os.environ["HOROBALL_DATA"]) / "vectors" / f"{name}.npz") as file:
            x, paths = file["vectors"].astype(np.float32), [str(path).split(" > ") for path in file["paths"]]
        deep = [row for row, path in enumerate(paths) if len(path) > 1]
        x = x[deep] / np.linalg.norm(x[deep], axis=1, keepdims=True)
        yield name, x, "vectors", [np.array([" > ".join(paths[row][:depth]) for row in deep]) for depth in (1, 2)]
    images = mnist()
    for name, kind in {"MNIST, 70,000 rows": "numbers", "MNIST as vectors": "vectors"}.items():
        yield name, images.x.numpy(), kind, [np.asarray(images.labels)]


def peers() -> Iterator[list[str]]:
    """Lines of the table of trees beside others'."""
    for name, x, kind, levels in _judged():
        began = time.process_time()
        found = tree_of_rows(x, kind=kind, draws=20)
        seconds = {"horoball": time.process_time() - began}
        leaf = np.arange(len(x)) if found.leaf is None else found.leaf
        size = np.bincount(leaf)
        centers = np.stack([np.bincount(leaf, column) / size for column in x.T], 1)
        began = time.process_time()
        made = {"horoball": found.to_linkage(), "Ward, micro-clusters": ward(centers, size)}
        seconds["Ward, micro-clusters"] = time.process_time() - began
        for method, links in made.items():
            pure = [purity(links[:, :2], leaf, true) for true in levels]
            cuts = [fcluster(links, len(set(true)), "maxclust")[leaf] for true in levels]
            yield _line(name, method, pure, map(adjusted_rand_score, levels, cuts), seconds[method])
        if importlib.util.find_spec("evoc"):
            yield _evoc(name, x, levels)
        if len(x) < _MANY:
            began = time.process_time()
            clusters = HDBSCAN(min_cluster_size=5, copy=True).fit(x)
            took, single = time.process_time() - began, clusters._single_linkage_tree_
            links = np.column_stack([single["left_node"], single["right_node"]])
            pure = [purity(links, np.arange(len(x)), true) for true in levels]
            yield _line(name, "HDBSCAN", pure, (adjusted_rand_score(true, clusters.labels_) for true in levels), took)


def _evoc(name: str, x: np.ndarray, levels: list[np.ndarray]) -> list[str]:
    """The layer with nearly as many groups as a level, warm; it has no dendrogram of the rows."""
    evoc = importlib.import_module("evoc")
    evoc.EVoC(random_state=0).fit_predict(x[:2000])
    began = time.process_time()
    made = evoc.EVoC(random_state=0)
    made.fit_predict(x)
    took = time.process_time() - began
    layers = [np.asarray(layer) for layer in made.cluster_layers_]
    best = [min(layers, key=lambda layer: abs(np.log((layer.max() + 1) / len(set(true))))) for true in levels]
    return _line(name, "EVōC", [], map(adjusted_rand_score, levels, best), took)


def _line(name: str, method: str, pure: Iterable[float], agree: Iterable[float], seconds: float) -> list[str]:
    """A line of two levels, of which MNIST has one."""
    purities, agreements = [f"{value:.3f}" for value in pure], [f"{value:.3f}" for value in agree]
    return [name, method, *[*purities, "", ""][:2], *[*agreements, ""][:2], f"{seconds:.1f}"]


def one(source: Path, rows: Path, draws: int) -> dict[str, float]:
    """CPU seconds of a tree in a process of its own, its peak of memory and what of that is above imports, in MiB."""
    environment = os.environ | dict.fromkeys(_THREADS, "1") | {"PYTHONPATH": str(source)}
    command = [sys.executable, "-c", _ONE, str(rows), str(draws), str(source)]
    told = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - own
    found: dict[str, float] = json.loads(told.stdout)
    return found


def compare(commit: str, n: int, draws: int, turns: int) -> Iterator[dict[str, Any]]:
    """Runs of this source and of a commit's, by turns."""
    with TemporaryDirectory() as folder:
        old, rows, packed = Path(folder) / "old", Path(folder) / "rows.npy", Path(folder) / "old.tar"
        command = ["git", "-C", str(ROOT), "archive", "-o", str(packed), commit, "src"]
        subprocess.run(command, check=True)  # noqa: S603 - the commit is what the user of this command names
        with tarfile.open(packed) as archive:
            archive.extractall(old, filter="data")
        np.save(rows, rows_of(n))
        for turn in range(turns):
            # Each is first in every second turn: what runs beside them is then shared alike.
            for which in (("now", commit), (commit, "now"))[turn % 2]:
                source = ROOT / "src" if which == "now" else old / "src"
                yield {"source": which, "rows": n, "draws": draws, "turn": turn, **one(source, rows, draws)}


def table(commit: str, found: list[dict[str, Any]]) -> str:
    """Medians over turns, by the number of rows, and how many times those of the commit they are.

    Example:
        >>> line = {"rows": 1000, "seconds": 2.0, "peak": 300.0, "above": 100.0}
        >>> print(table("abc", [line | {"source": "abc"}, line | {"source": "now", "seconds": 3.0}]))
        | rows | turns | CPU s, abc | now | ratio | peak, MiB, abc | now | above imports, MiB, abc | now |
        |--:|--:|--:|--:|--:|--:|--:|--:|--:|
        | 1,000 | 1 | 2.0 | 3.0 | 1.50 | 300 | 300 | 100 | 100 |
    """
    lines = [f"| rows | turns | CPU s, {commit} | now | ratio | peak, MiB, {commit} | now | "]
    lines[0] += f"above imports, MiB, {commit} | now |"
    lines.append("|--:" * 9 + "|")
    for n in dict.fromkeys(run["rows"] for run in found):
        old, now = (
            {
                key: statistics.median(run[key] for run in found if (run["rows"], run["source"]) == (n, source))
                for key in ("seconds", "peak", "above")
            }
            for source in (commit, "now")
        )
        turns = sum((run["rows"], run["source"]) == (n, "now") for run in found)
        ratio = now["seconds"] / old["seconds"]
        lines.append(
            f"| {n:,} | {turns} | {old['seconds']:.1f} | {now['seconds']:.1f} | {ratio:.2f} | "
            f"{old['peak']:.0f} | {now['peak']:.0f} | {old['above']:.0f} | {now['above']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["time", "rare", "texts", "peers"], default="time")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 1_900, 2_100, 10_000, 100_000, 1_000_000])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--against", metavar="COMMIT", help="an earlier commit to compare trees without a model with")
    parser.add_argument("--turns", type=int, default=3, help="runs of either source")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # a run in this process, as JSON
    asked = parser.parse_args()
    if asked.against is not None:
        found = []
        for n in asked.rows:
            for run in compare(asked.against, n, asked.draws, asked.turns):
                found.append(run)
                with RESULTS.open("a") as file:
                    file.write(json.dumps(run) + "\n")
                print(json.dumps(run), file=sys.stderr, flush=True)
        print(table(asked.against, found))
        return
    if asked.one:
        print(json.dumps(measure(asked.rows[0], asked.draws)))
        return
    if asked.what == "peers":
        print("| rows | method | purity, level 1 | level 2 | ARI, level 1 | level 2 | CPU, s |")
        print("|---|---|--:|--:|--:|--:|--:|")
        for line in peers():
            print(f"| {' | '.join(line)} |", flush=True)
        return
    if asked.what == "texts":
        print("| command | of | wall, s | CPU, s |\n|---|---|--:|--:|", flush=True)
        with TemporaryDirectory() as folder:
            for run in texts(Path(folder)):
                with RESULTS.open("a") as file:
                    file.write(json.dumps(run) + "\n")
                print(f"| {run['command']} | {run['of']} | {run['wall']:.1f} | {run['cpu']:.1f} |", flush=True)
        return
    if asked.what == "rare":
        print("| rows | leaves | with a branch | above chance | median support |\n|--:|--:|--:|--:|--:|", flush=True)
        for n in asked.rows:
            print(rare(n, asked.draws), flush=True)
        return
    print(f"| rows | leaves | CPU s, {asked.draws} draws | FAISS k-means, s | one linkage of scipy, s | peak, GiB |")
    print("|--:" * 6 + "|", flush=True)
    for n in asked.rows:
        command = [sys.executable, "-m", "benchmarks.trees", "--one", "--rows", str(n), "--draws", str(asked.draws)]
        environment = os.environ | dict.fromkeys(_THREADS, "1")
        told = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - own
        of = json.loads(told.stdout.splitlines()[-1])
        print(
            f"| {n:,} | {of['leaves']:,} | {of['seconds']:.1f} | {of['k-means']:.1f} | {of['linkage']:.2f} | "
            f"{of['peak']:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
