"""Layouts: what they keep, where they start, and that an encoder learns them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from horoball import PoincareBall, PoincareVAE
from horoball.tables import ArrayTable
from horoball.vae import PlaceTerm
from horoball.vae.layout import layout, surveyed

RNG = np.random.default_rng(0)
GROUP = np.repeat(np.arange(6), 30)
X = 5 * RNG.normal(size=(6, 8))[GROUP] + 0.5 * RNG.normal(size=(180, 8))


def laid_out(c: float, locality: float, *, seed: int = 0, start: torch.Tensor | None = None) -> torch.Tensor:
    found = surveyed(ArrayTable(X))
    shape = {"locality": locality, "seed": seed}
    return layout(PoincareBall(c), 2, found.graph, found.lengths, found.landmarks, start=start, **shape)  # type: ignore[arg-type]


def purity(z: torch.Tensor, c: float) -> float:
    d = PoincareBall(c).cdist(z, z) + 1e9 * torch.eye(len(z))
    return float((GROUP[d.topk(5, largest=False).indices] == GROUP[:, None]).mean())


@pytest.mark.parametrize("c", [0.0, 1.0])
def test_groups_and_their_distances_are_kept(c: float) -> None:
    z = laid_out(c, 0.5)
    assert purity(z, c) > 0.98
    lengths = surveyed(ArrayTable(X)).lengths
    distance = PoincareBall(c).cdist(z, z)
    ranks = [torch.from_numpy(np.argsort(np.argsort(v.flatten().numpy()))).double() for v in (lengths, distance)]
    assert float(torch.corrcoef(torch.stack(ranks))[0, 1]) > 0.8


def test_the_same_seed_gives_the_same_layout_and_no_global_generator_is_read() -> None:
    before = torch.get_rng_state()
    first, again, other = laid_out(1.0, 0.5), laid_out(1.0, 0.5), laid_out(1.0, 0.5, seed=1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_layout_that_starts_at_another_stays_near_it() -> None:
    first = laid_out(1.0, 0.5)
    turned = first @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    again = laid_out(1.0, 0.5, seed=3, start=turned)
    ball = PoincareBall(1.0)
    assert float(ball.dist(again, turned).median()) < float(ball.dist(again, first).median())


def test_rows_that_are_all_equal_have_a_finite_layout() -> None:
    found = surveyed(ArrayTable(np.zeros((60, 3))))
    z = layout(PoincareBall(1.0), 2, found.graph, found.lengths, found.landmarks, locality=0.5)
    assert bool(z.isfinite().all())


def test_the_place_term_has_a_gradient_where_a_row_is_in_its_place() -> None:
    loc = torch.tensor([[0.3, 0.1], [0.0, 0.0]], requires_grad=True)
    PlaceTerm()(PoincareBall(1.0), loc, loc.detach()).sum().backward()
    assert loc.grad is not None
    assert bool(loc.grad.isfinite().all())


def test_new_rows_fall_into_their_groups() -> None:
    model = PoincareVAE(hidden=(64,), max_epochs=300, random_state=0).fit(X[::2])
    ball = PoincareBall(1.0)
    seen, new = (ball.from_ball(torch.from_numpy(model.transform(x))) for x in (X[::2], X[1::2]))
    nearest = ball.cdist(new, seen).argmin(1).numpy()
    assert (GROUP[::2][nearest] == GROUP[1::2]).mean() > 0.95


def test_rows_that_are_seen_scaled_are_all_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horoball.vae.layout._SAMPLE", 100)
    model = PoincareVAE(hidden=(8,), max_epochs=1, random_state=0).fit(X)  # its columns are scaled
    assert len(X) > 100
    assert np.isfinite(model.transform(X)).all()
