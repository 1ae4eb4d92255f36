"""Tables of (head, relation, tail) are told from edges, and files of other programs name who reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from horoball.graphs import read_graph
from tests.late import late

nx = late("networkx")
pl = late("polars")

FACTS = [("cat", "is_a", "animal"), ("dog", "is_a", "animal"), ("dog", "eats", "cat")]
PAIRS = {("animal", "cat"), ("animal", "dog"), ("cat", "dog")}


def text(name: str, separator: str, header: list[str] | None = None) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        lines = [separator.join(row) for row in ([header] if header else []) + FACTS]
        (folder / name).write_text("\n".join(lines) + "\n")
        return folder / name

    return write


def frame(names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(FACTS * 2, columns=names)


def parquet(names: list[str]) -> Callable[[Path], Path]:
    return lambda folder: (frame(names).to_parquet(folder / "x.parquet"), folder / "x.parquet")[1]


SOURCES: dict[str, Callable[[list[str]], Callable[[Path], Any]]] = {
    "csv": lambda names: text("x.csv", ",", names),
    "tsv": lambda names: text("x.tsv", "\t", names),
    "parquet": parquet,
    "pandas": lambda names: lambda _: frame(names),
    "polars": lambda names: lambda _: pl.from_pandas(frame(names)),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("names", [["head", "relation", "tail"], ["Subject", "predicate", "Object"]], ids=str)
def test_facts_with_named_ends_are_edges_from_head_to_tail(source: str, names: list[str], tmp_path: Path) -> None:
    graph = read_graph(SOURCES[source](names)(tmp_path))
    found = {tuple(graph.names[[i, j]].tolist()) for i, j in graph.edges.tolist()}
    assert found == PAIRS


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("names", [["a", "relation", "b"], ["a", "type", "b"], ["x", "y", "z"]], ids=str)
def test_facts_without_named_ends_are_refused_with_advice(source: str, names: list[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\(head, relation, tail\).*source and target"):
        read_graph(SOURCES[source](names)(tmp_path))


HEADERLESS: dict[str, Callable[[Path], Any]] = {
    "blanks": text("x.txt", " "),
    "tabs": text("x.edges", "\t"),
    "csv": text("x.csv", ","),
    "list": lambda _: FACTS,
    "numbered ends": lambda _: [(1, "_hypernym", 2), (2, "_hypernym", 3)],
}


@pytest.mark.parametrize("case", HEADERLESS)
def test_facts_without_a_header_are_refused_with_advice(case: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"three columns of text.*keep the first and the last"):
        read_graph(HEADERLESS[case](tmp_path))


@pytest.mark.parametrize("third", ["0.5", "3", "{}", "{'weight': 1}", "2026-01-31", "-1e-3"])
def test_edges_with_weights_dates_or_attributes_are_edges(third: str, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(f"a\tb\tnote\ncat\tanimal\t{third}\ndog\tanimal\t{third}\n")
    assert read_graph(tmp_path / "x.tsv").names.tolist() == ["animal", "cat", "dog"]


@pytest.mark.parametrize("kind", ["graphml", "gml", "gexf"])
@pytest.mark.parametrize("ending", ["", ".txt"])
def test_files_of_networkx_name_who_reads_them(kind: str, ending: str, tmp_path: Path) -> None:
    graph = nx.Graph([("cat", "animal"), ("dog", "animal")])
    path = tmp_path / (f"x.{kind}" if not ending else f"x{ending}")
    getattr(nx, f"write_{kind}")(graph, path)
    with pytest.raises(ValueError, match=rf"x\..* is a .* file, which is not read.*networkx\.read_{kind}\(path\)"):
        read_graph(path)
    assert len(read_graph(getattr(nx, f"read_{kind}")(path)).edges) == 2  # as the message advises
