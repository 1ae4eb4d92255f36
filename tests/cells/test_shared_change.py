"""Lineages that are known are found again from expression, with support; where there is none, support is low."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from horoball.cells import CellModel, fit, simulate
from horoball.cells.tree import GroupMeans, join_by_shared_change, shared_change_tree
from horoball.trees import Tree, tree_from_json
from tests.cells.splatter import LINEAGE, splatter

BRIEF: dict[str, Any] = {"hidden": (8,), "max_epochs": 1, "n_neighbors": None, "verbose": False, "n_components": 5}


def true_clades(lineage: dict[str, str]) -> dict[str, frozenset[str]]:
    """Every type below the root with all that come from it."""
    below = {name: {name} for name in lineage}
    for name in reversed(list(lineage)):
        if lineage[name] != name:
            below[lineage[name]] |= below[name]
    return {name: frozenset(all_) for name, all_ in below.items() if len(all_) > 1 and lineage[name] != name}


def supports(tree: Tree) -> dict[frozenset[str], float]:
    assert tree.support is not None
    inner = range(tree.leaves, tree.nodes)
    return {frozenset(tree.names[i] for i in tree.members(node)): float(tree.support[node]) for node in inner}


def brief_tree(cells: Any, groupby: str, root: str, **options: Any) -> Tree:
    batch = {"batch_key": "batch"} if "batch" in cells.obs else {}
    return fit(cells, **BRIEF, **batch, **options).tree(cells, groupby, root=root, draws=50)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_lineage_of_splatter_is_found(seed: int) -> None:
    cells = splatter(1000, 300, 3, batch_scale=0.5, uneven=0.4, seed=seed).cells
    found = supports(brief_tree(cells, "type", "stem"))
    assert all(found.get(clade, 0.0) >= 0.7 for clade in true_clades(LINEAGE).values())


@pytest.mark.parametrize("seed", [0, 1])
def test_the_lineage_of_the_simulated_tree_is_found(seed: int) -> None:
    cells = simulate(depth=3, cells=1200, genes=300, batches=3, seed=seed)
    found = supports(brief_tree(cells, "branch", "0"))
    assert all(found.get(clade, 0.0) >= 0.7 for clade in true_clades(dict(cells.uns["tree"])).values())


def test_the_lineage_of_krumsiek11_is_found() -> None:
    import scanpy as sc

    with pytest.warns(UserWarning, match="Observation names are not unique"):
        cells = sc.datasets.krumsiek11()
    cells.obs_names_make_unique()
    found = supports(brief_tree(cells, "cell_type", "progenitor", likelihood="normal", layer=None))
    assert found.get(frozenset({"Ery", "Mk"}), 0.0) >= 0.7
    assert found.get(frozenset({"Mo", "Neu"}), 0.0) >= 0.7


def test_types_without_common_progenitors_have_little_support(caplog: pytest.LogCaptureFixture) -> None:
    star = {"stem": "stem"} | {f"T{i}": "stem" for i in range(6)}
    cells = splatter(1000, 300, 3, lineage=star, batch_scale=0.5, uneven=0.4, seed=0).cells
    with caplog.at_level(logging.WARNING, "horoball"):
        tree = brief_tree(cells, "type", "stem")
    found = supports(tree)
    others = frozenset(star) - {"stem"}
    assert found.pop(others) == found.pop(frozenset(star)) == 1.0
    assert max(found.values()) < 0.7
    assert "4 of 5 branches have a support below 0.7, or no more than chance gives" in caplog.text
    assert "tree.collapse(0.7) leaves them out" in caplog.text
    assert tree.collapse(0.7).nodes <= tree.leaves + 2  # at most the branch of all types but the stem is left


def test_the_tree_is_kept_and_read_back(fitted: tuple[Any, CellModel]) -> None:
    cells, model = fitted[0].copy(), fitted[1]
    found = model.tree(cells, "branch", root="0", draws=5)
    again = tree_from_json(str(cells.uns["poincare_tree"]["json"]))
    assert (again.method, again.source) == ("shared change", "expression")
    assert again.to_newick() == found.to_newick()
    assert model.tree(cells, "branch", root="0", source="latent", draws=0).source == "latent space"


def test_roots_and_sources_that_are_not_there_are_refused(fitted: tuple[Any, CellModel]) -> None:
    cells, model = fitted
    with pytest.raises(ValueError, match=r"no group '9' in obs\['branch'\]. Its groups are: '0', '00'"):
        model.tree(cells, "branch", root="9")
    with pytest.raises(ValueError, match="source of auto, expression, latent, got 'genes'"):
        model.tree(cells, "branch", root="0", source="genes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs a root"):
        model.tree(cells, "branch", source="expression")


def test_the_depth_of_a_branch_is_the_common_way() -> None:
    rng = np.random.default_rng(0)
    genes = {name: np.arange(10) == i for i, name in enumerate(LINEAGE)}  # a step changes a gene of its own by 1
    at = {"stem": np.zeros(10)}
    for name, parent in list(LINEAGE.items())[1:]:
        at[name] = at[parent] + genes[name]
    middle = {name: (at[LINEAGE[name]] + at[name]) / 2 for name in LINEAGE}  # cells lie on the way to their type
    profiles = np.stack([middle[name] for name in LINEAGE])
    tree = shared_change_tree(lambda _: profiles, np.arange(10), tuple(LINEAGE), "stem", draws=0, rng=rng)
    clades = {frozenset(tree.names[i] for i in tree.members(node)): node for node in range(10, tree.nodes)}
    depth = {name: tree.depth[clades[clade]] * 10 for name, clade in true_clades(LINEAGE).items()}
    assert depth == pytest.approx(
        {"A": 0.5, "B": 0.5, "B1": 1.5}
    )  # where progenitors, half way, leave those that go on
    assert dict(zip(tree.names, tree.depth * 10, strict=False))["B1x"] == pytest.approx(2.5)
    assert tree.depth[-1] == 0


def test_the_root_joins_last_even_where_changes_go_apart() -> None:
    profiles = np.array([[0.0, 0.0], [3.0, 0.1], [-3.0, 0.1], [3.0, 1.0]])
    joined = join_by_shared_change(profiles, 0)
    assert joined.merges.tolist() == [[1, 3], [2, 4], [0, 5]]
    assert (np.diff(joined.height) >= 0).all()


def test_what_all_genes_lose_to_a_few_strong_ones_is_not_shared() -> None:
    rng = np.random.default_rng(0)
    level = rng.uniform(0.5, 5.0, 200)  # of genes that do not change
    strong = np.eye(3)  # one for each group
    shares = np.array([1.0, 0.7, 0.7, 0.99])[:, None] * level
    profiles = np.log1p(np.concatenate([np.vstack([np.ones(3), 1 + 300 * strong]), shares], 1))
    response = -np.expm1(-np.concatenate([np.log1p(np.ones(3)), np.log1p(level)]))
    shared = []
    for given in (None, response):
        joined = join_by_shared_change(profiles, 0, response=given)
        assert joined.radius is not None
        shared.append(float(joined.radius.max() - joined.height[0]))  # where the first two join
    assert shared[1] < 0.05 * shared[0]


def test_batches_are_taken_out_of_means() -> None:
    rng = np.random.default_rng(0)
    group, batch = rng.integers(0, 3, 4000), rng.integers(0, 2, 4000)
    group[(batch == 1) & (group == 2)] = 1  # uneven: group 2 is in one batch alone
    truth = rng.normal(size=(3, 5))
    x = truth[group] + np.outer(batch, rng.normal(size=5) * 5) + rng.normal(size=(4000, 5))
    means = GroupMeans(x, group, np.eye(2)[batch])
    np.testing.assert_allclose(means() - means()[0], truth - truth[0], atol=0.2)
    assert means.unlinked(0) == []
    replicate = means(np.random.default_rng(1))
    assert not np.array_equal(replicate, means())
    np.testing.assert_allclose(replicate - replicate[0], truth - truth[0], atol=0.3)


def test_groups_that_share_no_batch_with_the_root_are_named(caplog: pytest.LogCaptureFixture) -> None:
    cells = simulate(depth=1, cells=90, genes=40)
    alone = cells[(cells.obs["branch"] == "01") == (cells.obs["batch"] == "b")].copy()
    model = fit(alone, batch_key="batch", **BRIEF)
    with caplog.at_level(logging.WARNING, "horoball"):
        model.tree(alone, "branch", root="0", draws=2)
    assert "01 and the root 0 share no batch" in caplog.text
