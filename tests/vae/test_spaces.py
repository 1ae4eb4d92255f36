"""c="auto": the rule by made-up figures, and a fit that chooses, tells and keeps what it chose from."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horoball as hb
from horoball.storage.settings import SettingError
from horoball.tables import ArrayTable
from horoball.vae import spaces
from horoball.vae.options import TableRecord
from tests.commands import done, refused

FAST: dict[str, Any] = {"hidden": 8, "max_epochs": 1, "distance_weight": 0.0}
X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
PART = np.arange(60) % 3


def chosen(likelihood: list[float], bent: list[float], *, noise: float = 0.5) -> tuple[str, float]:
    """What is chosen of figures like these: nats a row, each with noise, and distortions of the three parts."""
    rng = np.random.default_rng(1)
    rows = [mean + noise * rng.normal(size=60) for mean in likelihood]
    parts = [mean + np.array([-0.01, 0.0, 0.01]) * (k + 1) for k, mean in enumerate(bent)]
    found = spaces._compared(spaces.spaces(2), rows, parts, PART)
    return next((each.space, each.c) for each in found if each.chosen)


def test_the_simplest_of_what_is_within_the_noise_is_chosen() -> None:
    assert chosen([-5.0, -5.0, -5.0, -5.0], [0.3, 0.3, 0.3, 0.3]) == ("E2", 0.0)
    assert chosen([-9.0, -5.0, -5.0, -5.0], [0.3, 0.3, 0.3, 0.3])[0] == "H2"
    assert chosen([-9.0, -8.0, -5.0, -8.0], [0.3, 0.3, 0.3, 0.3]) == ("H2", 0.25)


def test_distances_decide_between_spaces_that_are_as_likely() -> None:
    assert chosen([-5.0, -5.0, -5.0, -5.0], [0.9, 0.9, 0.9, 0.1], noise=1e-9) == ("H2", 4.0)
    assert chosen([-5.0, -9.0, -9.0, -9.0], [0.9, 0.1, 0.1, 0.1]) == ("E2", 0.0)  # and nothing of those that are less


def test_the_noise_is_not_less_than_that_of_the_parts() -> None:
    gap = np.array([1.0, 0.0, -1.0])[PART]
    assert spaces._difference(gap, PART) == pytest.approx((0.0, 1 / np.sqrt(3)))
    gap = np.random.default_rng(0).normal(size=60)
    gap -= np.array([gap[k == PART].mean() for k in range(3)])[PART]  # the parts agree
    assert spaces._difference(gap, PART)[1] == pytest.approx(gap.std(ddof=1) / np.sqrt(60))


def test_products_are_tried_where_there_are_dimensions_for_them() -> None:
    assert [name for name, _, _ in spaces.spaces(2)] == ["E2", "H2", "H2", "H2"]
    assert [name for name, _, _ in spaces.spaces(3)][-1] == "H2xE1"  # a line is flat: H2xH1 is the same
    assert [name for name, _, _ in spaces.spaces(4)][-2:] == ["H2xE2", "H2xH2"]
    assert len(spaces.spaces(4, products=False)) == 4


def test_a_fit_keeps_what_it_has_tried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "horoball"):
        model = hb.PoincareVAE(4, c="auto", posterior="wrapped", random_state=0, **FAST).fit(X)
    assert [line for line in caplog.messages if line.startswith("Space: ")] == [spaces.lines(model.tried_)[0]]
    assert sum("Likelihood:" in line for line in caplog.messages) == 1
    assert [each.space for each in model.tried_] == [name for name, _, _ in spaces.spaces(4)]
    (best,) = [each for each in model.tried_ if each.chosen]
    assert model.run_.record.model.manifold == best.manifold
    assert min(each.behind for each in model.tried_) == 0
    model.save(tmp_path / "run")
    again = hb.PoincareVAE.load(tmp_path / "run")
    assert (again.c, again.tried_) == ("auto", model.tried_)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    same = hb.PoincareVAE(4, c="auto", posterior="wrapped", random_state=0, **FAST).fit(X)
    assert same.tried_ == model.tried_
    assert model.partial_fit(X).tried_ == same.tried_  # of the first fit: its space stays
    assert hb.PoincareVAE(random_state=0, **FAST).fit(X).tried_ == []


def test_the_command_chooses_and_resumes(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "rows.csv", X, "%.5f", ",", header="a,b,c,d", comments="")
    fast = [word for name, value in FAST.items() for word in (f"--{name.replace('_', '-')}", value)]
    told = done("fit", tmp_path / "rows.csv", "-o", tmp_path / "run", "--c", "auto", *fast)
    assert "chosen among 4 on held-out rows" in told.stderr
    assert list(json.loads(told.stdout)["tried"]) == ["E2, c = 0", "H2, c = 1", "H2, c = 0.25", "H2, c = 4"]
    done("fit", tmp_path / "rows.csv", "-o", tmp_path / "run", "--c", "auto", *fast, "--resume")
    assert len(hb.PoincareVAE.load(tmp_path / "run").tried_) == 4
    said = refused("fit", tmp_path / "rows.csv", "-o", tmp_path / "other", "--c", "some")
    assert "--c is a number or 'learn' or 'auto', got 'some'" in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_components": 1}, "a line has no curvature"),
        ({"manifold": 'product:{"signature": "E2"}'}, "Leave the manifold out"),
    ],
)
def test_what_has_no_choice_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        hb.PoincareVAE(c="auto", **options, **FAST).fit(X)


def test_few_rows_are_refused() -> None:
    with pytest.raises(SettingError, match="30 or more, got 20"):
        hb.PoincareVAE(c="auto", **FAST).fit(X[:20])


@pytest.mark.parametrize("tried", ["all", [3], [{"space": "E2"}], [{"space": "E2", "evil": 1}]])
def test_what_a_file_tells_of_spaces_is_checked(tried: Any) -> None:
    model = hb.PoincareVAE(random_state=0, **FAST).fit(X)
    fields = {**vars(model.run_.record), "tried": tried}
    with pytest.raises(ValueError, match=r"tried"):
        TableRecord(**fields)


def test_large_tables_are_sampled() -> None:
    assert spaces._some(ArrayTable(np.zeros((4000, 3)))).rows == 1500
