"""Rows in another unit than those of the fit are embedded with a warning."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from horoball import PoincareVAE
from horoball.vae.residuals import FarRowWarning

FAST = {"max_epochs": 1, "hidden": (8,), "random_state": 0}


def rows(kinds: bool) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    return frame.assign(kind=rng.choice(["u", "v", "w"], 80), d=np.exp(2 * rng.normal(size=80))) if kinds else frame


@pytest.mark.parametrize("kinds", [False, True])
def test_rows_in_another_unit_are_told(kinds: bool) -> None:
    frame = rows(kinds)
    model = PoincareVAE(**FAST).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform(frame)
    far = frame.copy()
    far.loc[7, "b"] *= 1e6
    with pytest.warns(FarRowWarning, match=r"1 of 80 rows lies far .*: row 7, most of all in column b"):
        model.transform(far)
    numbers = frame.select_dtypes("number").columns
    with pytest.warns(FarRowWarning, match=r"80 of 80 rows lie far .*: row 0, 1, 2, 3, 4 …"):
        model.transform(frame.assign(**{name: frame[name] * 1e8 for name in numbers}))
