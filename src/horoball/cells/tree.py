"""The tree of cell types: from expression, seen from a root group, or from the latent space; scanpy's keys of it.

Note [Groups and batches]: a group that is mostly in one batch would carry that batch's genes into the tree. The
expression of a cell is therefore modeled as that of its group plus that of its covariates, by least squares over all
cells, and the groups' terms are the means. Groups are compared within batches so, as far as they share any. A group
that shares no batch with the others, not even through other groups, cannot be told from its batch.

Note [Shared change]: along a lineage, every step changes some genes, and a later step mostly others. Let Δ_a be the
change of group a's mean expression since the root group. Two groups have in common what changed before their ways
parted. In a gene that both raise or both lower, that is the smaller of the two changes, min(|Δ_a|, |Δ_b|): Gromov's
product on the line, seen from the root. In a gene that goes up in one and down in the other it counts against them, so
that changes which have nothing to do with each other cancel over the genes:

    s(a, b) = mean over genes of sign(Δ_a Δ_b) · min(|Δ_a|, |Δ_b|)

Average linkage of s is the tree, and s(a, a) the depth of a leaf. Distances would do worse with groups on their way:
the cells of a progenitor are, on average, half way to where its descendants part, nearer to the root than to them. Here
it shares half of their common way with each of them, and nothing with other branches. The inner product ⟨Δ_a, Δ_b⟩, the
covariance of a Brownian motion along a tree, finds the same branches with less support where few genes change by much:
0.70 for the weaker branch of krumsiek11, against 0.78. Noise in the mean of the root adds about the same to all pairs,
and noise in the means of two other groups adds nothing on average.

Note [Composition]: counts are shares of a library. Where a few strong genes rise, all others fall, and two groups with
strong genes of their own would share the fall of all others. A fall by a factor 1 − k moves log(1 + m) by −k·m/(1 + m).
This is taken out of every change, with the k that leaves the smallest sum of absolute changes, a weighted median: most
genes do not change. Of types that share no progenitor, one branch in five had a support of 0.7 without it, and one in
thirty with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import torch
from scipy.cluster.hierarchy import dendrogram

from horoball.cells.anndata import check_cells
from horoball.cells.expression import Group, compared
from horoball.cells.groups import check_group, groups_of
from horoball.trees.chance import KINDS, Chance, FlatTables, Judged
from horoball.trees.linkage import Joined, average_linkage
from horoball.trees.record import tree_to_json
from horoball.trees.source import Leaves
from horoball.trees.support import FLAT_TABLES, Branches
from horoball.trees.tree import SHARED_CHANGE, Tree
from horoball.vae.encoder import network_input, one_hot
from horoball.vae.run import Run
from horoball.vae.tree import table_tree

__all__ = [
    "GroupMeans",
    "TreeSource",
    "branch_markers",
    "branch_name",
    "cell_tree",
    "join_by_shared_change",
    "shared_change_tree",
    "weak_branches",
    "write_tree",
]

_CLEAR = 1e-8  # singular values below this share of the largest are none


class GroupMeans:
    """Means of groups, and of replicates in which cells are drawn again within their groups.

    Args:
        x: Expression, shape (cells, genes).
        leaf: The group of each cell.
        covariates: What is taken out, one-hot categories and numbers, shape (cells, columns); None for nothing.

    Example:
        >>> x = np.array([[1.0], [2.0], [5.0], [6.0], [7.0]])
        >>> batch = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> means = GroupMeans(x, np.array([0, 0, 1, 1, 1]), batch)(None)
        >>> float((means[1] - means[0]).round(3)[0])
        4.286
    """

    def __init__(self, x: np.ndarray, leaf: np.ndarray, covariates: np.ndarray | None = None) -> None:
        self.x, self.leaf, self.groups = x, leaf, int(leaf.max()) + 1
        self.response: np.ndarray | None = None  # of genes to a change of all shares, see `shared_change`
        given = np.zeros((len(x), 0)) if covariates is None else covariates
        self.design = np.concatenate([np.eye(self.groups)[leaf], given - given.mean(0)], 1)

    def __call__(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Means of the groups, shape (groups, genes); of a replicate, with a generator."""
        times = np.ones(len(self.x)) if rng is None else self._drawn(rng)
        weighted = self.design * times[:, None]
        # The pseudoinverse leaves out what covariates and groups have in common: a constant, or a batch of its own.
        inverse = np.linalg.pinv(weighted.T @ self.design, rcond=_CLEAR, hermitian=True)
        return np.asarray((inverse @ (weighted.T @ self.x))[: self.groups])

    def unlinked(self, root: int) -> list[int]:
        """Groups whose difference from the root cannot be told from a difference of batches."""
        values, axes = np.linalg.eigh(self.design.T @ self.design)
        free = axes[: self.groups, values < _CLEAR * values.max()]  # can be added to the groups' terms, fit unchanged
        return np.flatnonzero(np.abs(free - free[root]).max(1, initial=0.0) > _CLEAR**0.5).tolist()

    def _drawn(self, rng: np.random.Generator) -> np.ndarray:
        """How often each cell is drawn, with replacement within its group."""
        order = np.argsort(self.leaf, kind="stable")
        first, count = np.unique(self.leaf[order], return_index=True, return_counts=True)[1:]
        drawn = np.repeat(first, count) + (rng.random(len(order)) * np.repeat(count, count)).astype(np.int64)
        return np.bincount(order[drawn], minlength=len(order)).astype(np.float64)

    @classmethod
    def of_cells(cls, run: Run, cells: Any, leaves: Leaves) -> GroupMeans:
        """Means of the groups of some cells, as a model sees their expression and batches.

        Example:
            >>> from horoball.cells import fit, simulate
            >>> cells = simulate(depth=2, cells=60, genes=30)
            >>> run = fit(cells, batch_key="batch", max_epochs=1, hidden=(8,)).run
            >>> leaves = Leaves.of_labels(cells.obs["branch"], np.random.default_rng(0))
            >>> GroupMeans.of_cells(run, cells, leaves)().shape
            (7, 30)
        """
        table, config = run.read(cells), run.record.model
        expression, given, first = [], [], 0
        for block in run.blocks(table):
            inside = leaves.rows[(leaves.rows >= first) & (leaves.rows < first + len(block))] - first
            rows, first = block[torch.from_numpy(inside).to(block.device)].cpu(), first + len(block)
            genes = rows[:, : table.features]
            seen = network_input(genes, log=config.log_input, library=config.library, unit=config.unit_input)
            expression.append(seen.double().numpy())
            if run.record.covariates:
                given.append(one_hot(rows[:, table.features :], run.model.covariates).double())
        x = np.concatenate(expression)
        found = cls(x, leaves.leaf[leaves.rows], torch.cat(given).numpy() if given else None)
        if config.library and config.log_input:
            found.response = -np.expm1(-x).mean(0)  # m/(1 + m), of x = log(1 + m)
        return found


