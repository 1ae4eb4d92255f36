"""Example datasets: the branching diffusion, MNIST, random graphs and the graphs of the paper."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.graphs.graph import Graph
from horoball.tables.limits import parsing


class Branching(NamedTuple):
    """Observations of a tree; rows of x belong to nodes, nodes to parents."""

    x: Tensor  # (nodes · copies, features), each feature standardized
    node: Tensor  # the node of each row
    parent: Tensor  # of each node; the root is its own
    depth: Tensor  # of each node


def branching_diffusion(
    depth: int = 6, branching: int = 2, features: int = 50, copies: int = 5, scale: float = 1.0, seed: int = 0
) -> Branching:
    """A diffusion down a tree: y_i ~ N(y_parent, σ²), x_ij ~ N(y_i, σ²/5); features standardized (App. C.1).

    Args:
        depth: Levels below the root, which is 0; depth 6 with two branches makes 127 nodes.
        branching: Children of a node.
        features: Size of an observation.
        copies: Noisy observations of a node.
        scale: σ; after standardizing it does not matter [errata:8].
        seed: Seed of the random numbers.

    Example:
        >>> branching_diffusion().x.shape  # 127 nodes, 5 copies
        torch.Size([635, 50])
    """
    if depth < 0 or branching < 1 or features < 1 or copies < 1 or not scale > 0:
        raise ValueError("branching_diffusion needs depth >= 0, scale > 0 and branching, features and copies >= 1.")
    generator = torch.Generator().manual_seed(seed)
    parents, depths, level = [0], [0], [0]
    for step in range(1, depth + 1):
        level = [len(parents) + i for i, _ in enumerate(level * branching)]
        first = level[0]
        previous = first - len(level) // branching
        parents += [previous + i // branching for i in range(len(level))]
        depths += [step] * len(level)
    parent = torch.tensor(parents)
    y = torch.zeros(len(parents), features)
    for child in range(1, len(parents)):
        y[child] = y[parents[child]] + scale * torch.randn(features, generator=generator)
    node = torch.arange(len(parents)).repeat_interleave(copies)
    x = y[node] + scale * 0.2**0.5 * torch.randn(len(node), features, generator=generator)
    spread = x.std(0, correction=0) if len(x) > 1 else torch.ones(features)
    return Branching((x - x.mean(0)) / spread, node, parent, torch.tensor(depths))


_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FILES = {  # MD5 of the file as it is published, and of its content
    "train-images-idx3-ubyte.gz": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte.gz": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte.gz": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte.gz": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
}


class Images(NamedTuple):
    """Gray values in [0, 1], one image a row, and their labels."""

    x: Tensor
    labels: Tensor


def mnist(train: bool = True) -> Images:
    """The MNIST digits: 60,000 images to train on, 10,000 to test, 784 gray values each.

    The files are looked for in the folder `mnist` of `HOROBALL_DATA`; without that variable they are downloaded to the
    user's cache, and their checksums compared.

    Args:
        train: Whether to give the training images or the test images.

    Example:
        >>> mnist(train=False).x.shape  # doctest: +SKIP
        torch.Size([10000, 784])
    """
    part = "train" if train else "t10k"
    pixels = _idx(f"{part}-images-idx3-ubyte.gz")
    labels = _idx(f"{part}-labels-idx1-ubyte.gz")
    x = torch.from_numpy(pixels.reshape(len(pixels), -1).astype(np.float32) / 255)
    return Images(x, torch.from_numpy(labels.astype(np.int64)))


def _idx(name: str) -> np.ndarray:
    """The array of an IDX file: two zero bytes, a type, the number of axes, their sizes, the numbers."""
    path = _file(name)
    with parsing(path), gzip.open(path) as stream:
        data = stream.read()
    if hashlib.md5(data, usedforsecurity=False).hexdigest() != _FILES[name][1]:
        raise ValueError(f"{name} is not the MNIST file of that name. Remove it, and it will be downloaded again.")
    axes = data[3]
    shape = np.frombuffer(data, ">i4", axes, 4)
    return np.frombuffer(data, np.uint8, int(shape.prod()), 4 + 4 * axes).reshape(shape)


def _file(name: str) -> Path:
    folder = os.environ.get("HOROBALL_DATA")
    if folder:
        path = Path(folder) / "mnist" / name
        if path.exists():
            return path
    import pooch

    return Path(pooch.retrieve(_URL + name, f"md5:{_FILES[name][0]}", name, pooch.os_cache("horoball") / "mnist"))


def random_tree(nodes: int, seed: int = 0) -> Graph:
    """A random recursive tree: the parent of node i is one of the nodes before it, each as likely.

    Args:
        nodes: Number of nodes, at least 1.
        seed: Seed of the draw.

    Example:
        >>> random_tree(1000)
        Graph(nodes=1000, edges=999)
    """
    if nodes < 1:
        raise ValueError(f"A tree has at least one node, got nodes={nodes}.")
    child = np.arange(1, nodes)
    parent = np.random.default_rng((seed, 0x7EE)).integers(0, child)
    return Graph.of(np.stack([parent, child], 1), nodes)


def preferential_attachment(nodes: int, edges_per_node: int, seed: int = 0) -> Graph:
    """A graph of Barabási & Albert: each new node draws its neighbors in proportion to the degrees so far.

    The copy model of Batagelj & Brandes (2005): the ends of all edges stand in one array, the new node at 2k and its
    neighbor at 2k + 1, and the neighbor is a copy of a uniformly drawn place of the nodes before. A node that draws a
    neighbor twice keeps one edge, so that the graph has a few edges less than (nodes − 1) × edges_per_node.

    Args:
        nodes: Number of nodes, at least 1.
        edges_per_node: Edges that each new node draws, at least 1.
        seed: Seed of the draw.

    Example:
        >>> graph = preferential_attachment(1000, 5)
        >>> graph
        Graph(nodes=1000, edges=4866)
        >>> int(graph.degrees().max())
        274
    """
    if nodes < 1 or edges_per_node < 1:
        raise ValueError(
            f"Expected at least one node and one edge a node, got nodes={nodes}, edges_per_node={edges_per_node}."
        )
    source = np.repeat(np.arange(nodes), edges_per_node)
    # Node 0 begins with loops, which are left out of the graph: place 0 holds node 0.
    place = np.random.default_rng((seed, 0xBA)).integers(0, np.maximum(2 * edges_per_node * source, 1))
    # Even places hold a node, odd ones a copy of an earlier place, which is followed until it meets a node. Half of
    # the copies still on their way arrive at each step, so that about log₂ of the edges steps are enough.
    copied = place.copy()
    way = np.flatnonzero(place & 1)
    while len(way):
        place[way] = copied[place[way] >> 1]
        way = way[place[way] & 1 == 1]
    ends = np.stack([source, source[place >> 1]], 1)
    return Graph.of(ends[edges_per_node:], nodes)


_GRAPH_URL = (
    "https://raw.githubusercontent.com/HazyResearch/hyperbolics/2aa7baea0f9f5753666970f25f8e4b6e655dbb9b/data/edges/"
)


class _File(NamedTuple):
    name: str  # in HOROBALL_DATA/graphs
    published: str | None  # its name where it is published; None where the file there was not compared with ours
    sha256: str
    nodes: int
    edges: int


_GRAPH_FILES = {
    "phylogenetic": _File(
        "phylogenetic.edges", None, "e1b4607b0112a692e56ccd4dd5cd35cb3cebf4a45f907e0e8bbf788fe5f3499e", 344, 343
    ),
    "csphd": _File(
        "csphd.edges", "ca-CSphd.edges", "26d761c07db457623c1e0be9644f62f188d376335a317b69b4de7f20e7c202ca", 1025, 1043
    ),
    "diseases": _File(
        "diseasome.edges",
        "bio-diseasome.edges",
        "c6f7e0846e0547b5eec989e0f8dff58f66acc4dd86c0af3e0c644981f6a4d80c",
        516,
        1188,
    ),
}


def paper_graph(name: str) -> Graph:
    """A graph of the paper's link prediction.

    - `phylogenetic`: a phylogenetic tree, 344 nodes and 343 edges;
    - `csphd`: doctoral advisors in computer science and their students, 1025 and 1043;
    - `diseases`: diseases that share a gene, 516 and 1188.

    The files are looked for in the folder `graphs` of `HOROBALL_DATA`; otherwise they are downloaded to the user's
    cache, and their checksums compared. The paper's appendix swaps the numbers of the first two.

    Args:
        name: Which graph.

    Example:
        >>> paper_graph("diseases")  # doctest: +SKIP
        Graph(nodes=516, edges=1188)
    """
    if name not in _GRAPH_FILES:
        raise ValueError(f"The paper has no graph {name!r}. Its graphs are: {', '.join(_GRAPH_FILES)}.")
    file = _GRAPH_FILES[name]
    path = _path(name, file)
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise ValueError(
            f"{path} is not the paper's graph {name!r}: its SHA-256 is not {file.sha256}. Remove it, or put the "
            f"published edges there, {file.nodes} nodes and {file.edges} edges."
        )
    numbers = [int(word) for word in data.split()]
    return Graph.of(list(zip(numbers[::2], numbers[1::2], strict=True)), file.nodes)


def _path(name: str, file: _File) -> Path:
    folder = os.environ.get("HOROBALL_DATA")
    if folder:
        path = Path(folder) / "graphs" / file.name
        if path.exists():
            return path
    if file.published is None:
        raise FileNotFoundError(
            f"The graph {name!r} is not downloaded: no published file is known to hold the same edges. Put "
            f"{file.name} (phylo_tree.edges of github.com/HazyResearch/hyperbolics, {file.nodes} nodes, {file.edges} "
            "edges, one 'i j' a line) into a folder 'graphs', and set HOROBALL_DATA to the folder above it."
        )
    import pooch

    cache = pooch.os_cache("horoball") / "graphs"
    return Path(pooch.retrieve(_GRAPH_URL + file.published, f"sha256:{file.sha256}", file.name, cache))
