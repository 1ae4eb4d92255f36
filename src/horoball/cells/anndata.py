"""AnnData's own places: the embedding, the graph of neighbors, pseudotime, pictures, and simulated cells."""

from __future__ import annotations

import math
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from horoball import plotting
from horoball.cells.groups import check_group, groups_of
from horoball.geometry.ball import PoincareBall
from horoball.geometry.coordinates import frechet_mean, in_ball, rim_report
from horoball.neighbors.index import Index
from horoball.neighbors.search import others
from horoball.plugins import required
from horoball.tables.anndata import is_cells


def check_cells(cells: Any, *, written: bool = True) -> None:
    """Refuse what is no AnnData, and what the map cannot be written to, before any work is done.

    Args:
        cells: What was given.
        written: Whether something will be written to it.

    Example:
        >>> check_cells("cells.h5ad")
        Traceback (most recent call last):
        ...
        TypeError: Cells come as AnnData, got str. Read a file with anndata.read_h5ad.
    """
    if hasattr(cells, "mod"):
        names = ", ".join(repr(str(name)) for name in cells.mod)
        raise TypeError(
            f"Cells come as AnnData, got {type(cells).__name__} with the modalities {names}. Give the one with the "
            f"counts, such as mdata[{next(iter(map(str, cells.mod)), 'rna')!r}]."
        )
    if hasattr(cells, "to_adata") and not is_cells(cells):
        raise TypeError(
            f"Cells come as AnnData, got {type(cells).__name__}, which has no counts of its own. Join its parts with "
            "anndata.concat, or write them to one file with anndata.experimental.concat_on_disk and open that."
        )
    if not is_cells(cells) or isinstance(cells, str | Path):
        raise TypeError(f"Cells come as AnnData, got {type(cells).__name__}. Read a file with anndata.read_h5ad.")
    if written and getattr(cells, "isbacked", False) and getattr(cells, "is_view", False):
        raise ValueError(
            "The AnnData is a view of one that is backed by a file, and AnnData cannot write a map to such a view. "
            "Give the whole with genes= for some of its genes, or take the part into memory: adata[...].to_memory()."
        )


_OF_PLACES, _OF_GRAPH = ("pseudotime", "surprise", "novelty"), ("distances", "connectivities")


def write(cells: Any, z: Tensor, scale: Tensor, ball: PoincareBall, key: str = "poincare") -> None:
    """Write points and their posterior scales to AnnData; what was derived from other points is taken away.

    Args:
        cells: AnnData.
        z: Points in the tangent chart, shape (cells, d).
        scale: Posterior scales, shape (cells,).
        ball: The ball.
        key: Names the places: obsm["X_poincare"] for ball coordinates, obsm["X_poincare_std"], obsm["X_poincare_c"],
            which stays with the cells where `anndata.concat` drops uns, and uns["poincare"].

    Example:
        >>> from horoball.plugins import required
        >>> cells = required("anndata").AnnData(shape=(3, 1))
        >>> write(cells, torch.zeros(3, 2), torch.ones(3), PoincareBall(0.5))
        >>> coordinates(cells).shape, ball_of(cells)
        (torch.Size([3, 2]), PoincareBall(c=0.5))
    """
    with rim_report(ball, "cell") as note:
        note(torch.linalg.vector_norm(z, dim=-1))
    cells.obsm[f"X_{key}"] = in_ball(z, ball).numpy()
    cells.obsm[f"X_{key}_std"] = scale.double().unsqueeze(-1).numpy()
    cells.obsm[f"X_{key}_c"] = np.full((len(z), 1), ball.c_value)
    cells.uns[key] = {"params": {"c": ball.c_value}}
    # What was said of other places of these cells is not true of the new ones.
    for held, names in ((cells.obs, _OF_PLACES), (cells.obsp, _OF_GRAPH)):
        for name in names:
            if f"{key}_{name}" in held:
                del held[f"{key}_{name}"]


