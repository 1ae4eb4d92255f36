"""What is done with a fitted model, in Python and by commands, with the model on the CPU and on another device.

Both have the same weights, so that what they give differs by roundings alone.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import horoball as hb
from horoball.tables import ArrayTable
from horoball.vae import export
from horoball.viewer import view_run
from tests.commands import done

__all__ = ["commands", "rows", "uses"]

SHORT: dict[str, Any] = {"max_epochs": 2, "hidden": (16,), "random_state": 0}


def rows(*, mixed: bool) -> pd.DataFrame:
    """Three groups; of a mixed table, columns of every kind and gaps."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], 30)
    x = 4 * rng.normal(size=(3, 5))[group] + rng.normal(size=(90, 5))
    frame = pd.DataFrame(x, columns=list("abcde"))
    if mixed:
        frame["price"] = np.exp(x[:, 0] + rng.normal(size=90))
        frame["visits"] = rng.poisson(np.exp(np.clip(x[:, 1], -2, 3)))
        frame["stars"] = np.clip(np.round(x[:, 2] / 2 + 3), 1, 5).astype(int)
        frame["kind"] = [f"k{i}" for i in group]
        frame["member"] = x[:, 3] > 0
        frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(700, size=90), "D")
        for name in ("b", "price", "visits", "kind"):
            frame.loc[rng.random(90) < 0.2, name] = None
    return frame


def apart(got: Any, expected: Any) -> float:
    """The largest difference, relative to the largest number; infinite if other than numbers differ."""
    if isinstance(expected, pd.DataFrame):
        return max(apart(got[name].to_numpy(), expected[name].to_numpy()) for name in expected)
    got, expected = (_numbers(np.asarray(values)) for values in (got, expected))
    if expected.dtype.kind not in "fi":
        same = got.shape == expected.shape and pd.Series(got.ravel()).equals(pd.Series(expected.ravel()))
        return 0.0 if same else float("inf")  # text, and gaps in it: a row at the root has no place
    if got.shape != expected.shape or not np.array_equal(np.isnan(got), np.isnan(expected)):
        return float("inf")
    return float(np.nanmax(np.abs(got - expected)) / max(np.nanmax(np.abs(expected)), 1e-12))


def _numbers(values: np.ndarray) -> np.ndarray:
    """Times as seconds, which a drawn one is rounded to."""
    return values.astype("datetime64[s]").astype(np.float64) if values.dtype.kind == "M" else values


def asked(model: hb.PoincareVAE, frame: pd.DataFrame, folder: Path, *, mixed: bool) -> dict[str, Any]:
    """All that a model is asked for."""
    run, table = model.run_, model.run_.read(frame)
    found: dict[str, Any] = {"coordinates": model.transform(frame), "scales": model.posterior_scale(frame)}
    found |= {"impute": model.impute(frame, samples=50), "draws": model.impute(frame, draws=1, samples=50)[0]}
    found |= {"sample": model.sample(20, random_state=0), "decoded": model.inverse_transform(np.zeros((2, 2)))}
    tree = model.tree(frame, draws=3)
    found |= {"tree": tree.depth, "support": tree.support}
    found["latent tree"] = model.tree(frame, source="latent", draws=3).depth
    found["labeled tree"] = model.tree(frame, np.repeat(["x", "y", "z"], 30), draws=3).depth
    if run.model.likelihood.numeric:
        found["groups"] = model.taxonomy(frame, [3], tree=tree).levels
        found["placed"] = model.place(frame).probability
    page = view_run(run, table, features=["a"], path=folder / "map.html").html
    found["page"] = len(page) // 100  # its numbers are rounded and packed
    model.save(folder / "model")
    found["saved"] = hb.PoincareVAE.load(folder / "model").transform(frame)
    if not mixed:
        export(run, folder / "encoder.pt2")
    return found


def uses(name: str, *, mixed: bool) -> dict[str, float]:
    """A model that was fitted on the device, and the same one on the CPU."""
    frame, folder = rows(mixed=mixed), Path(tempfile.mkdtemp())
    model = hb.PoincareVAE(**SHORT, device=name).fit(frame)
    assert model.run_.device.type == name
    model.save(folder)
    loaded = hb.PoincareVAE.load(folder)
    assert loaded.run_.device.type == "cpu"
    here, there = (asked(one, frame, Path(tempfile.mkdtemp()), mixed=mixed) for one in (loaded, model))
    found = {what: apart(there[what], here[what]) for what in here}
    if mixed:
        found["residuals"] = apart(torch.as_tensor(model.run_.residuals), torch.as_tensor(loaded.run_.residuals))
    return found | ({} if mixed else _report(name))


def _report(name: str) -> dict[str, float]:
    """A report, whose models are trained on the device."""
    from horoball.report.analysis import make_report
    from horoball.training import TrainConfig

    table = ArrayTable(rows(mixed=False).to_numpy(), labels=np.repeat(["x", "y", "z"], 30))
    configs = (TrainConfig(max_epochs=1, device=where) for where in ("cpu", name))
    here, there = (make_report(table, config, model={"hidden": (8,)}, seeds=1).comparison() for config in configs)
    lines = zip(there, here, strict=True)
    return {"report": max(apart(a[side], b[side]) for a, b in lines for side in ("hyperbolic", "euclidean"))}


def commands(name: str) -> dict[str, float]:
    """Every command that computes, with both devices; files and printed numbers are compared."""
    folder = Path(tempfile.mkdtemp())
    data, run = folder / "rows.csv", folder / "run"
    rows(mixed=False).assign(group=np.repeat(["x", "y", "z"], 30)).to_csv(data, index=False)
    # Rows that bounds were taken from lie on them, and rounding decides on which side.
    new = folder / "new.csv"
    (1.01 * rows(mixed=False) + 0.013).to_csv(new, index=False)
    gaps, mixed = folder / "gaps.csv", folder / "mixed"
    rows(mixed=True).to_csv(gaps, index=False)
    fast = ("--quiet", "--hidden", 8, "--max-epochs", 2, "--device", "cpu")
    done("fit", data, "-o", run, "--label", "group", *fast)
    done("fit", gaps, "-o", mixed, *fast)
    steps: dict[str, tuple[Any, ...]] = {
        "embed": ("embed", run, data, "-o", "z.csv"),
        "evaluate": ("evaluate", run, data, "--samples", 5),
        "sample": ("sample", mixed, "-n", 20, "-o", "drawn.csv"),
        "impute": ("impute", mixed, gaps, "--samples", 20, "-o", "filled.csv"),
        "tree": ("tree", run, data, "--draws", 2, "--levels", 3, "-o", "groups.csv"),
        "tree, page": ("tree", run, data, "--draws", 0, "-o", "tree.html"),
        "place": ("place", run, new, "-o", "places.csv"),
        "view": ("view", run, data, "-o", "map.html"),
        "report": ("report", data, "--label", "group", "--seeds", 1, "--max-epochs", 1, "-o", "report.html"),
    }
    return {what: apart(*(_outcome(folder, where, words) for where in (name, "cpu"))) for what, words in steps.items()}


def _outcome(folder: Path, device: str, words: tuple[Any, ...]) -> Any:
    """The table that a command writes, or the length of its page, or what it prints."""
    *rest, last = words
    output = folder / str(last)
    result = done(*rest, *((output, "--force") if "-o" in words else (last,)), "--device", device)
    if "-o" not in words:
        return list(json.loads(result.stdout).values())
    if output.suffix != ".csv":
        return len(output.read_text()) // 1000
    frame = pd.read_csv(output)
    return frame.assign(day=pd.to_datetime(frame["day"])) if "day" in frame else frame
