"""Ancestors and descendants of points, on trees whose answer is known."""

from __future__ import annotations

import math

import pytest
import torch

import horoball as hb
from horoball.neighbors import Index
from tests.neighbors.clouds import binary_tree

BALL = hb.PoincareBall(1.0)


def lineage(parents: list[int], i: int) -> list[int]:
    """Parent, grandparent, … of a node."""
    found = []
    while (i := parents[i]) >= 0:
        found.append(i)
    return found


@pytest.mark.parametrize("step", [1.2, 1.5, 2.5])
def test_a_tree_is_read_back(step: float) -> None:
    z, parents = binary_tree(5, step, BALL)
    index = Index(BALL).add(z)
    for i in range(len(z)):
        distances, ids = index.ancestors(i)
        assert ids.tolist() == lineage(parents, i)
        torch.testing.assert_close(distances, BALL.dist(z[i], z[ids]))
        offspring = {j for j in range(len(z)) if i in lineage(parents, j)}
        distances, ids = index.descendants(i)
        assert set(ids.tolist()) == offspring
        assert (distances.diff() >= 0).all()
    assert index.ancestors(len(z) - 1, 2)[1].tolist() == lineage(parents, len(z) - 1)[:2]


def test_a_root_may_lie_anywhere() -> None:
    z, parents = binary_tree(4, 1.5, BALL)
    moved = BALL.exp(torch.tensor([1.5, -0.8]).double(), z)
    index = Index(BALL).add(moved)
    for i in range(0, len(z), 5):
        assert index.ancestors(i, root=0)[1].tolist() == lineage(parents, i)
        assert set(index.descendants(i, root=0)[1].tolist()) == {j for j in range(len(z)) if i in lineage(parents, j)}
    assert len(index.descendants(0, root=0)[1]) == len(z) - 1
    assert len(index.ancestors(0, root=0)[1]) == 0


@pytest.mark.parametrize("c", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("angle", [20.0, 60.0, 90.0])
def test_above_and_below_are_one_relation(c: float, angle: float) -> None:
    torch.manual_seed(0)
    index = Index(hb.PoincareBall(c)).add(2 * torch.randn(60, 3))
    pairs = {(i, j) for i in range(60) for j in index.descendants(i, angle=angle)[1].tolist()}
    assert pairs == {(j, i) for i in range(60) for j in index.ancestors(i, angle=angle)[1].tolist()}
    radius = index.points.norm(dim=-1)
    assert pairs
    assert all(radius[above] < radius[below] for above, below in pairs)


def test_a_right_angle_is_the_side_of_a_hyperplane() -> None:
    # beyond the hyperplane through x upright on its ray: tanh(√c|y|) cos θ > tanh(√c|x|)
    torch.manual_seed(0)
    z = 1.5 * torch.randn(500, 4).double()
    radius = z.norm(dim=-1)
    i = int(radius.argsort()[10])
    cosine = (z @ z[i]) / (radius * radius[i])
    beyond = set((torch.tanh(radius) * cosine > torch.tanh(radius[i])).nonzero().flatten().tolist()) - {i}
    assert len(beyond) > 10
    assert set(Index(BALL).add(z).descendants(i)[1].tolist()) == beyond


def test_an_angle_is_measured_at_the_ancestor() -> None:
    x = torch.tensor([[1.3, 0.0]]).double()
    for degrees in (10.0, 44.0, 46.0, 89.0):
        v = 2 * torch.tensor([[math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]]).double()
        index = Index(BALL).add(torch.cat((x, BALL.exp(x, v))))
        assert len(index.descendants(0, angle=45.0)[1]) == (degrees < 45)
        assert len(index.descendants(0)[1]) == 1


def test_small_angles_far_out_are_told_apart() -> None:
    x = torch.tensor([[18.0, 0.0]]).double()
    index = Index(BALL).add(torch.cat((x, BALL.exp(x, torch.tensor([[1.0, 1.2], [1.2, 1.0]]).double()))))
    assert index.descendants(0, angle=45.0)[1].tolist() == [2]


def test_the_origin_is_above_everything_and_nothing_above_itself() -> None:
    index = Index(BALL).add(torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-2.0, 0.0], [0.0, 0.0]]))
    assert index.descendants(0)[1].tolist() == [1, 2, 3]
    assert index.ancestors(1)[1].tolist() == [0, 4]
    assert index.ancestors(0)[1].tolist() == []
    assert index.ancestors(3, 1)[1].tolist() == [0]