def ball_of(cells: Any, key: str = "poincare") -> PoincareBall:
    """The ball of an embedding.

    Example:
        >>> from horoball.plugins import required
        >>> ball_of(required("anndata").AnnData(shape=(3, 1)))
        Traceback (most recent call last):
        ...
        ValueError: There is no embedding in obsm['X_poincare']. Fit a model first: horoball.cells.fit(adata).
    """
    if f"X_{key}" not in cells.obsm or (key not in cells.uns and f"X_{key}_c" not in cells.obsm):
        raise ValueError(f"There is no embedding in obsm['X_{key}']. Fit a model first: horoball.cells.fit(adata).")
    if f"X_{key}_c" not in cells.obsm:  # of an earlier version
        return PoincareBall(float(cells.uns[key]["params"]["c"]))
    found = np.unique(np.asarray(cells.obsm[f"X_{key}_c"], np.float64))
    if len(found) != 1 or not np.isfinite(found).all():
        raise ValueError(
            f"The cells in obsm['X_{key}'] lie on maps of different curvature: minus it is "
            f"{', '.join(f'{c:.6g}' for c in found[:5])}. Map them all with one model."
        )
    return PoincareBall(float(found[0]))


def coordinates(cells: Any, key: str = "poincare") -> Tensor:
    """The points of an embedding in the tangent chart, float64.

    Example:
        >>> from horoball.plugins import required
        >>> cells = required("anndata").AnnData(shape=(3, 1))
        >>> write(cells, torch.ones(3, 2), torch.ones(3), PoincareBall(1.0))
        >>> coordinates(cells)[0]
        tensor([1., 1.], dtype=torch.float64)
    """
    ball = ball_of(cells, key)
    return ball.from_ball(torch.from_numpy(np.array(cells.obsm[f"X_{key}"], np.float64)))


_HALVINGS = 60  # of the interval of a width: to the last digit


def neighbors(cells: Any, n_neighbors: int = 15, *, key: str = "poincare") -> None:
    """Write the graph of nearest neighbors of an embedding, for scanpy's `neighbors_key`.

    Distances are exact. Neighbors are found by `horoball.neighbors.Index`: all of them up to 50,000 cells, 99 in a
    hundred beyond. `sc.tl.leiden(cells, neighbors_key="poincare")` and others start from there.

    Args:
        cells: AnnData with an embedding by `fit` or `CellModel.embed`.
        n_neighbors: Size of a neighborhood, the cell itself included, as in scanpy.
        key: Where the embedding is, "poincare" for obsm["X_poincare"]; obsp and uns get names after it.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> _ = fit(cells, max_epochs=1, hidden=(8,))
        >>> neighbors(cells, n_neighbors=5)
        >>> cells.obsp["poincare_distances"].nnz, cells.uns["poincare"]["params"]["n_neighbors"]
        (240, 5)
    """
    check_neighborhood(n_neighbors)
    ball, z = ball_of(cells, key), coordinates(cells, key)
    n = len(z)
    k = min(n_neighbors, n) - 1
    index, distance = nearest(z, ball, k)
    starts = np.arange(0, n * k + 1, k) if k else np.zeros(n + 1, np.int64)
    names = {what: f"{key}_{what}" for what in _OF_GRAPH}
    cells.obsp[names["distances"]] = csr_matrix((distance.ravel(), index.ravel(), starts), shape=(n, n))
    cells.obsp[names["connectivities"]] = fuzzy_weights(index, distance)
    params = {"n_neighbors": k + 1, "method": "umap", "metric": "poincare", "use_rep": f"X_{key}"}
    found = dict(cells.uns.get(key, {}))  # what `anndata.concat` may have dropped
    given = {"c": ball.c_value} | dict(found.get("params", {})) | params
    cells.uns[key] = found | {f"{what}_key": name for what, name in names.items()} | {"params": given}


