"""Columns of several kinds, each with its likelihood, next to real numbers after one-hot: `python -m benchmarks.mixed`.

Half of the rows are held out. *Log-likelihood* is that of held-out rows in nats a row, by models of five dimensions
without the distance term, in the units of the table: densities of real and positive columns, probabilities of all
others. After one-hot all columns are normal; a category then has the probability that its normal density has among
those of all categories, a truth that among both, and a whole number that of the interval of length 1 around it. *5-NN*
is the share of rows whose label is that of most of their 5 nearest others on a map of two dimensions: of both models
with default settings, and of UMAP with its defaults on standardized one-hot columns whose gaps are filled with means.

Tables are those that are there: zoo of HOROBALL_DATA, anes96 of statsmodels, cars of vega_datasets and penguins of
palmerpenguins.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.distributions import Normal

from benchmarks.imputation import nearest_agree, neighbor_accuracy
from benchmarks.table import markdown
from horoball import PoincareVAE
from horoball.geometry.random import generator_for
from horoball.vae.residuals import NormalColumns

SAMPLES = 200  # importance samples
DENSITY: dict[str, Any] = {"n_components": 5, "posterior": "wrapped", "distance_weight": 0.0, "batch_size": 64}
WHOLE, CONTINUOUS = ("count", "ordinal", "circular"), ("real", "positive")


def tables() -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """Names, columns and labels."""
    zoo = Path(os.environ.get("HOROBALL_DATA", "")) / "trees/zoo.csv"
    if zoo.exists():
        yield "zoo", *_parted(pd.read_csv(zoo), -1)
    if find_spec("statsmodels"):
        from statsmodels.datasets import anes96

        yield "anes96", *_parted(anes96.load_pandas().data.drop(columns=["logpopul"]), "vote")
    if find_spec("vega_datasets"):
        from vega_datasets import local_data

        yield "cars", *_parted(local_data.cars().drop(columns=["Name"]).assign(Year=lambda x: x.Year.dt.year), "Origin")
    if find_spec("palmerpenguins"):
        from palmerpenguins import load_penguins

        yield "penguins", *_parted(load_penguins(), "species")


def _parted(frame: pd.DataFrame, label: Any) -> tuple[pd.DataFrame, np.ndarray]:
    label = frame.columns[label] if isinstance(label, int) else label
    return frame.drop(columns=label), frame[label].astype(str).to_numpy()


class OneHot:
    """All columns as real numbers: categories one-hot, truths 0 and 1, the others as they are."""

    def __init__(self, frame: pd.DataFrame, kinds: dict[str, str]) -> None:
        self.kinds = {name: kind for name, kind in kinds.items() if kind != "skip"}
        named = [name for name, kind in self.kinds.items() if kind in ("category", "binary")]
        self.levels = {name: sorted(frame[name].dropna().unique().tolist()) for name in named}
        sizes = [len(self.levels[name]) if kind == "category" else 1 for name, kind in self.kinds.items()]
        self.places = dict(zip(self.kinds, np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]), strict=True))

    def encode(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The numbers; all those of a missing value are missing."""
        columns = np.full((len(frame), sum(map(len, self.places.values()))), np.nan)
        for name, kind in self.kinds.items():
            there = frame[name].notna().to_numpy()
            values = frame[name][there]
            if kind == "category":
                columns[np.ix_(there, self.places[name])] = [
                    [v == level for level in self.levels[name]] for v in values
                ]
            else:
                numbers = values == self.levels[name][-1] if kind == "binary" else values
                columns[there, self.places[name][0]] = numbers.astype(float)
        return pd.DataFrame(columns, columns=[f"c{i}" for i in range(columns.shape[1])])

    def log_likelihood(self, x: Tensor, normal: Normal) -> Tensor:
        """log p(x | z) of rows, as it is said above; x and the normal distributions are in the units of the table."""
        total = torch.zeros(())
        for name, kind in self.kinds.items():
            place = torch.from_numpy(self.places[name])
            value, mine = x[:, place], Normal(normal.loc[..., place], normal.scale[..., place])
            there = ~value[:, 0].isnan()
            value = torch.where(there.unsqueeze(-1), value, 0.0)
            if kind == "category":
                levels = torch.eye(len(place), dtype=x.dtype)[:, None, None]
                scores = mine.log_prob(levels).sum(-1).log_softmax(0)  # (levels, samples, rows)
                found = (scores * value.T.unsqueeze(1)).sum(0)
            elif kind == "binary":
                both = torch.stack([mine.log_prob(torch.tensor(truth)).squeeze(-1) for truth in (0.0, 1.0)])
                no, yes = both.log_softmax(0)
                found = torch.where(value[:, 0] > 0.5, yes, no)
            elif kind in WHOLE:
                found = (mine.cdf(value + 0.5) - mine.cdf(value - 0.5)).clamp_min(1e-12).log().squeeze(-1)
            else:
                found = mine.log_prob(value).squeeze(-1)
            total = total + torch.where(there, found, 0.0)
        return total


