"""A run is gone on with by the command, the data and the options that it was begun with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from horoball.training.about import expect_graph, expect_same, expect_table

TRAINING = {"seed": 0, "batch_size": 128, "validation": 0.1, "max_epochs": 5, "beta": 1.0}
TABLE = {
    "model": {"d": 2, "c": 1.0},
    "training": TRAINING,
    "columns": ["a", "b"],
    "label": None,
    "rows": 8,
    "data": "0f",
}
GRAPH = {"model": {"d": 2, "c": 1.0}, "training": TRAINING, "graph": {"nodes": 4, "digest": "0f"}, "non_edges": None}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (TABLE, GRAPH, r"run holds the run of a table. .* `horoball fit --resume`"),
        (GRAPH, TABLE, r"run holds the run of a graph. .* `horoball graph fit --resume`"),
        (TABLE, TABLE | {"columns": ["a", "c"]}, "is of a table with other columns. Resume with the file"),
        (GRAPH, GRAPH | {"graph": {"nodes": 4, "digest": "1f"}}, "is of another graph. Resume with the file"),
        (TABLE, TABLE | {"model": {"d": 2, "c": 0.0}}, r"has c = 1\.0, not 0\.0. Resume with the options"),
        (TABLE, TABLE | {"model": {"d": 2, "library": True}}, "has library = False, not True"),
        (TABLE, TABLE | {"training": {"seed": 1, "max_epochs": 9}}, "has seed = 0, not 1. Resume with the options"),
        (TABLE, TABLE | {"training": {"validation": 0.2}}, r"has validation = 0\.1, not 0\.2. Resume with the options"),
        (GRAPH, GRAPH | {"training": {"batch_size": 64}}, "has batch_size = 128, not 64. Resume with the options"),
        (TABLE, TABLE | {"training": TRAINING | {"beta": 2.0}}, r"has beta = 1\.0, not 2\.0. Resume with the options"),
        (TABLE, TABLE | {"rows": 9}, "has rows = 8, not 9. Resume with the options"),
        (TABLE, TABLE | {"data": "1f"}, "is of other rows. Resume with the file of the first fit"),
        (GRAPH, GRAPH | {"non_edges": 3}, "has non_edges = None, not 3. Resume with the options"),
        (TABLE, TABLE | {"covariates": {"batch": ["a"]}}, "has other batches. Resume with the options"),
        (TABLE, TABLE | {"label": "kind"}, "has the label None, not 'kind'"),
    ],
)
def test_another_run_is_refused(old: dict[str, Any], new: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expect_same(Path("run"), old, new)


def test_the_same_run_is_taken_and_so_is_one_that_says_nothing() -> None:
    for about in (TABLE, GRAPH, {}):
        expect_same(Path("run"), about, about)
        expect_same(Path("run"), about, {})  # as `fit` and `fit_graph` have it unless told
    expect_same(Path("run"), {}, GRAPH)
    expect_same(Path("run"), TABLE, TABLE | {"model": {"d": 2, "c": 1.0, "covariates": [], "library": False}})  # newer
    expect_same(Path("run"), TABLE, TABLE | {"training": TRAINING | {"max_epochs": 9}})  # it may be longer
    expect_same(Path("run"), {"model": TABLE["model"]}, TABLE)
    expect_table(Path("run"), TABLE)
    expect_graph(Path("run"), GRAPH)


def test_the_other_kind_of_run_names_what_reads_it() -> None:
    with pytest.raises(ValueError, match=r"`horoball graph embed`.*PoincareGraphVAE\.load"):
        expect_table(Path("run"), GRAPH)
    with pytest.raises(ValueError, match=r"`horoball embed`.*PoincareVAE\.load"):
        expect_graph(Path("run"), TABLE)
