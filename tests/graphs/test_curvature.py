"""Which curvature a graph wants, by the bounds of models of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from horoball.graphs import PoincareGraphVAE
from horoball.graphs.curvature import choose_curvature
from horoball.graphs.read import read_graph
from horoball.graphs.run import GraphRun, graph_fit
from tests.commands import done
from tests.late import late

nx = late("networkx")


@pytest.mark.parametrize(("kind", "c"), [("tree", 1.0), ("grid", 0.0)])
def test_a_tree_wants_curvature_and_a_grid_does_not(kind: str, c: float) -> None:
    graph = nx.balanced_tree(3, 4) if kind == "tree" else nx.grid_2d_graph(9, 9)
    model = PoincareGraphVAE(c="auto", max_epochs=300, random_state=0).fit(graph)
    assert model.c_ == c
    flat, curved = model.tried_
    assert (flat.c, flat.gain, flat.error) == (0.0, 0.0, 0.0)
    assert curved.gain == pytest.approx(curved.bound - flat.bound)
    assert (curved.gain > 2 * curved.error) == bool(c)


def test_equal_models_keep_the_simplest() -> None:
    graph = read_graph(nx.path_graph(10))
    run, tried = choose_curvature(graph, *graph_fit(graph, max_epochs=5), curvatures=(0.0, 0.0))
    assert [each.gain for each in tried] == [0.0, 0.0]
    assert run.model.ball.c_value == 0.0


def test_the_command_says_what_it_compared_and_fits_what_it_chose(tmp_path: Path) -> None:
    nx.write_edgelist(nx.path_graph(10), tmp_path / "path.txt", data=False)
    said = done("graph", "fit", tmp_path / "path.txt", "-o", tmp_path / "run", "--c", "auto", "--max-epochs", 3).stderr
    assert "c = 0: bound" in said
    assert "c = 1: bound" in said
    assert GraphRun.load(tmp_path / "run").model.ball.c_value in (0.0, 1.0)
    again = done("graph", "fit", "--config", tmp_path / "run" / "run.toml", "-o", tmp_path / "again").stderr
    assert "c = 1: bound" in again
