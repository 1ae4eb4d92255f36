"""Whatever number a parameter is given: a typed error that names it, or a fit with finite numbers or a warning."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

import horoball as hb
from horoball.cli import app
from horoball.geometry.coordinates import RimWarning
from horoball.graphs import GraphConfig
from horoball.graphs.run import PairConfig
from horoball.storage.settings import SettingError, Settings
from horoball.tables.outliers import OutlierWarning
from horoball.training import TrainConfig
from horoball.vae import ModelConfig

KNOWN = (ConvergenceWarning, OutlierWarning, RimWarning)
X = np.random.default_rng(0).normal(size=(24, 3))
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 5)]
ODD: list[Any] = [-1, -0.5, 0, math.nan, math.inf, -math.inf, 1e300, 10**400, "many", True, [1], object]
TABLE = ("n_components", "c", "hidden", "prior_scale", "beta", "distance_weight", "max_epochs", "batch_size")
TABLE = (*TABLE, "learning_rate", "validation_fraction", "patience")
GRAPH = ("n_components", "c", "hidden", "prior_scale", "beta", "non_edges", "max_epochs", "batch_size", "learning_rate")
CONFIGS = [(ModelConfig, {"features": 3}), (GraphConfig, {"nodes": 3}), (TrainConfig, {}), (PairConfig, {})]
NUMBERS = ("int", "float", "int | None", "tuple[int, ...]")


def fault(fit: Callable[[], np.ndarray], name: str) -> str:
    """What is wrong with a fit that is to end in coordinates, or in an error that names the parameter; else nothing."""
    try:
        with warnings.catch_warnings():
            for kind in KNOWN:
                warnings.simplefilter("ignore", kind)
            z = fit()
    except SettingError as error:
        return "" if error.name == name else repr(error)
    except (FloatingPointError, ValueError) as error:
        return "" if name in str(error) or "Lower the learning rate" in str(error) else repr(error)
    except Exception as error:  # with the others, not before them
        return repr(error)
    return "" if np.isfinite(z).all() and (np.linalg.norm(z, axis=1) < 1).all() else f"coordinates {z}"


def faults(fit: Callable[..., np.ndarray], name: str) -> dict[str, str]:
    """The odd values that a parameter does not end well with."""
    said = {repr(value)[:10]: fault(lambda value=value: fit(**{name: value}), name) for value in ODD}
    return {value: what for value, what in said.items() if what}


@pytest.mark.parametrize("name", TABLE)
def test_no_parameter_of_a_table_ends_in_nan_or_silence(name: str) -> None:
    start = {"max_epochs": 1, "hidden": (4,), "random_state": 0}
    assert not faults(lambda **given: hb.PoincareVAE(**(start | given)).fit_transform(X), name)


@pytest.mark.parametrize("name", GRAPH)
def test_no_parameter_of_a_graph_ends_in_nan_or_silence(name: str) -> None:
    start = {"max_epochs": 2, "random_state": 0}
    assert not faults(lambda **given: hb.PoincareGraphVAE(**(start | given)).fit_transform(EDGES), name)


@pytest.mark.parametrize(("config", "given"), CONFIGS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_number_of_a_configuration_has_a_range(config: type[Settings], given: dict[str, Any]) -> None:
    numbers = [field.name for field in fields(config) if str(field.type) in NUMBERS]
    assert numbers
    for name in numbers:
        for value in (-1, math.nan, math.inf, -math.inf, 10**400, "many", True):
            with pytest.raises(SettingError, match=f"^{name} "):
                config(**(given | {name: value}))


@pytest.mark.parametrize(
    ("name", "value", "useful"),
    [("beta", -1, "1 is the evidence"), ("c", 1e8, "1 suits most"), ("prior_scale", 1e6, "1 suits most")],
)
def test_a_parameter_out_of_range_is_refused_with_its_range_and_a_useful_value(
    name: str, value: float, useful: str
) -> None:
    with pytest.raises(SettingError, match=f"{name} must be at least .* and at most .*, got .*{useful}"):
        hb.PoincareVAE(**{name: value}).fit(X)


@pytest.mark.parametrize("value", [0.0, 1.0, 7.5])
def test_rows_that_are_all_the_same_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="All 50 rows are the same, so there is nothing to learn"):
        hb.PoincareVAE(max_epochs=1).fit(np.full((50, 4), value))


@pytest.mark.parametrize("value", [0, -1, 2.5, "many", math.nan])
def test_draws_from_a_fitted_model_are_counted_from_one(value: Any) -> None:
    model = hb.PoincareVAE(max_epochs=1, hidden=(4,), random_state=0).fit(X)
    with pytest.raises(SettingError, match="n_samples"):
        model.sample(value)
    with pytest.raises(SettingError, match="samples"):
        model.score_samples(X, value)


OPTIONS = ("dim", "c", "hidden", "prior-scale", "beta", "distance-weight", "max-epochs", "batch-size", "learning-rate")


@pytest.mark.parametrize("option", [*OPTIONS, "validation", "patience", "seed"])
def test_the_command_ends_with_a_line_that_names_the_option(option: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    wrong = {}
    for value in ("-1", "nan", "inf", "1e300"):
        given = ["fit", str(tmp_path / "x.npy"), "-o", str(tmp_path / "run"), "--quiet", f"--{option}", value]
        ended = CliRunner().invoke(app, given)
        # 2: not of the option's kind
        stopped = ended.exit_code in (1, 2) and isinstance(ended.exception, SystemExit)
        if not stopped or option not in ended.output.replace("_", "-"):
            wrong[value] = (ended.output, ended.exception)
    assert not wrong
