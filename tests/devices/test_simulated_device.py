"""What a GPU would compute, wait for and cost, on a simulated one: see `tests.devices.simulated`."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.devices.script import GRAPHS, MODELS

ROOT = Path(__file__).parents[2]
# Relative to the largest number. Sums of 128 rows, and gradients of what cancels in part, carry the roundings of each.
TOLERANCE = {"loss": 1e-6, "gradient": 2e-5, "fit": 1e-6}
# Kernels that forward and backward start at batch 128, d = 10; the bare Euclidean model starts 58.
LAUNCHES = {"euclidean": 87, "wrapped": 244, "riemannian": 296, "diagonal": 244, "full": 252, "learned c": 288}
WITHOUT_FLOAT64 = {"euclidean": 87, "wrapped": 643, "riemannian": 615}

precisions = pytest.mark.parametrize("precision", ["float64", "float32"])


@cache
def results(precision: str) -> dict[str, Any]:
    """What the script prints; the workers of one test run share it, as it takes most of a minute."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    if not run:
        return json.loads(printed(precision))
    shared = Path(tempfile.gettempdir()) / f"horoball-device-{run}-{precision}.json"
    with shared.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the second worker waits for the first
        file.seek(0)
        text = file.read()
        if not text:
            text = printed(precision)
            file.write(text)
    return json.loads(text)


def printed(precision: str) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))}
    command = [sys.executable, "-m", "tests.devices.script", precision]
    done = subprocess.run(command, cwd=ROOT, env=environment, timeout=600, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(name: str, precision: str) -> dict[str, Any]:
    found = results(precision)[name]
    assert "error" not in found, found["error"]
    return found


@precisions
@pytest.mark.parametrize("model", MODELS)
def test_a_step_has_the_numbers_of_the_cpu_and_waits_for_nothing(model: str, precision: str) -> None:
    found = numbers(f"step, {model}", precision)
    for term in ("loss", "gradient"):
        assert found[term] <= TOLERANCE[term]
    assert found["syncs"] == []
    assert {place.split(":")[0] for _, place in found["transfers"]} == {"horoball/geometry/random.py"}  # its noise


@pytest.mark.parametrize(
    ("precision", "model", "most"),
    [("float64", *bar) for bar in LAUNCHES.items()] + [("float32", *bar) for bar in WITHOUT_FLOAT64.items()],
)
def test_a_step_starts_few_kernels(precision: str, model: str, most: int) -> None:
    assert numbers(f"step, {model}", precision)["launches"] <= most


@precisions
@pytest.mark.parametrize("pairs", GRAPHS)
def test_a_step_of_a_graph_has_the_numbers_of_the_cpu_and_waits_for_nothing(pairs: str, precision: str) -> None:
    found = numbers(f"graph step, {pairs}", precision)
    assert found["loss"] <= TOLERANCE["loss"]
    assert found["gradient"] <= TOLERANCE["gradient"] * (1 if precision == "float64" else 5)  # sums over all pairs
    assert found["syncs"] == []
    assert len(found["transfers"]) == 1  # its noise
    if precision == "float64":
        assert found["launches"] <= 460


@precisions
def test_an_epoch_looks_at_its_losses_every_sixteen_steps(precision: str) -> None:
    found = numbers("waits", precision)
    assert found["syncs"] == 1
    assert found["transfers"] == 2 * found["steps"]  # the noise of a radius and of a direction; rows are there already


@precisions
@pytest.mark.parametrize(
    "part", ["fit", "fit, distance term", "fit, wrapped and exact", "resume", "graph", "cells", "estimator"]
)
def test_fits_are_those_of_the_cpu(part: str, precision: str) -> None:
    found = numbers(part, precision)
    assert found.pop("epochs", 4) == 4
    # Rounding in float32 adds up over the steps.
    assert max(found.values()) <= TOLERANCE["fit"] * (1 if precision == "float64" else 10), found


@precisions
@pytest.mark.parametrize("part", ["uses, numbers", "uses, mixed", "commands"])
def test_a_fitted_model_is_used_as_on_the_cpu(part: str, precision: str) -> None:
    found = numbers(part, precision)
    # Both have the same weights; without float64, coordinates have the digits of float32.
    assert max(found.values()) <= (2e-6 if precision == "float64" else 2e-5), found


def test_a_loss_that_is_not_finite_is_told_by_its_step() -> None:
    found = numbers("stops", "float64")
    assert "not finite in epoch 1, step 5, on rows" in found["message"]
    assert found["calls"] > 5  # it is seen later
    assert "The weights" not in found["message"]  # no step was taken from it
