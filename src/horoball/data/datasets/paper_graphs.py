"""The three graphs of the paper's link prediction, from `HOROBALL_DATA` or downloaded with a checksum."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from horoball.data.graphs.graph import Graph

__all__ = ["paper_graph"]

_URL = "https://raw.githubusercontent.com/HazyResearch/hyperbolics/2aa7baea0f9f5753666970f25f8e4b6e655dbb9b/data/edges/"


class _File(NamedTuple):
    name: str  # in HOROBALL_DATA/graphs
    published: str | None  # its name where it is published; None where the file there was not compared with ours
    sha256: str
    nodes: int
    edges: int


_FILES = {
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
    if name not in _FILES:
        raise ValueError(f"The paper has no graph {name!r}. Its graphs are: {', '.join(_FILES)}.")
    file = _FILES[name]
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
    return Path(pooch.retrieve(_URL + file.published, f"sha256:{file.sha256}", file.name, cache))
