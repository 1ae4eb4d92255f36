"""The order of centers: that of distances in the ball, and the same for one point as for many."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import horoball as hb
from horoball.neighbors.lift import Lift
from horoball.neighbors.partitions import BallOrder, Order, Partitions, features, train
from tests.neighbors.clouds import clusters, deep_tree, shell

BALL = hb.PoincareBall(1.0)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("radius", [1e-3, 1.0, 6.0, 20.0, 60.0])
def test_centers_are_in_the_order_of_their_distances(radius: float) -> None:
    centers, z = shell(50, 3, BALL, radius), shell(40, 3, BALL, radius)
    distances = torch.stack([BALL.dist(one, centers) for one in z])
    found = BallOrder(1.0, 1.0, centers, 1.0).first(z, 50)
    in_order = distances.gather(1, found)
    assert (in_order.diff(dim=1) >= -1e-6 * radius).all()  # directions are rounded to 2⁻²⁵


def test_centers_on_one_ray_are_in_order_however_far_out() -> None:
    centers = torch.zeros(4, 2).double()
    centers[:, 1] = torch.tensor([79.0, 70.0, 74.0, 1.0])
    order = BallOrder(1.0, 1.0, centers, 1.0)
    found = order.first(torch.tensor([[0.0, 78.0], [0.0, 71.0], [0.0, 73.5], [0.0, 0.0]]), 4)
    assert found[:, 0].tolist() == [0, 1, 2, 3]


def test_curvature_and_unit_scale_lengths_alone() -> None:
    centers, z = shell(30, 3, BALL, 8.0), shell(20, 3, BALL, 8.0)
    found = BallOrder(1.0, 1.0, centers, 1.1).first(z, 30)
    assert torch.equal(BallOrder(0.25, 3.0, 2 * centers, 1.1).first(6 * z, 30), found)


CLOUDS = {
    "near": lambda: torch.randn(1000, 20),
    "clusters": lambda: clusters(1000, 10, BALL, 15.0),
    "a deep tree": lambda: deep_tree(1000, 20, BALL).float(),
    "a deeper tree": lambda: deep_tree(1000, 20, BALL, 1.2),
    "one place": lambda: torch.ones(1000, 2),
}


def partitions_of(z: Tensor, *, curved: bool, width: float) -> Partitions:
    made = train(z, Lift.of(z, 1.0), 60, width=width, seed=0)
    return Partitions(made.centers, made.lift, width, curved, 1.0)


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("width", [1.0, 4.0])
@pytest.mark.parametrize("name", CLOUDS)
def test_a_point_meets_the_same_partitions_whatever_it_is_asked_with(name: str, width: float, curved: bool) -> None:
    """By products in float32 a point of the deep tree met another partition alone than with others, 3 times in 4."""
    z = CLOUDS[name]()
    partitions = partitions_of(z, curved=curved, width=width)
    assigned, own, best = partitions.assign(z), partitions.own(z, 5), partitions.best(z, 5)
    assert (own[:, 0] == assigned).all()
    for size in (1, 7, 300):
        blocks = z.split(size)[:100]
        rows = sum(map(len, blocks))
        assert np.array_equal(np.concatenate([partitions.assign(block) for block in blocks]), assigned[:rows])
        assert np.array_equal(np.concatenate([partitions.own(block, 5) for block in blocks]), own[:rows])
        assert np.array_equal(np.concatenate([partitions.best(block, 5) for block in blocks]), best[:rows])


def test_of_equal_centers_the_first_is_met_first() -> None:
    order = Order(lambda z: z.double(), torch.ones(40, 2).double())
    assert order.first(torch.zeros(9, 2), 1).tolist() == [[0]] * 9
    found = order.first(torch.zeros(9, 2), 7)
    assert (found[:, 0] == 0).all()
    assert all(len(set(row)) == 7 for row in found.tolist())


def test_features_keep_what_float64_has() -> None:
    z = deep_tree(10, 3, BALL)
    rows = features(z, Lift.of(z, 1.0), 1.0)
    assert rows.dtype == torch.float64
    assert torch.unique(rows, dim=0).shape == (10, 4)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_assigning_many_points_holds_the_scores_of_one_block() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    order, z = BallOrder(1.0, 1.0, torch.randn(4000, 2).double(), 1.0), torch.randn(20_000, 2).double()
    before = resident()
    found = order.first(z, 1)
    assert resident() - before < 2**27  # of twenty, 32 MB each
    assert len(found) == len(z)
