"""Labels of new cells from their neighbors in a reference, with probabilities that hold what they say.

A draw from a new cell's posterior is voted on by its nearest cells of the reference. The mean vote over draws is made
sharper or flatter by one temperature, chosen on the reference itself, where every cell is voted on by the others and
its label is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from horoball.cells.anndata import ball_of, check_cells, coordinates
from horoball.cells.groups import groups_of
from horoball.cells.tree import branch_name
from horoball.distributions.wrapped_normal import WrappedNormal
from horoball.geometry.random import generator_for, seed_from
from horoball.neighbors.index import Index
from horoball.trees.record import tree_from_json
from horoball.trees.tree import Tree

_MOST_JUDGED = 5000  # cells of the reference on which the temperature is chosen: more do not change its second digit


def transfer_labels(
    query: Any,
    reference: Any,
    label: str,
    *,
    tree: Tree | str | None = "auto",
    confidence: float = 0.8,
    support: float = 0.5,
    novelty: float = 0.99,
    n_neighbors: int = 30,
    draws: int = 10,
    key: str = "poincare",
    random_state: Any = 0,
) -> Any:
    """Give new cells the labels of a reference, with calibrated probabilities.

    Where there is a tree of the labels, a cell gets the deepest label or branch whose probability reaches the
    confidence: a cell between two subtypes is called by the branch that holds both. Without a tree, or where no branch
    is probable enough, its label is "unknown", as for cells whose novelty is above the given one.

    Writes `obs["<label>_predicted"]` and `obs["<label>_probability"]`, and the probabilities of all labels to
    `obsm["<label>_probabilities"]`.

    Args:
        query: AnnData with the coordinates of new cells, by `CellModel.map_query` or `CellModel.embed`.
        reference: AnnData with coordinates on the same map.
        label: Column of the reference's obs with the labels. Cells without one do not vote.
        tree: Tree of the labels; "auto" is the one that `CellModel.tree` wrote to the reference, if there is one. None
            for no tree.
        confidence: Least probability of a label. Larger values leave more cells at coarse branches or unknown.
        support: Branches with less support are not used.
        novelty: Cells above this `obs["<key>_novelty"]` are unknown, where `map_query` wrote it; 1 for none.
        n_neighbors: Cells of the reference that vote on a draw. Larger values are smoother.
        draws: Draws from the posterior of a cell. More are less noisy.
        key: Which embedding.
        random_state: Seed.

    Returns:
        The probabilities as a data frame of shape (cells, labels).

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> _ = fit(cells, max_epochs=1, hidden=(8,))
        >>> transfer_labels(cells[:5].copy(), cells, "branch", n_neighbors=5).shape
        (5, 7)
    """
    import pandas as pd

    check_cells(query)
    check_cells(reference, written=False)
    for name, number in (("n_neighbors", n_neighbors), ("draws", draws)):
        if number < 1:
            raise ValueError(f"{name} is at least 1, got {number!r}.")
    labels = groups_of(reference, label)
    if ball_of(query, key).c_value != ball_of(reference, key).c_value:
        raise ValueError("The query lies on another map than the reference. Map it with the reference's model.")
    if not 0.5 <= confidence <= 1:  # below a half, two branches side by side could both reach it
        raise ValueError(f"confidence is a probability from 0.5 to 1, got {confidence!r}.")
    names = np.unique(labels[labels != ""])
    code = np.where(labels == "", -1, np.searchsorted(names, labels))
    options: dict[str, Any] = {"n_neighbors": n_neighbors, "draws": draws, "key": key}
    generator = generator_for(seed_from(random_state))
    voters = np.flatnonzero(code >= 0)
    judged = voters[torch.randperm(len(voters), generator=generator)[:_MOST_JUDGED].numpy()]
    own = votes(reference, reference, code, len(names), rows=judged, generator=generator, **options)
    sharp = temperature(own, code[judged])
    given = _tempered(votes(query, reference, code, len(names), generator=generator, **options), sharp)
    found, probability = _called(given, names, _tree(tree, reference, label, key), confidence, support)
    if f"{key}_novelty" in query.obs:
        found[np.asarray(query.obs[f"{key}_novelty"]) > novelty] = "unknown"
    query.obs[f"{label}_predicted"] = pd.Categorical(found)
    query.obs[f"{label}_probability"] = probability
    frame = pd.DataFrame(given, index=query.obs_names, columns=names)
    query.obsm[f"{label}_probabilities"] = frame
    return frame


@torch.no_grad()
def votes(
    cells: Any,
    reference: Any,
    code: np.ndarray,
    labels: int,
    *,
    n_neighbors: int,
    draws: int,
    key: str = "poincare",
    rows: np.ndarray | None = None,
    generator: torch.Generator | None = None,
) -> np.ndarray:
    """Share of votes for each label, over the draws and neighbors of a cell; shape (cells, labels).

    Every label has half a vote of its own, so none is impossible.

    Args:
        cells: AnnData with coordinates.
        reference: AnnData whose cells vote.
        code: The label of each cell of the reference, a number; −1 for a cell without one, which does not vote.
        labels: Number of labels.
        n_neighbors: Cells that vote on a draw.
        draws: Draws from the posterior of a cell.
        key: Which embedding.
        rows: Numbers of cells of the reference itself, which do not vote on themselves; None for other cells.
        generator: Makes the draws.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> _ = fit(cells, max_epochs=1, hidden=(8,))
        >>> votes(cells, cells, np.arange(60) % 2, 2, n_neighbors=5, draws=2).shape
        (60, 2)
    """
    ball, z = ball_of(cells, key), coordinates(cells, key)
    scale = torch.from_numpy(np.array(cells.obsm[f"X_{key}_std"], np.float64))
    own = None if rows is None else torch.from_numpy(rows)
    if own is not None:
        z, scale = z[own], scale[own]
    voters = np.flatnonzero(code >= 0)
    index = Index(ball).add(coordinates(reference, key)[torch.from_numpy(voters)])
    k = min(n_neighbors, len(voters) - 1)
    q = WrappedNormal.isotropic(z, scale, ball)
    total = np.full((len(z), labels), 0.5)
    for _ in range(draws):
        _, found = index.search(q.sample(generator=generator), k + 1)
        ids = voters[found.numpy()]
        kept = np.ones_like(ids, bool) if own is None else ids != own.numpy()[:, None]
        kept &= np.cumsum(kept, 1) <= k
        row = np.broadcast_to(np.arange(len(ids))[:, None], ids.shape)
        np.add.at(total, (row[kept], code[ids[kept]]), 1.0)
    return total / total.sum(1, keepdims=True)


def temperature(votes: np.ndarray, code: np.ndarray) -> float:
    """The T for which probabilities in proportion to votes^(1/T) explain labels best.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.dirichlet(np.ones(3), 2000)
        >>> code = np.array([rng.choice(3, p=one) for one in p])
        >>> bool(0.9 < temperature(p, code) < 1.1)
        True
    """
    rows = np.arange(len(code))

    def loss(log_t: float) -> float:
        return -float(np.log(_tempered(votes, float(np.exp(log_t)))[rows, code]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))


def deepest_branch(tree: Tree, probability: np.ndarray, *, confidence: float, support: float) -> np.ndarray:
    """The deepest node of each row whose probability reaches the confidence; −1 where only the root does.

    Args:
        tree: A tree whose leaves are the columns, in their order.
        probability: Probabilities of the leaves, shape (rows, leaves).
        confidence: Least probability of a node.
        support: Inner nodes with less support, or not above chance, are passed over.

    Example:
        >>> tree = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], names=["cat", "dog", "oak"])
        >>> deepest_branch(tree, np.array([[0.5, 0.45, 0.05], [0.0, 0.1, 0.9]]), confidence=0.8, support=0.5)
        array([3, 2])
    """
    of_node = np.zeros((len(probability), tree.nodes))
    of_node[:, : tree.leaves] = probability
    for node in range(tree.nodes - 1):
        of_node[:, tree.parent[node]] += of_node[:, node]
    usable = np.ones(tree.nodes, bool)
    if tree.support is not None:
        usable = ~(tree.support < support) & tree.supported  # leaves have none, and are used
    usable[-1] = False  # the root says nothing
    found = np.full(len(probability), -1)
    for node in range(tree.nodes - 2, -1, -1):  # children have smaller numbers than their parents
        if usable[node]:
            found = np.where(of_node[:, node] >= confidence, node, found)
    return found


def _tempered(votes: np.ndarray, t: float) -> np.ndarray:
    log = np.log(votes) / t
    p = np.exp(log - log.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def _tree(tree: Tree | str | None, reference: Any, label: str, key: str) -> Tree | None:
    """The tree of the labels, if there is one."""
    if isinstance(tree, Tree) or tree is None:
        return tree
    if tree != "auto":
        raise ValueError(f'tree is a Tree, "auto" or None, got {tree!r}.')
    stored = reference.uns.get(f"{key}_tree")
    return tree_from_json(str(stored["json"])) if stored is not None and stored["groupby"] == label else None


def _called(
    p: np.ndarray, names: np.ndarray, tree: Tree | None, confidence: float, support: float
) -> tuple[np.ndarray, np.ndarray]:
    """What each cell is called, and the probability of it."""
    if tree is None:
        best, found = p.max(1), names[p.argmax(1)].astype(object)
        found[best < confidence] = "unknown"
        return found, best
    if sorted(tree.names) != sorted(names):
        raise ValueError("The leaves of the tree are not the labels of the reference. Make it with this label.")
    order = [list(names).index(name) for name in tree.names]
    node = deepest_branch(tree, p[:, order], confidence=confidence, support=support)
    called = np.array(["unknown" if n < 0 else branch_name(tree, int(n)) for n in node], object)
    sure = [1.0 if n < 0 else float(row[order][tree.members(int(n))].sum()) for n, row in zip(node, p, strict=True)]
    return called, np.array(sure)