@torch.no_grad()
def one_hot_score(model: PoincareVAE, coding: OneHot, frame: pd.DataFrame) -> float:
    """Log-likelihood of rows under the model of one-hot columns, by importance sampling."""
    run, x = model.run_, coding.encode(frame)
    (block,) = run.blocks(run.read(x), len(x))
    q, p = run.model.posterior(block), run.model.prior()
    z, log_q = q.rsample_and_log_prob((SAMPLES,), generator_for(0))
    decoded: Any = run.model.decode(z)
    likelihood: Any = run.model.likelihood
    assert NormalColumns(likelihood).features == list(range(x.shape[1]))
    base, scaler = decoded.parts[0][1].base_dist, run.scaler
    assert scaler is not None
    std, mean = scaler.std.double(), scaler.mean.double()
    spread = base.scale.reshape(-1, x.shape[1])[0].double()
    normal = Normal(base.loc.double() * std + mean, spread * std)
    log_p = coding.log_likelihood(torch.from_numpy(x.to_numpy()), normal)
    return float((log_p + p.log_prob(z) - log_q).logsumexp(0).mean() - np.log(SAMPLES))


def typed_score(model: PoincareVAE, frame: pd.DataFrame) -> float:
    """Log-likelihood of rows under the model of typed columns, in the units of the table."""
    run = model.run_
    assert run.scaler is not None
    table = run.read(frame)
    there = (~torch.cat(list(table.blocks())).isnan()).double()
    units = (there * run.scaler.std.double().log()).sum(1)  # 0 for columns that are not scaled
    return float((torch.from_numpy(model.score_samples(frame, SAMPLES)) - units).mean())


def umap_accuracy(x: np.ndarray, y: np.ndarray) -> float:
    """5-NN of UMAP's map."""
    import umap

    scaled = np.nan_to_num((x - np.nanmean(x, 0)) / np.maximum(np.nanstd(x, 0), 1e-9))
    z = umap.UMAP(random_state=0).fit_transform(scaled)
    return nearest_agree(np.linalg.norm(z[:, None] - z[None], axis=-1), y)


def measured(frame: pd.DataFrame, y: np.ndarray, seed: int = 0) -> dict[str, float]:
    """All figures of one table."""
    order = np.random.default_rng(seed).permutation(len(frame))
    train, test = (frame.iloc[rows].reset_index(drop=True) for rows in np.array_split(order, 2))
    typed = PoincareVAE(random_state=seed, **DENSITY).fit(train)
    kinds = {name: kind for name, (kind, _) in typed.columns_.items()}
    print(kinds, file=sys.stderr)
    coding = OneHot(frame, kinds)
    found = {"typed, nats": typed_score(typed, test)}
    real = dict.fromkeys(coding.encode(train).columns, "real")
    found["one-hot, nats"] = one_hot_score(
        PoincareVAE(random_state=seed, columns=real, **DENSITY).fit(coding.encode(train)), coding, test
    )
    found["typed, 5-NN"] = neighbor_accuracy(PoincareVAE(random_state=seed, columns=kinds).fit(frame), frame, y)
    whole = coding.encode(frame)
    found["one-hot, 5-NN"] = neighbor_accuracy(PoincareVAE(random_state=seed, columns=real).fit(whole), whole, y)
    if find_spec("umap"):
        found["UMAP, 5-NN"] = umap_accuracy(whole.to_numpy(), y)
    return found


def main(arguments: list[str]) -> int:
    """Print a table, and keep its lines in a folder if one is given."""
    warnings.filterwarnings("ignore", "Training ended at its last epoch|n_jobs value|.*k >= N for N")
    lines, header = [], list[str]()
    for name, frame, y in tables():
        found = measured(frame, y)
        header = list(found)
        lines.append([name, f"{len(frame)} × {frame.shape[1]}", *(f"{value:.3f}" for value in found.values())])
        print(lines[-1], file=sys.stderr, flush=True)
        if arguments:
            with (Path(arguments[0]) / "mixed.jsonl").open("a") as file:
                file.write(json.dumps({"benchmark": "mixed", "table": name, **found}) + "\n")
    print(markdown(["table", "size", *header], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
