"""A tree that is known is found again, and batches are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from horoball.cells import CellModel, fit, pseudotime, simulate
from horoball.cells.anndata import ball_of, coordinates, nearest


def path_lengths(cells: Any) -> np.ndarray:
    """Lengths of the ways along the tree between all cells, in edges."""
    names, depth = np.asarray(cells.obs["branch"]), np.asarray(cells.obs["depth"])
    letters = np.array([list(name.ljust(8, "-")) for name in names])
    shared = np.cumprod((letters[:, None] == letters[None]) & (letters[:, None] != "-"), -1).sum(-1)
    meet = np.minimum(shared - 1, np.minimum(depth[:, None], depth[None]))  # a cell on the way is where they meet
    same = np.minimum(depth[:, None], depth[None])
    meet = np.where(names[:, None] == names[None], same, meet)
    return depth[:, None] + depth[None] - 2 * meet


def same_batch(cells: Any, key: str = "poincare") -> float:
    """Part of the nearest cells that are of the same batch; with two equal batches chance is a half."""
    index, _ = nearest(coordinates(cells, key), ball_of(cells, key), 15)
    batch = np.asarray(cells.obs["batch"])
    return float((batch[index] == batch[:, None]).mean())


def test_distances_of_the_map_are_those_of_the_tree(fitted: tuple[Any, CellModel]) -> None:
    cells, _ = fitted
    z, pairs = coordinates(cells), np.triu_indices(cells.n_obs, 1)
    map_lengths = ball_of(cells).cdist(z, z).numpy()
    assert spearmanr(map_lengths[pairs], path_lengths(cells)[pairs]).statistic > 0.75


def test_a_batch_that_is_given_is_not_in_the_map(fitted: tuple[Any, CellModel]) -> None:
    cells, model = fitted
    assert same_batch(cells) < 0.6
    alone = simulate(depth=2, cells=280, genes=100)
    fit(alone, hidden=(64,), max_epochs=60, batch_size=64, learning_rate=5e-3)
    assert same_batch(alone) > 0.8
    assert model.batches == {"batch": ["a", "b"]}


def test_pseudotime_grows_with_depth(fitted: tuple[Any, CellModel]) -> None:
    cells = fitted[0].copy()
    pseudotime(cells, "0", groupby="branch")
    time = np.asarray(cells.obs["poincare_pseudotime"])
    assert spearmanr(time, cells.obs["depth"]).statistic > 0.65
    assert (time.min(), time.max()) == (0.0, 1.0)
    root = cells.uns["poincare"]["root"]
    assert cells.obs["branch"][root] == "0"
    pseudotime(cells, root)
    assert np.array_equal(time, cells.obs["poincare_pseudotime"])
    pseudotime(cells, int(np.argmin(time)))
    assert np.array_equal(time, cells.obs["poincare_pseudotime"])
    ball, z = ball_of(cells), coordinates(cells)
    distance = ball.dist(z[cells.obs_names.get_loc(root)].expand_as(z), z).numpy()
    np.testing.assert_allclose(time * distance.max(), distance, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"root": "nobody"}, "No cell is named 'nobody'. Give a name of obs_names, a number, or a group"),
        ({"root": 1000}, "There is no cell 1000: there are 280, counted from 0"),
        ({"root": "9", "groupby": "branch"}, r"no group '9' in obs\['branch'\]. Its groups are: '0', '00'"),
        (
            {"root": "0", "groupby": "kind"},
            "no column 'kind' to group cells by. Its columns are: 'branch', 'depth', 'batch'",
        ),
        ({"root": 0, "key": "umap"}, r"no embedding in obsm\['X_umap'\]. Fit a model first"),
    ],
)
def test_a_root_that_is_not_there_is_refused(
    fitted: tuple[Any, CellModel], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        pseudotime(fitted[0], **arguments)


def test_the_simulated_tree_is_what_it_says() -> None:
    cells = simulate(depth=2, branching=3, cells=130, genes=25, batches=3)
    assert cells.shape == (130, 25)
    assert len(cells.uns["tree"]) == 13
    assert set(cells.obs["branch"]) == set(cells.uns["tree"])
    counts = cells.layers["counts"]
    assert (counts.data == counts.data.round()).all()
    assert counts.sum(1).min() > 0
    again = simulate(depth=2, branching=3, cells=130, genes=25, batches=3)
    assert (again.X != cells.X).nnz == 0
    assert torch.equal(torch.from_numpy(path_lengths(cells)), torch.from_numpy(path_lengths(cells).T))
    with pytest.raises(ValueError, match="a cell for each of 15 nodes, got 3"):
        simulate(cells=3)
    with pytest.raises(ValueError, match="1 to 26 batches"):
        simulate(batches=0)


def test_a_node_has_no_more_children_than_digits() -> None:
    with pytest.raises(ValueError, match="branching from 1 to 10"):
        simulate(depth=1, branching=11, cells=60, genes=5)
    tree = simulate(depth=1, branching=10, cells=60, genes=5).uns["tree"]
    assert set(tree.values()) == {"0"}