_FLAT_DRAWS = 20  # replicates of each flat table

Means = Callable[[np.random.Generator | None], np.ndarray]  # of groups, (groups, genes); None for the cells as they are


def shared_change_tree(
    means: Means,
    leaf: np.ndarray,
    names: tuple[str, ...],
    root: str,
    *,
    response: np.ndarray | None = None,
    draws: int,
    rng: np.random.Generator,
) -> Tree:
    """The tree of groups by the change that they share since the root group, with its support.

    A replicate has cells drawn again within their groups, by `means`, and genes drawn again with replacement: a branch
    that rests on few cells or few genes does not come back.

    Args:
        means: Mean expression of the groups; with a generator, that of a replicate.
        leaf: The group of every cell.
        names: Names of the groups.
        root: Name of the group that all others come from.
        response: How each gene responds to a change of all shares, see Note [Composition]; None for no shares.
        draws: Replicates for the support; 0 for none.
        rng: Draws the replicates.

    Example:
        >>> profiles = np.array([[0, 0, 0, 0], [2, 0, 0, 0], [4, 2, 0, 0], [4, 0, 2, 0], [0, 0, 0, -6]]) / 1.0
        >>> names, rng = ("stem", "A", "A1", "A2", "B"), np.random.default_rng(0)
        >>> tree = shared_change_tree(lambda rng: profiles, np.arange(5), names, "stem", draws=0, rng=rng)
        >>> tree.to_newick(digits=2)
        '(stem:0,(B:1.5,(A:0,(A1:0.5,A2:0.5):0.5):0.5):0);'
    """
    at = names.index(root)
    profiles = means(None)
    genes = profiles.shape[1]
    joined = join_by_shared_change(profiles, at, response=response)
    size = np.bincount(leaf, minlength=len(names))
    about = {"size": size, "leaf": leaf, "method": SHARED_CHANGE, "source": "expression"}
    found = Tree.from_merges(joined.merges, joined.height, names=names, radius=joined.radius, **about)
    if not draws or len(names) < 3:  # two groups have no branch that could have support
        return found

    def again(of: np.ndarray) -> tuple[np.ndarray, None]:
        times = np.bincount(rng.integers(0, genes, genes), minlength=genes)
        return join_by_shared_change(of, at, times, response).merges, None

    branches = Branches(joined.merges)
    judged = Judged(branches.size, branches.support(again(means(rng)) for _ in range(draws)), joined.length)
    # Flat tables: groups that change as much since the root, each on its own. They are drawn again as the cells are.
    noise = [means(rng) - profiles for _ in range(min(draws, _FLAT_DRAWS))]
    others = np.delete(np.arange(len(names)), at)
    flat = FlatTables(profiles[others], rng, correlated=False)
    tables: dict[str, list[Judged]] = {kind: [] for kind in KINDS}
    for kind in KINDS:
        for _ in range(FLAT_TABLES):
            drawn = profiles.copy()
            drawn[others] = flat.draw(kind, len(others), rng)
            one = join_by_shared_change(drawn, at, response=response)
            branches = Branches(one.merges)
            back = branches.support(again(drawn + each) for each in noise)
            tables[kind].append(Judged(branches.size, back, one.length))
    return found.with_support(judged, Chance(len(names), tables, 2), profiles)


