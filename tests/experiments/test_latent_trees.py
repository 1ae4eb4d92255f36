"""Latent spaces that are to make trees: what the candidates ask for, a short run of each, and how they are counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from experiments import latent_candidates, latent_trees, runs
from experiments.known_trees import branching
from experiments.latent_candidates import BranchingPrior, Rows, Triplets, parting_depth, trained
from horoball import PoincareBall


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps, of a tree of seven nodes."""
    monkeypatch.setattr(latent_candidates, "STEPS", 6)
    monkeypatch.setattr(latent_trees, "KINDS", {"small": lambda seed: latent_trees._of(branching(seed, 2, 2, 10, 5))})


@pytest.mark.parametrize(("method", "spaces"), latent_trees.METHODS.items())
def test_a_short_run_judges_all_readings(method: str, spaces: tuple[str, ...]) -> None:
    for c in spaces:
        found = latent_trees.run("small", method, 1, **({"c": c, "d": 2} if c else {}))
        assert "gromov" in found["readings"]
        assert ("centers" in found["readings"]) == (method == "branching prior")
        for scores in found["readings"].values():
            assert 0 <= scores["recall"] <= 1
            assert 0 <= scores["triplets"] <= 1


@pytest.mark.parametrize("c", [1.0, 0.0])
def test_two_points_of_a_ray_part_at_the_nearer_one(c: float) -> None:
    z, y = torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 0.0]])
    assert float(parting_depth(PoincareBall(c), z, y)) == pytest.approx(2.0, rel=1e-5)
    assert float(parting_depth(PoincareBall(c), z, -y)) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("c", [1.0, 0.0])
def test_triplets_ask_for_the_pairs_that_part_last(c: float) -> None:
    z = torch.tensor([[2.0, 0.1], [2.0, -0.1], [-2.0, 0.1], [-2.0, -0.1]])
    pairs = np.kron(np.eye(2), np.ones((2, 2)))
    term = Triplets(pairs)
    asked, rows = torch.Generator().manual_seed(0), torch.arange(4)
    right = term(PoincareBall(c), z, rows, asked)
    assert float(right) < 0.01 < float(term(PoincareBall(c), z[[0, 2, 1, 3]], rows, asked))


def test_rows_part_where_their_nodes_of_the_prior_do() -> None:
    centers = torch.tensor([[4.0, 1.0], [4.0, -1.0], [-4.0, 1.0], [-4.0, -1.0]]).repeat_interleave(5, 0)
    z = centers + 0.01 * torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    apart = BranchingPrior(z, PoincareBall(0.0), levels=2).parting(z)[::5, ::5]
    assert apart[0, 0] < apart[0, 1] < apart[0, 2] == apart[1, 3]


@pytest.mark.parametrize("method", ["triplets", "branching prior"])
def test_gaps_leave_a_model_finite(method: str) -> None:
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    x[::3, 1] = torch.nan
    model, loss = trained(Rows(x, x.double().numpy()), method, 1.0, 2, 0)
    assert np.isfinite(loss)
    assert all(bool(weights.isfinite().all()) for weights in model.parameters())


def test_a_candidate_is_counted_where_it_is_ahead_by_two_standard_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    recalls = {("columns", ""): (0.5, 0.5), ("triplets", "1"): (0.8, 0.9), ("triplets", "0"): (0.7, 0.95)}
    for (method, c), values in recalls.items():
        for seed, recall in enumerate(values):
            setting: runs.Setting = {"kind": "small", "method": method, "seed": seed} | ({"c": c} if c else {})
            readings = {"average": {"recall": 0.1, "triplets": 0.5}, "gromov": {"recall": recall, "triplets": 0.75}}
            runs._add(latent_trees.STUDY, [{"setting": setting, "result": {"readings": readings}}])
    counted = latent_trees.wins("triplets, c = 1")
    assert counted == {
        "raw linkage": (1, 1),
        "its flat twin": (0, 1),
        "both": (0, 1),
        "both and related columns": (0, 0),
    }
    lines = latent_trees.table().splitlines()
    assert lines[2].startswith("| small | 2 | 0.500 / 0.750 | not run | not run | not run | not run | 0.850 / 0.750 |")
    assert lines[3].startswith("| **ahead of raw linkage, kinds** |")