def check_neighborhood(n_neighbors: int | None) -> None:
    """Refuse a neighborhood without neighbors; None is no graph at all.

    Example:
        >>> check_neighborhood(1)
        Traceback (most recent call last):
        ...
        ValueError: A neighborhood has the cell and at least one other: n_neighbors >= 2, got 1.
    """
    if n_neighbors is not None and (isinstance(n_neighbors, bool) or not isinstance(n_neighbors, Integral)):
        raise ValueError(f"n_neighbors is a whole number, or None for no graph, got {n_neighbors!r}.")
    if n_neighbors is not None and n_neighbors < 2:
        raise ValueError(f"A neighborhood has the cell and at least one other: n_neighbors >= 2, got {n_neighbors}.")


def nearest(z: Tensor, ball: PoincareBall, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the k nearest other points, the nearest first, and their distances; shape (n, k) each.

    Example:
        >>> index, distance = nearest(torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]]), PoincareBall(1.0), 1)
        >>> index.ravel().tolist(), distance.ravel().tolist()
        ([1, 0, 1], [1.0, 1.0, 2.0])
    """
    n = len(z)
    if not k:
        return np.empty((n, 0), np.int64), np.empty((n, 0))
    distances, ids = Index(ball).add(z).search(z, k + 1)
    kept = others(ids, torch.arange(n), k)
    return ids[kept].reshape(n, k).numpy(), distances[kept].reshape(n, k).numpy()


def fuzzy_weights(index: np.ndarray, distance: np.ndarray) -> csr_matrix:
    """How strongly points are joined, from 0 to 1: UMAP's fuzzy union of local exponentials.

    Point i is joined to its neighbor j by a_ij = exp(−(d_ij − ρ_i)/s_i), where ρ_i is the distance to its nearest
    neighbor and s_i is such that Σ_j a_ij = log₂ k, the point itself not counted among the k. Both directions are put
    together as a + aᵀ − a·aᵀ.

    Args:
        index: Numbers of the neighbors, shape (n, k).
        distance: Their distances, the nearest first, shape (n, k).

    Example:
        >>> fuzzy_weights(np.array([[1, 2], [0, 2], [1, 0]]), np.array([[1.0, 2.0], [1.0, 1.5], [1.5, 2.0]])).nnz
        6
    """
    n, k = index.shape
    if not k:
        return csr_matrix((n, n))
    excess = distance - distance[:, :1]
    target = math.log2(k) if k > 2 else 1.0 + 1e-3  # the nearest alone counts 1: less than that cannot be reached
    low, high = np.zeros((n, 1)), np.full((n, 1), max(float(excess.max()), 1e-12) * 1e3)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        less = np.exp(-excess / np.maximum(middle, 1e-300)).sum(1, keepdims=True) < target
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    weight = np.exp(-excess / np.maximum(high, 1e-300))
    starts = np.arange(0, n * k + 1, k)
    one_way = csr_matrix((weight.ravel(), index.ravel(), starts), shape=(n, n))
    both = one_way.multiply(one_way.T)
    union = (one_way + one_way.T - both).tocsr()
    union.eliminate_zeros()
    return union


def pseudotime(cells: Any, root: str | int, *, groupby: str | None = None, key: str = "poincare") -> None:
    """Write the distance of every cell from a root, from 0 at the root to 1 at the farthest cell.

    It goes to `obs["poincare_pseudotime"]`, the root's name to `uns["poincare"]["root"]`.

    Args:
        cells: AnnData with an embedding by `fit` or `CellModel.embed`.
        root: Name of the root cell, or its number; with `groupby` a group, whose cell nearest to its mean is the root.
        groupby: Column of obs with the groups.
        key: Which embedding.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> _ = fit(cells, max_epochs=1, hidden=(8,))
        >>> pseudotime(cells, "0", groupby="branch")
        >>> float(cells.obs["poincare_pseudotime"].min()), float(cells.obs["poincare_pseudotime"].max())
        (0.0, 1.0)
    """
    check_cells(cells)
    ball, z = ball_of(cells, key), coordinates(cells, key)
    if groupby is None:
        number = _number(cells, root)
    else:
        members = _members(cells, groupby, root)
        mean = frechet_mean(z[members], ball)
        number = int(members[int(ball.dist(mean.expand_as(z[members]), z[members]).argmin())])
    distance = ball.dist(z[number].expand_as(z), z)
    distance[number] = 0.0
    farthest = float(distance.max())
    cells.obs[f"{key}_pseudotime"] = (distance / (farthest or 1.0)).numpy()
    found = dict(cells.uns.get(key, {"params": {"c": ball.c_value}}))
    cells.uns[key] = found | {"root": str(cells.obs_names[number])}


def _number(cells: Any, root: str | int) -> int:
    if isinstance(root, Integral):
        if not -cells.n_obs <= int(root) < cells.n_obs:
            raise ValueError(f"There is no cell {root}: there are {cells.n_obs}, counted from 0.")
        return int(root) % cells.n_obs
    found = np.flatnonzero(np.asarray(cells.obs_names) == root)
    if len(found) != 1:
        many = f"{len(found)} cells are" if len(found) else "No cell is"
        raise ValueError(f"{many} named {root!r}. Give a name of obs_names, a number, or a group with groupby=.")
    return int(found[0])


def _members(cells: Any, groupby: str, root: str | int) -> np.ndarray:
    groups = groups_of(cells, groupby)
    check_group(groups, str(root), groupby)
    return np.flatnonzero(groups == str(root))


def plot(cells: Any, color: str | None = None, *, key: str = "poincare", ax: Any = None, **style: Any) -> Any:
    """Draw the map of cells on the disc, with matplotlib; see `horoball.plotting.points`.

    Categories keep their order, and the colors that scanpy keeps in `uns["<column>_colors"]` if there are any.

    Args:
        cells: AnnData with an embedding by `fit` or `CellModel.embed`.
        color: Column of obs, or a gene.
        key: Which embedding.
        ax: Where to draw.
        style: size, marker, title, legend, as `points` takes them.

    Returns:
        The axes.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> _ = fit(cells, max_epochs=1, hidden=(8,))
        >>> [text.get_text() for text in plot(cells, "batch").get_legend().get_texts()]
        ['a', 'b']
    """
    c = ball_of(cells, key).c_value
    if color is not None and not isinstance(color, str):
        raise TypeError(f"color is one column of obs, or one gene, got {color!r}. Call plot for each, with its own ax.")
    labels = None if color is None else _values(cells, color)
    options = {"title": color or ""} | _of_categories(cells, color) | style
    return plotting.points(cells.obsm[f"X_{key}"], c=c, labels=labels, ax=ax, **options)


def _of_categories(cells: Any, color: str | None) -> dict[str, Any]:
    """The order of the categories of a column, and the colors that scanpy gave them."""
    column = cells.obs[color] if color is not None and color in cells.obs else None
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    if categories is None:
        return {}
    names = [str(name) for name in categories]
    colors = [str(one) for one in cells.uns.get(f"{color}_colors", ())]
    return {"order": names, "colors": dict(zip(names, colors, strict=True)) if len(colors) == len(names) else None}


def _values(cells: Any, color: str) -> np.ndarray:
    """A category or a number for each cell."""
    if color in cells.obs:
        column = cells.obs[color]
        if hasattr(column.dtype, "categories"):  # by name, even if the names are numbers
            return np.asarray(column.cat.rename_categories(str))
        values = np.asarray(column)
        return values.astype(np.float64) if values.dtype.kind in "iu" else values  # they count something
    if color in cells.var_names:
        values = cells[:, [color]].X if cells.X is not None else cells[:, [color]].layers["counts"]
        return np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float64).ravel()
    known = ", ".join(map(str, list(cells.obs)[:20])) or "none"
    raise ValueError(f"{color!r} is neither a column of obs nor a gene. The columns of obs are: {known}.")


def simulate(
    depth: int = 3,
    branching: int = 2,
    cells: int = 600,
    genes: int = 200,
    *,
    batches: int = 2,
    step: float = 0.5,
    batch_effect: float = 0.3,
    library: float = 1000.0,
    dispersion: float = 5.0,
    seed: int = 0,
) -> Any:
    """Cells that differentiate along a tree, sequenced in batches.

    The log expression of a node is its parent's plus a normal step in every gene, as in the branching diffusion of the
    paper. A cell lies anywhere on the edge to its node. Its counts are negative binomial, with means that are its
    shares of a library whose size is log-normal. Each batch multiplies every gene by a factor of its own, and is
    sequenced to another depth.

    Args:
        depth: Levels below the root.
        branching: Children of a node, at most 10: each has a digit.
        cells: Number of cells, dealt out to nodes and batches alike.
        genes: Number of genes.
        batches: Number of batches, named a, b, c …
        step: Standard deviation of a step down an edge, in log expression.
        batch_effect: Standard deviation of a batch's log factors.
        library: Median of the counts of a cell.
        dispersion: r of the negative binomial.
        seed: Seed of the random numbers.

    Returns:
        AnnData with the counts, sparse, in layers["counts"] and X; obs: branch (a node's name is its parent's with one
        more digit), depth (distance from the root, in edges) and batch; uns["tree"]: the parent of each branch.

    Example:
        >>> adata = simulate(depth=2, cells=70, genes=30)
        >>> adata.shape, adata.uns["tree"]["01"], sorted(set(adata.obs["batch"]))
        ((70, 30), '0', ['a', 'b'])
    """
    if depth < 0 or not 1 <= branching <= 10 or genes < 2 or not 1 <= batches <= 26:
        raise ValueError("simulate needs depth >= 0, branching from 1 to 10, genes >= 2 and 1 to 26 batches.")
    rng = np.random.default_rng(seed)
    parents = {"0": "0"}
    level = ["0"]
    for _ in range(depth):
        level = [parent + str(child) for parent in level for child in range(branching)]
        parents |= {name: name[:-1] for name in level}
    names = list(parents)
    if cells < len(names):
        raise ValueError(f"simulate needs a cell for each of {len(names)} nodes, got {cells}.")
    profile = {"0": rng.normal(0.0, 1.0, genes)}
    for name in names[1:]:
        profile[name] = profile[parents[name]] + rng.normal(0.0, step, genes)
    factor = rng.normal(0.0, batch_effect, (batches, genes))
    deep = rng.normal(0.0, 0.3, batches)
    branch = np.array(names)[np.arange(cells) % len(names)]
    batch = rng.permutation(np.arange(cells) % batches)
    along = rng.uniform(size=cells)
    log = np.stack([(1 - t) * profile[parents[b]] + t * profile[b] for t, b in zip(along, branch, strict=True)])
    share = np.exp(log + factor[batch])
    share /= share.sum(1, keepdims=True)
    mean = share * np.exp(rng.normal(np.log(library) + deep[batch], 0.3))[:, None]
    counts = csr_matrix(rng.poisson(rng.gamma(dispersion, mean / dispersion)).astype(np.float32))
    adata = required("anndata").AnnData(counts, layers={"counts": counts.copy()})
    adata.obs_names = [f"cell{i}" for i in range(cells)]
    adata.var_names = [f"gene{i}" for i in range(genes)]
    adata.obs["branch"] = branch
    adata.obs["depth"] = [0.0 if b == "0" else len(b) - 2 + t for b, t in zip(branch, along, strict=True)]
    adata.obs["batch"] = np.array(list("abcdefghijklmnopqrstuvwxyz"))[batch]
    adata.uns["tree"] = dict(parents)
    return adata