def join_by_shared_change(
    profiles: np.ndarray, root: int, times: np.ndarray | None = None, response: np.ndarray | None = None
) -> Joined:
    """Average linkage of the changes that groups share since the root, which joins last; see Note [Shared change].

    Args:
        profiles: Mean expression of the groups, shape (groups, genes).
        root: Number of the root group.
        times: How often each gene counts; once if not given.
        response: See `shared_change_tree`.

    Returns:
        Merges, with heights that are the largest depth less that of a merge. Depths are mean changes of a gene.

    Example:
        >>> join_by_shared_change(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 1.0], [-1.0, 0.0]]), 0).merges.tolist()
        [[1, 2], [3, 4], [0, 5]]
    """
    change = profiles - profiles[root]
    counted = np.ones(change.shape[1]) if times is None else times
    if response is not None:
        change = change - np.outer([_common(each, response, counted) for each in change], response)
    shared = _shared(change, counted) / change.shape[1]
    depth = np.diagonal(shared).copy()
    apart = depth.max() - shared
    last = float(apart.max()) + 1.0  # above all averages, so that the root joins last
    apart[root], apart[:, root] = last, last
    merges, height = average_linkage(apart.astype(np.float32))
    # Changes that go apart share nothing: their ways part at the root.
    height = np.minimum(height, depth.max())
    return Joined(merges, height, depth)


