"""A default has one home; signatures and help texts show the value that is there."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
import typer

from horoball import PoincareGraphVAE, PoincareVAE, cells
from horoball.cli import app
from horoball.graphs import Graph, GraphConfig
from horoball.graphs.fit import DIRECTED_TRAINING, FREE_TRAINING, PAPER_TRAINING, TAXONOMY_TRAINING
from horoball.graphs.run import GRAPHS, graph_fit
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.vae import ModelConfig
from horoball.vae.kinds import CELLS, TABLES
from horoball.vae.options import check_options, pace, stored_options, table_fit

TABLE, CELL_TABLE = ArrayTable(np.zeros((100, 40))), ArrayTable(np.zeros((100, 40)))
CELL_TABLE.kind = "cells"


def command(*path: str) -> Any:
    found: Any = typer.main.get_command(app)
    for name in path:
        found = found.commands[name]
    return found


def homes(*kinds: Any) -> dict[str, Any]:
    """Defaults by name; the first that has one is its home."""
    found: dict[str, Any] = {}
    for kind in reversed(kinds):
        values = kind._asdict() if hasattr(kind, "_asdict") else vars(kind)
        found |= {name: value for name, value in values.items() if not name.startswith("_")}
    return found


FIT, GRAPH = homes(TABLES, ModelConfig, TrainConfig), homes(GRAPHS, GraphConfig, TrainConfig)
GRAPH |= {"max_epochs": FREE_TRAINING.max_epochs, "learning_rate": FREE_TRAINING.learning_rate}
CASES = [
    (path, option, home)
    for path, home in ((("fit",), FIT), (("graph", "fit"), GRAPH), (("report",), FIT))
    for option in command(*path).params
    if option.help and "[default:" in option.help
]


@pytest.mark.parametrize(("path", "option", "home"), CASES, ids=[f"{' '.join(p)} {o.name}" for p, o, _ in CASES])
def test_help_shows_the_default(path: tuple[str, ...], option: Any, home: dict[str, Any]) -> None:
    shown = re.search(r"\[default: ([^\];,]+)", option.help)
    assert shown is not None
    assert option.default is None
    name = option.name
    if (name, path[0]) in {("layer", "fit"), ("batch_size", "graph"), ("comment", "graph")}:
        return  # which are sentences
    value = home[name]
    assert shown[1] == (name if value is True else str(value[0] if isinstance(value, tuple) else value))


def test_help_shows_what_cells_and_convolutions_use_instead() -> None:
    options = {option.name: option.help for option in command("fit").params}
    assert f"; {CELLS.hidden[0]} for cells]" in options["hidden"]
    assert f"; {CELLS.posterior} for cells]" in options["posterior"]
    options = {option.name: option.help for option in command("graph", "fit").params}
    assert f"; {PAPER_TRAINING.max_epochs} for 'gcn']" in options["max_epochs"]
    last = FREE_TRAINING.learning_rate * FREE_TRAINING.decay
    rates = f"{TAXONOMY_TRAINING.learning_rate} for a taxonomy; {PAPER_TRAINING.learning_rate} for 'gcn']"
    assert f"falling to {last:g}; {rates}" in options["learning_rate"]
    assert f"; {TAXONOMY_TRAINING.max_epochs} for a taxonomy; " in options["max_epochs"]
    assert f"; {DIRECTED_TRAINING.beta} if directed; {TAXONOMY_TRAINING.beta} for a taxonomy]" in options["beta"]


@pytest.mark.parametrize(
    ("call", "home"),
    [(PoincareVAE, FIT), (cells.fit, FIT | CELLS._asdict()), (PoincareGraphVAE, GRAPH)],
    ids=["PoincareVAE", "cells.fit", "PoincareGraphVAE"],
)
def test_signatures_have_the_default_and_docstrings_every_parameter(call: Any, home: dict[str, Any]) -> None:
    renamed = {"n_components": "d", "validation_fraction": "validation"}
    for name, parameter in inspect.signature(call).parameters.items():
        assert re.search(rf"^ +{name}: ", call.__doc__, re.MULTILINE)
        if renamed.get(name, name) in home and parameter.default is not None:
            assert parameter.default == home[renamed.get(name, name)]


@pytest.mark.parametrize("path", [("fit",), ("graph", "fit"), ("report",), ("evaluate",), ("embed",), ("sample",)])
def test_every_option_of_a_command_has_help(path: tuple[str, ...]) -> None:
    for option in command(*path).params:
        assert option.help, option.name


def test_options_come_back_from_settings() -> None:
    model, training = table_fit(TABLE, c="learn", prior_scale="learn", hidden=(8,), beta=2.0, distance_weight=3)
    assert model == {
        "likelihood": "auto",
        "c": 1.0,
        "learn_c": True,
        "prior_scale": 1.0,
        "learn_prior": True,
        "hidden": (8,),
    }
    wanted = {"locality": TABLES.locality} | pace(TABLE, {"distance_weight": 3.0})
    assert training == TrainConfig(beta=2.0, distance_weight=3.0, **wanted)


def test_cells_without_distances_train_by_the_papers_objective_with_a_warm_up() -> None:
    _, cells_training = table_fit(CELL_TABLE, distance_weight=0)
    assert cells_training == TrainConfig(kl_warmup=0.1)


@pytest.mark.parametrize(("given", "library"), [("auto", True), ("negative_binomial", True), ("normal", False)])
def test_cells_are_shares_of_their_sums_where_they_are_counts(given: str, library: bool) -> None:
    model, _ = table_fit(CELL_TABLE, likelihood=given)
    assert bool(model.get("library")) == library
    assert (model["posterior"], model["hidden"]) == (CELLS.posterior, CELLS.hidden)
    assert model["likelihood"] == ("negative_binomial" if library else "normal")


def test_an_option_that_no_fit_has_is_refused() -> None:
    fits: list[Any] = [lambda **options: table_fit(TABLE, **options), lambda **o: graph_fit(Graph.of([(0, 1)]), **o)]
    for call in fits:
        with pytest.raises(TypeError, match="no option 'wings'"):
            call(wings=2)
    with pytest.raises(ValueError, match="c must be at least 0"):
        check_options(GraphConfig, {"c": -1.0})


def test_an_estimator_loaded_from_a_command_has_all_options_of_the_fit() -> None:
    options = stored_options(PoincareVAE(3, c=0.5, beta=2.0, max_epochs=1, hidden=4).fit(np.eye(8, 5)).run_.record)
    wanted = {"d": 3, "c": 0.5, "beta": 2.0, "max_epochs": 1, "hidden": (4,)}
    assert {name: options[name] for name in wanted} == wanted


def test_the_table_of_options_has_the_types_of_the_settings() -> None:
    from dataclasses import fields as settings_of

    from horoball.options import FitOptions, GraphOptions
    from horoball.vae.model import ModelFields

    of_training = {part.name for part in settings_of(TrainConfig)}
    for options, config in ((FitOptions, ModelConfig), (GraphOptions, GraphConfig)):
        assert set(options.__annotations__) <= of_training | {part.name for part in settings_of(config)}
    given = {part.name: part.type for part in settings_of(ModelConfig) if part.name != "features"}
    assert {name: str(kind.__forward_arg__) for name, kind in ModelFields.__annotations__.items()} == given
