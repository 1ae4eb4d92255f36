"""Behavior is what is written down; `python -m tests.goldens --write` writes it anew where it is meant to change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.goldens import commands, names, tables
from tests.goldens.__main__ import GOLDENS
from tests.goldens.fits import FITS, summary
from tests.goldens.runs import RUNS, header, places

pytestmark = pytest.mark.filterwarnings("ignore")  # what is told beside a result is not part of it
SAID: dict[str, Any] = json.loads(GOLDENS.read_text(encoding="utf-8"))
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")
# Sums of float32 are in another order on other processors, and two epochs of training make more of it.
RTOL, ATOL = 2e-2, 2e-3


def _same_lines(found: list[str], said: list[str]) -> None:
    """Words are the same, and numbers close."""
    assert [NUMBER.sub("#", line) for line in found] == [NUMBER.sub("#", line) for line in said]
    numbers = [[float(x) for line in lines for x in NUMBER.findall(line)] for lines in (found, said)]
    assert numbers[0] == pytest.approx(numbers[1], rel=RTOL, abs=ATOL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("goldens")


@pytest.mark.parametrize("name", FITS)
def test_the_weights_of_a_fit_are_those_written_down(name: str) -> None:
    found, said = summary(FITS[name]()), SAID["fits"][name]
    assert list(found) == list(said)
    for key, values in said.items():
        assert found[key] == pytest.approx(values, rel=RTOL, abs=ATOL), key


@pytest.mark.parametrize("name", SAID["commands"])
def test_a_command_says_what_is_written_down(name: str, folder: Path) -> None:
    _same_lines(commands.cases(folder)[name](), SAID["commands"][name])


def test_every_table_is_read_as_written_down(folder: Path) -> None:
    found = {name: tables.as_json(make()) for name, make in tables.cases(folder).items()}
    assert found == SAID["tables"]


def test_the_public_names_are_those_written_down() -> None:
    assert names.public_names() == SAID["names"]


def test_every_path_that_was_public_can_be_imported() -> None:
    gone = []
    for path in SAID["paths"]:
        try:
            names.resolve(path)
        except (AttributeError, ImportError) as error:
            gone.append(f"{path}: {error}")
    assert not gone


@pytest.mark.parametrize("name", RUNS)
def test_a_saved_run_is_read_and_gives_the_same_places(name: str) -> None:
    said = SAID["runs"][name]
    assert tables.as_json(header(name)) == {key: said[key] for key in ("keys", "tensors")}
    assert places(name) == [pytest.approx(row, rel=1e-2, abs=1e-3) for row in said["places"]]