def _shared(change: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Sums over genes of what pairs of groups share, shape (groups, groups)."""
    size, sign = np.abs(change), np.sign(change) * times
    return np.stack([(np.minimum(size, size[a]) * sign) @ np.sign(change[a]) for a in range(len(change))])


def _common(change: np.ndarray, response: np.ndarray, times: np.ndarray) -> float:
    """The k that makes the sum of |change − k·response| smallest; see Note [Composition]."""
    weight = response * times
    genes = np.flatnonzero(weight > 0)
    if not len(genes):
        return 0.0
    ratio = change[genes] / response[genes]
    order = np.argsort(ratio, kind="stable")
    total = np.cumsum(weight[genes][order])
    return float(ratio[order][np.searchsorted(total, total[-1] / 2)])


_SURE = 0.5  # support from which on a branch is one that cells are said to be of


def write_tree(cells: Any, tree: Tree, groupby: str, *, key: str = "poincare") -> None:
    """Write a tree of groups to AnnData, so that scanpy's plots draw it.

    `uns["dendrogram_<groupby>"]` is where `scanpy.pl.dendrogram`, `dotplot` and `matrixplot` look. The tree itself,
    with its support, goes to `uns["<key>_tree"]` as JSON and Newick. `obs["<key>_branch"]` is the smallest branch above
    each cell's group that has a support of at least 0.5, called by the groups below it.

    Args:
        cells: AnnData.
        tree: A tree whose leaves are the groups.
        groupby: The column of obs that holds the groups.
        key: Which embedding the tree belongs to.

    Example:
        >>> from horoball.cells import simulate
        >>> from horoball.trees import tree
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> write_tree(cells, tree(cells.layers["counts"].toarray(), labels=cells.obs["branch"], draws=0), "branch")
        >>> sorted(cells.uns)[0], "newick" in cells.uns["poincare_tree"]
        ('dendrogram_branch', True)
    """
    import pandas as pd

    labels = _leaves_of(cells, tree, groupby)
    ordered = cells.obs[groupby].astype("category").cat.categories.astype(str)
    groups = [name for name in ordered if name in tree.names]  # without categories that no cell is of
    linkage = tree.to_linkage()
    # scanpy numbers the leaves as obs numbers its categories.
    number = np.array([groups.index(name) for name in tree.names])
    leaf = linkage[:, :2] < tree.leaves
    linkage[:, :2][leaf] = number[linkage[:, :2][leaf].astype(np.int64)]
    drawn = dendrogram(linkage, labels=groups, no_plot=True)
    cells.uns[f"dendrogram_{groupby}"] = {
        "linkage": linkage,
        "groupby": [groupby],
        "use_rep": f"X_{key}",
        "cor_method": "none",
        "linkage_method": tree.method,
        "categories_ordered": drawn["ivl"],
        "categories_idx_ordered": drawn["leaves"],
        "dendrogram_info": drawn,
        "correlation_matrix": np.eye(len(groups)),
    }
    sure = tree if tree.support is None else tree.collapse(_SURE)
    above = {name: branch_name(sure, int(up)) for name, up in zip(sure.names, sure.parent, strict=False)}
    cells.obs[f"{key}_branch"] = pd.Series(labels, cells.obs_names).map(above).astype("category")
    cells.uns[f"{key}_tree"] = {"newick": tree.to_newick(), "json": tree_to_json(tree), "groupby": groupby}


def branch_name(tree: Tree, node: int, most: int = 4) -> str:
    """A leaf's name, or the names of the leaves below a branch.

    Example:
        >>> branch_name(Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], names=["cat", "dog", "oak"]), 3)
        'cat | dog'
    """
    if node < tree.leaves:
        return tree.names[node]
    names = sorted(tree.names[leaf] for leaf in tree.members(node))
    return " | ".join(names[:most]) + (f" | … ({len(names)})" if len(names) > most else "")


def branch_markers(
    run: Run,
    cells: Any,
    tree: Tree,
    groupby: str,
    *,
    support: float = 0.5,
    most: int = 5,
    key: str = "poincare",
    **options: Any,
) -> Any:
    """Genes that are higher in a branch or group than in its siblings; see `CellModel.markers`.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> model = fit(cells, max_epochs=1, hidden=(8,))
        >>> tree = model.tree(cells, "branch", draws=2)
        >>> list(branch_markers(model.run, cells, tree, "branch", draws=20).columns[:3])
        ['branch', 'support', 'gene']
    """
    import pandas as pd

    groups = _leaves_of(cells, tree, groupby)
    sure = tree if tree.support is None else tree.collapse(support)
    whole = Group.all_of(run, cells, groups)
    parts = []
    for node in range(sure.nodes - 2, -1, -1):  # without the root, which has no siblings
        here = _members(sure, node, groups)
        beside = _members(sure, int(sure.parent[node]), groups) & ~here
        table = compared(run, whole.some(here), whole.some(beside), **options)
        called = next(name for name in table.columns if name.startswith("is_de_fdr"))
        best = table[(table["lfc_mean"] > 0) & table[called]].head(most)
        held = np.nan if sure.support is None or node < sure.leaves else float(sure.support[node])
        rows = {"branch": branch_name(sure, node), "support": held, "gene": best.index}
        parts.append(pd.DataFrame(rows | {name: best[name].to_numpy() for name in ("lfc_mean", "proba_de")}))
    found = pd.concat(parts, ignore_index=True)
    cells.uns[f"{key}_markers"] = found
    return found


def _leaves_of(cells: Any, tree: Tree, groupby: str) -> np.ndarray:
    """The group of each cell, which are the leaves of a tree."""
    groups = groups_of(cells, groupby, whole=True)
    if set(groups) != set(tree.names):
        raise ValueError(f"The leaves of the tree are not the groups in obs[{groupby!r}]. Make it with this groupby.")
    return groups


def _members(tree: Tree, node: int, groups: np.ndarray) -> np.ndarray:
    """Which cells are of the groups below a node."""
    return np.isin(groups, [tree.names[leaf] for leaf in tree.members(node)])


TreeSource = Literal["auto", "expression", "latent"]

_WEAK = 0.7  # support below which a branch is named in a warning
_SHOWN = 5  # of the weak branches
_log = logging.getLogger("horoball")


def cell_tree(
    run: Run, cells: Any, groupby: str, *, root: str | None, source: str = "auto", draws: int, key: str, seed: int
) -> Tree:
    """The tree of groups of cells, written to AnnData; see `CellModel.tree`.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, max_epochs=1, hidden=(8,)).run
        >>> cell_tree(run, cells, "branch", root="0", draws=2, key="poincare", seed=0).source
        'expression'
    """
    check_cells(cells)
    labels = groups_of(cells, groupby, whole=True)
    if source not in get_args(TreeSource):
        raise ValueError(f"Expected a source of {', '.join(get_args(TreeSource))}, got {source!r}.")
    if source == "expression" and root is None:
        raise ValueError('source="expression" needs a root: name the group that all others come from.')
    if root is not None:
        check_group(labels, root, groupby)
    if root is None or source == "latent":
        at = "center" if root is None else root
        found = table_tree(run, run.read(cells), labels=labels, root=at, draws=draws, seed=seed)
    else:
        found = _expression_tree(run, cells, labels, root, draws, np.random.default_rng(seed))
    write_tree(cells, found, groupby, key=key)
    weak = weak_branches(found)
    if weak:
        inner = found.nodes - found.leaves - 1
        named = "; ".join(f"{name} ({held:.2f})" for name, held in weak[:_SHOWN]) + "; …" * (len(weak) > _SHOWN)
        _log.warning(
            "%d of %d branches have a support below %.1f, or no more than chance gives: %s. tree.collapse(%.1f) leaves "
            "them out; more cells, more genes or fewer groups may settle them.",
            *(len(weak), inner, _WEAK, named, _WEAK),
        )
    return found


def _expression_tree(run: Run, cells: Any, labels: np.ndarray, root: str, draws: int, rng: np.random.Generator) -> Tree:
    leaves = Leaves.of_labels(labels, rng)
    means = GroupMeans.of_cells(run, cells, leaves)
    apart = [leaves.names[i] for i in means.unlinked(leaves.names.index(root))]
    if apart:
        _log.warning(
            "%s and the root %s share no batch, not even through other groups: where they join the tree, their change "
            "is mixed with that of their batches.",
            *(", ".join(apart), root),
        )
    options: dict[str, Any] = {"response": means.response, "draws": draws, "rng": rng}
    return shared_change_tree(means, leaves.leaf, leaves.names, root, **options)


def weak_branches(tree: Tree, support: float = _WEAK) -> list[tuple[str, float]]:
    """Branches whose support is below a bound or not above chance, with it, the weakest first.

    Example:
        >>> held = np.array([np.nan] * 4 + [0.4, 0.9, 1.0])
        >>> tree = Tree.from_merges([[0, 1], [2, 4], [3, 5]], [1.0, 2.0, 3.0], names=["a", "b", "c", "d"], support=held)
        >>> weak_branches(tree)
        [('a | b', 0.4)]
    """
    if tree.support is None:
        return []
    held = [(float(tree.support[node]), node) for node in range(tree.leaves, tree.nodes - 1)]
    # All but a root group, which joins last, is no find.
    above = tree.supported | (tree.clade_sizes == tree.leaves - 1)
    return [(branch_name(tree, node), value) for value, node in sorted(held) if value < support or not above[node]]
