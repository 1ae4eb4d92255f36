"""Fitting a map to cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from horoball.cells.anndata import check_cells, check_neighborhood
from horoball.cells.model import CellModel
from horoball.geometry.random import seed_from
from horoball.plugins import required
from horoball.storage.settings import called
from horoball.storage.stores import located
from horoball.tables.anndata import cell_table
from horoball.training.config import TrainConfig
from horoball.training.hooks import named_hooks
from horoball.training.progress import watched
from horoball.vae.kinds import CELLS, TABLES
from horoball.vae.model import ModelConfig
from horoball.vae.options import table_fit
from horoball.vae.train import train

__all__ = ["fit"]


def fit(
    cells: Any,
    *,
    layer: str | None = "auto",
    genes: str | Sequence[str] | None = None,
    batch_key: str | Sequence[str] | None = None,
    continuous_key: str | Sequence[str] | None = None,
    n_components: int = ModelConfig.d,
    c: float | str = ModelConfig.c,
    posterior: str = CELLS.posterior,
    likelihood: str = CELLS.likelihood,
    hidden: int | tuple[int, ...] = CELLS.hidden,
    beta: float = TrainConfig.beta,
    distance_weight: float | str = TABLES.distance_weight,
    max_epochs: int | str = CELLS.max_epochs,
    batch_size: int = TrainConfig.batch_size,
    learning_rate: float = TrainConfig.learning_rate,
    validation_fraction: float = TrainConfig.validation,
    patience: int = TrainConfig.patience,
    optimizer: Any = TrainConfig.optimizer,
    scheduler: Any = TrainConfig.scheduler,
    clip_norm: float = TrainConfig.clip_norm,
    callbacks: Any = None,
    loggers: Any = None,
    device: str = TrainConfig.device,
    precision: str = TrainConfig.precision,
    n_neighbors: int | None = 15,
    key_added: str = "poincare",
    random_state: int | None = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    verbose: bool = True,
) -> CellModel:
    """Fit a map to cells, and write it to their AnnData.

    Writes obsm["X_poincare"] (ball coordinates), obsm["X_poincare_std"] (posterior scale), and the graph of nearest
    cells in obsp and uns["poincare"], which scanpy takes as `neighbors_key="poincare"`.

    Args:
        cells: AnnData, in memory or backed by a file.
        layer: Layer with the raw counts, None for X; "auto" is the layer "counts" if there is one, otherwise X.
        genes: Genes to fit: names, or a column of var that is True for them, such as "highly_variable"; all if not
            given. Map and model know these only; the AnnData keeps all.
        batch_key: Batch key in obs to correct for, or several: batches, donors, chemistries.
        continuous_key: Column of obs with a number to correct for, or several: a share of mitochondrial counts, a
            score of the cell cycle.
        n_components: Dimension of the ball. 2 or 3 draw a map; 5 to 20 keep more of the expression.
        c: Minus the curvature of the ball. Larger values leave more room for branches near the rim; 0 is the Euclidean
            model. Useful: 0.1 to 5, or "learn" to learn it, starting at 1.
        posterior: Posterior family: "wrapped", or "riemannian", which in many dimensions needs many epochs to mix
            batches.
        likelihood: Likelihood of the observations: "negative_binomial" for counts, which "auto" is too;
            "zero_inflated_negative_binomial" for counts with zeros of the measurement; "zero_inflated_gamma" for counts
            that are not whole, such as those corrected for ambient RNA; "normal" for real numbers, such as
            log-normalized expression.
        hidden: Sizes of the encoder's hidden layers, or the size of one; the decoder has them in reverse. Larger layers
            fit finer structure and need more cells. Useful: 64 to 512.
        beta: Weight of the KL divergence. Larger values pull the cells to the prior and mix batches more; 1 is the
            evidence lower bound. Useful: 0.1 to 10.
        distance_weight: Weight of the term that preserves distances along the data, within batches. Larger values make
            a more faithful map at the cost of the likelihood. "auto" uses 0.1 per gene, and at least 50, for maps of
            two or three dimensions, and 0 otherwise. Useful: 0 to 1 per gene.
        max_epochs: Maximum number of epochs. Early stopping usually ends training before. "auto" takes 15,000 steps,
            and at most 200 epochs: 39 of 50,000 cells, 2 of a million. Useful: 50 to 500 of a few thousand cells.
        batch_size: Cells per training step. Larger batches make epochs faster and the steps fewer and less noisy.
            Useful: 64 to 1024.
        learning_rate: Learning rate of Adam. Larger values train faster, until training diverges. Useful: 1e-4 to 1e-2.
        validation_fraction: Fraction of the cells held out for early stopping; 0 trains on all. Useful: 0.05 to 0.2.
        patience: Epochs without a lower validation loss before training stops; 0 never stops early. Larger values train
            longer. The default waits for 160 steps as well, which are more epochs of few cells. Useful: 10 to 50.
        optimizer: Optimizer: a name of `torch.optim` with settings, such as 'SGD:{"momentum": 0.9}', a class, or a
            function of parameter groups. Its learning rate is `learning_rate`.
        scheduler: Learning rates of the epochs after the first, in the same way: a name of `torch.optim.lr_scheduler`,
            a class, or a function of the optimizer. "auto" is the schedule that suits the model.
        clip_norm: Norm that all gradients together are brought down to. Smaller values tame steps that are too large;
            0 leaves them as they are. Useful: 0.5 to 10.
        callbacks: Objects with methods such as `on_train_epoch_end`, or one; see `horoball.training.hooks`.
        loggers: Loggers of Lightning, or one, that get the metrics of every epoch.
        device: Where the model is trained and used: "cpu", "cuda", "mps", or "auto" for a GPU if there is one.
        precision: "32-true", or "bf16-mixed" for matrix products in bfloat16, which some GPUs do faster.
        n_neighbors: Neighbors per cell in the graph, see `neighbors`; None for no graph. Larger values give a smoother
            graph with less local detail. Useful: 5 to 50.
        key_added: Key of the embedding in obsm, obsp and uns.
        random_state: Seed. The same int gives the same map, None another one each time.
        folder: Folder for checkpoints and the fitted model; None writes nothing.
        resume: Resume the run in the folder, if there is one.
        verbose: Whether to show progress: a bar in a terminal or notebook, otherwise a line every 30 seconds.

    Example:
        >>> from horoball.cells import simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> model = fit(cells, batch_key="batch", max_epochs=2, hidden=(16,))
        >>> cells.obsm["X_poincare"].shape, model.batches
        ((60, 2), {'batch': ['a', 'b']})
    """
    required("anndata")
    check_cells(cells)
    check_neighborhood(n_neighbors)
    batch = [batch_key] if isinstance(batch_key, str) else list(batch_key or ())
    numbers = [continuous_key] if isinstance(continuous_key, str) else list(continuous_key or ())
    chosen = chosen_genes(cells, genes)
    table = cell_table(cells, layer=layer, batch=batch, numbers=dict.fromkeys(numbers), genes=chosen)
    hooks, steps = named_hooks(callbacks, loggers, optimizer, scheduler, folder)
    with called(d="n_components", validation="validation_fraction", seed="random_state"), watched(verbose) as progress:
        fields, config = table_fit(
            table,
            d=n_components,
            c=c,
            posterior=posterior,
            likelihood=likelihood,
            hidden=hidden,
            beta=beta,
            distance_weight=distance_weight,
            max_epochs=max_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            validation=validation_fraction,
            patience=patience,
            optimizer=steps["optimizer"],
            scheduler=steps["scheduler"],
            clip_norm=clip_norm,
            device=device,
            precision=precision,
            seed=seed_from(random_state),
        )
        kept = None if folder is None else located(folder)
        run = train(table, fields, config, kept, hooks=hooks, resume=resume, progress=progress, key=key_added)
    model = CellModel(run, key_added)
    model.write(cells, table, n_neighbors)
    return model


def chosen_genes(cells: Any, genes: str | Sequence[str] | None) -> list[str] | None:
    """Names of the genes to fit; None for all."""
    if genes is None:
        return None
    names = [str(name) for name in cells.var_names]
    if isinstance(genes, str):
        if genes not in cells.var:
            known = ", ".join(map(str, list(cells.var)[:20])) or "none"
            raise ValueError(
                f"var has no column {genes!r} to choose genes by. Columns: {known}. Call "
                "scanpy.pp.highly_variable_genes first, or give names of genes as a list."
            )
        marked = np.asarray(cells.var[genes])
        if marked.dtype != bool:
            raise ValueError(f"The column {genes!r} of var holds {marked.dtype}. Genes are chosen by True and False.")
        found = [name for name, one in zip(names, marked, strict=True) if one]
    else:
        found = [str(name) for name in genes]
        missing = sorted(set(found) - set(names))
        if missing:
            raise ValueError(f"The AnnData has no genes {', '.join(missing[:5])}. Give names of var_names.")
        if len(set(found)) < len(found):
            raise ValueError("A gene is named twice. Name each once.")
    if len(found) < 2:
        raise ValueError(f"A map needs at least two genes, and {len(found)} were chosen.")
    return found
