"""Names of groups on the map: which are written, where, and when."""

from __future__ import annotations

import numpy as np
import pytest

from horoball.viewer import view
from tests.viewer.conftest import Open

ANGLE = np.repeat(np.arange(16) / 16, 20) * 2 * np.pi
RADIUS = 2.5 + 0.4 * np.random.default_rng(0).normal(size=len(ANGLE))
Z = np.tanh(RADIUS / 2)[:, None] * np.stack((np.cos(ANGLE), np.sin(ANGLE)), 1)
COARSE = [f"Branch {k}" for k in np.repeat(np.arange(4), 80)]
FINE = [f"Twig {k}" for k in np.repeat(np.arange(16), 20)]


def test_names_of_all_levels_are_written_and_none_over_another(open_map: Open) -> None:
    opened = open_map(view(Z, levels=[COARSE, FINE]))
    names = opened.get("horoball.names()")
    assert {f"Branch {k}" for k in range(4)} <= {name for name, *_ in names}
    assert any(name.startswith("Twig") for name, *_ in names)
    for k, (_, x, y) in enumerate(names):
        assert all(abs(x - u) > 40 or abs(y - v) > 11 for _, u, v in names[:k])
    opened.get("document.getElementById('names').click()")
    opened.shot("without names")


def test_a_group_far_out_is_named_once_it_is_near(open_map: Open) -> None:
    far = np.tanh((RADIUS + 4) / 2)[:, None] * np.stack((np.cos(ANGLE), np.sin(ANGLE)), 1)
    opened = open_map(view(far, levels=[COARSE, FINE]))
    assert not any(name.startswith("Twig") for name, *_ in opened.get("horoball.names()"))
    opened.page.mouse.dblclick(*opened.pixel(0))
    opened.rest()
    assert "Twig 0" in [name for name, *_ in opened.get("horoball.names()")]


def test_categories_are_named_without_levels_and_points_without_a_group_are_not(open_map: Open) -> None:
    kinds = [None if k < 20 else name for k, name in enumerate(FINE)]
    names = {name for name, *_ in open_map(view(Z, columns={"kind": kinds})).get("horoball.names()")}
    assert "Twig 3" in names
    assert not names & {"Twig 0", "missing"}


def test_the_welcome_goes_with_the_first_move(open_map: Open) -> None:
    opened = open_map(view(Z))
    shown = "!document.getElementById('welcome').hidden"
    assert opened.get(shown)
    opened.page.keyboard.press("ArrowLeft")
    assert not opened.get(shown)


def test_a_level_has_a_name_for_every_point() -> None:
    with pytest.raises(ValueError, match="Level 1 has 3 names for 320 points"):
        view(Z, levels=[COARSE, ["a", "b", "c"]])
