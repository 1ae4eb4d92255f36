"""Two likelihoods of directions, von Mises–Fisher and projected normal: `python -m experiments.directions`.

A model is fitted to four fifths of the vectors of a set. Both likelihoods see what it decodes at the mean of the
posterior, a vector h for each row, with one factor in front that is fitted to the rows of the fit:

    von Mises–Fisher   log p(x) = a h·x − log(I_ν(|a h|)/|a h|^ν) − (p/2) log 2π
    projected normal   log p(x) = −|a h|²/2 + log ∫₀^∞ r^(p−1) exp(−r²/2 + r a h·x) dr − (p/2) log 2π,

the density of y/|y| for a normal y of mean a h and covariance 1. What is compared is the mean of log p(x) of the rows
that were held out, in nats. The model was trained with the first, which favors it.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from experiments import runs
from experiments.vector_taxonomies import SETS, texts_of
from horoball import PoincareVAE
from horoball.distributions.sphere import VonMisesFisher

STUDY = "directions"
_ROWS = 5_000
_NODES, _WIDTH = 64, 10.0  # of the quadrature around the mode, in its standard deviations


def projected_normal(mean: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log density of directions x under the projected normal of some means, with respect to the sphere's area.

    Example:
        >>> float(projected_normal(np.zeros((1, 2)), np.array([[0.0, 1.0]]))[0].round(4))  # −log 2π
        -1.8379
    """
    p, t = mean.shape[-1], (mean * x).sum(-1)
    mode = (t + np.sqrt(t**2 + 4 * (p - 1))) / 2
    width = 1 / np.sqrt(1 + (p - 1) / mode**2)
    node, weight = np.polynomial.legendre.leggauss(_NODES)
    low = np.maximum(mode - _WIDTH * width, 0.0)
    high = mode + _WIDTH * width
    r = (high - low)[..., None] / 2 * (node + 1) + low[..., None]
    exponent = (p - 1) * np.log(r) - r**2 / 2 + r * t[..., None]
    top = exponent.max(-1)
    integral = (np.exp(exponent - top[..., None]) * weight).sum(-1) * (high - low) / 2
    return -np.square(mean).sum(-1) / 2 + top + np.log(integral) - p / 2 * math.log(2 * math.pi)


def von_mises_fisher(natural: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log density of directions x under the von Mises–Fisher distribution.

    Example:
        >>> float(von_mises_fisher(np.zeros((1, 2)), np.array([[0.0, 1.0]]))[0].round(4))
        -1.8379
    """
    return VonMisesFisher(torch.from_numpy(natural)).log_prob(torch.from_numpy(x)).numpy()


def run(table: str, seed: int) -> dict[str, Any]:
    """Mean log density of held-out rows by both."""
    rng = np.random.default_rng(seed)
    x = texts_of(table).x
    x = x[rng.permutation(len(x))[:_ROWS]].astype(np.float64)
    held, kept = x[: len(x) // 5], x[len(x) // 5 :]
    options: dict[str, Any] = {"posterior": "wrapped", "likelihood": "von_mises_fisher", "max_epochs": 40}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last epoch may still improve
        model = PoincareVAE(10, random_state=seed, **options).fit(kept)
    natural, new = (_decoded(model, rows) for rows in (kept, held))
    result: dict[str, Any] = {}
    for name, log_density in (("von Mises–Fisher", von_mises_fisher), ("projected normal", projected_normal)):
        # |h| is near p for the one and near √p for the other, so that the factor is found on a logarithmic scale.
        best = minimize_scalar(
            lambda log_a, f=log_density: -float(f(math.exp(log_a) * natural, kept).mean()),
            bounds=(-6.0, 2.0),
            method="bounded",
        )
        factor = math.exp(best.x)
        result |= {name: float(log_density(factor * new, held).mean()), f"{name}, factor": factor}
    return result


@torch.no_grad()
def _decoded(model: PoincareVAE, x: np.ndarray) -> np.ndarray:
    run = model.run_
    decoded: Any = [run.model.decode(run.model.posterior(block).loc) for block in run.blocks(run.read(x))]
    return torch.cat([each.natural for each in decoded]).double().numpy()


def table() -> str:
    """Both, and their difference, means over seeds."""
    lines = ["| texts | seeds | von Mises–Fisher | projected normal | difference |", "|---|--:|--:|--:|--:|"]
    for name in SETS:
        found = [each["result"] for each in runs.results(STUDY) if each["setting"]["table"] == name]
        both = [np.array([one[kind] for one in found]) for kind in ("von Mises–Fisher", "projected normal")]
        shown = [f"{values.mean():.2f}" for values in (*both, both[0] - both[1])] if found else ["not run"] * 3
        lines.append(f"| {name} | {len(found)} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    asked = runs.arguments(__doc__, seeds=3)
    settings: list[runs.Setting] = [{"table": name, "seed": seed} for seed in range(asked.seeds) for name in SETS]
    runs.carry_out(STUDY, settings, run, asked.workers)
    print(table())


if __name__ == "__main__":
    main()
