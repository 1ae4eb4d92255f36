from __future__ import annotations

import pytest
import torch

from horoball.datasets import branching_diffusion


@pytest.mark.parametrize(("depth", "branching", "copies"), [(6, 2, 5), (3, 3, 2), (4, 1, 3), (0, 2, 4), (0, 1, 1)])
def test_shapes_follow_from_the_tree(depth: int, branching: int, copies: int) -> None:
    tree = branching_diffusion(depth, branching, features=7, copies=copies)
    nodes = sum(branching**level for level in range(depth + 1))
    assert tree.x.shape == (nodes * copies, 7)
    assert tree.parent.shape == tree.depth.shape == (nodes,)
    assert torch.equal(tree.node, torch.arange(nodes).repeat_interleave(copies))


@pytest.mark.parametrize(("depth", "branching"), [(6, 2), (3, 3), (4, 1)])
def test_every_node_above_the_leaves_has_its_children_one_level_down(depth: int, branching: int) -> None:
    tree = branching_diffusion(depth, branching, features=2)
    assert tree.parent[0] == tree.depth[0] == 0
    assert torch.equal(tree.depth[1:], tree.depth[tree.parent[1:]] + 1)
    children = torch.bincount(tree.parent[1:], minlength=len(tree.parent))
    assert torch.equal(children, torch.where(tree.depth < depth, branching, 0))
    assert int(tree.depth.max()) == depth


def test_features_are_standardized() -> None:
    x = branching_diffusion().x.double()
    assert torch.allclose(x.mean(0), torch.zeros(50, dtype=torch.float64), atol=1e-5)
    assert torch.allclose(x.std(0, correction=0), torch.ones(50, dtype=torch.float64), atol=1e-5)


def test_seeds_give_their_own_rows_and_the_scale_does_not_matter() -> None:
    x = branching_diffusion(seed=1).x
    assert torch.equal(x, branching_diffusion(seed=1).x)
    assert not torch.equal(x, branching_diffusion(seed=2).x)
    assert torch.allclose(x, branching_diffusion(seed=1, scale=10.0).x, atol=1e-4)


def test_global_random_numbers_are_left_alone() -> None:
    before = torch.random.get_rng_state()
    branching_diffusion(depth=1)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_child_varies_around_its_parent_and_copies_around_their_node() -> None:
    """Differences have variance σ² + 2σ²/5 between the first copies of parent and child, 2σ²/5 between copies."""
    tree = branching_diffusion(depth=7, features=400)
    first = tree.x.unflatten(0, (-1, 5))
    steps = (first[1:, 0] - first[tree.parent[1:], 0]).square().mean()
    noise = (first[:, 1] - first[:, 0]).square().mean()
    assert float(steps / noise) == pytest.approx(1.4 / 0.4, rel=0.05)


@pytest.mark.parametrize("bad", [{"depth": -1}, {"branching": 0}, {"features": 0}, {"copies": 0}, {"scale": 0.0}])
def test_what_is_no_tree_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="branching_diffusion needs"):
        branching_diffusion(**bad)
