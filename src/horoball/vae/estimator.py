"""PoincareVAE: the model behind scikit-learn's contract."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from torch import Tensor

from horoball.geometry.coordinates import frozen
from horoball.geometry.manifold import curvatures
from horoball.geometry.random import generator_for, seed_from, shared
from horoball.options import MAX_LEAVES, FitOptions, TreeOptions
from horoball.storage.checkpoint import check_fields, reject_incomplete
from horoball.storage.settings import Range, Settings, called
from horoball.storage.stores import located
from horoball.tables.frames import columns_of_frame, frame_of, index_of
from horoball.tables.table import Table
from horoball.training.bounds import PRIOR_SHARE, iwae
from horoball.training.config import TrainConfig
from horoball.training.hooks import named_hooks
from horoball.training.hub import OnHub
from horoball.training.progress import watched
from horoball.training.state import PLACES
from horoball.vae.kinds import TABLES
from horoball.vae.model import VAE, ModelConfig
from horoball.vae.options import stored_options, table_fit
from horoball.vae.parts import Parts, named
from horoball.vae.rows import TakesRows
from horoball.vae.run import Run
from horoball.vae.spaces import AUTO, Tried, choose_space, tried_of
from horoball.vae.train import train

if TYPE_CHECKING:  # trees are imported when one is asked for: a fit needs none
    from horoball.trees.levels import Levels
    from horoball.trees.placement import Placed, Placer
    from horoball.trees.taxonomy import NameGroup, Taxonomy
    from horoball.trees.tree import Tree
    from horoball.viewer.disc import View

_NAMES = {"d": "n_components", "validation": "validation_fraction"}  # of settings, where scikit-learn has others
_SHOWN, _SHOWN_ROWS = 12, 50_000  # columns that a map holds unasked, and of how many rows: some 5 MB
_DRAWS = 20  # replicates of a tree that is made for its groups
_CHARTS = ("ball", "tangent")
_SETTINGS = {name: setting for setting, name in _NAMES.items()}


class PoincareVAE(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TakesRows, OnHub):
    """A variational auto-encoder whose latent space is the Poincaré ball, as a scikit-learn estimator.

    Args:
        n_components: Dimension of the ball. 2 or 3 draw a map; more dimensions describe the data better, with little
            gain beyond 20.
        c: Minus the curvature of the ball. Larger values leave more room for branches near the rim; 0 is the Euclidean
            model. Useful: 0.1 to 5, or "learn" to learn it, starting at 1. "auto" compares some curvatures, 0 included,
            and above three dimensions some products, on held-out rows; it takes as long as a dozen fits.
        posterior: Posterior family. "riemannian" is the paper's choice for maps; "wrapped" is faster and suits many
            dimensions.
        likelihood: Likelihood of the observations: "normal", "bernoulli", "poisson", "negative_binomial",
            "categorical", or "auto" to choose by the values of the table and log the choice.
        kind: What the rows are: "numbers", "counts", "cells", "vectors", "mixed", or "auto" to find out; see
            `horoball.tables.read`.
        columns: Kinds of some columns by name, such as {"rating": "ordinal", "id": "skip"}: "real", "positive",
            "count", "binary", "category", "ordinal", "circular", "date" or "skip". Others are guessed;
            `columns_` has the kinds and the reasons.
        na: Texts and numbers of data frames that stand for a missing value, such as ["unknown", "-999"], beside NaN,
            None, "NA", "?" and the like.
        decoder: First layer of the decoder: "gyroplane" measures distances to hyperbolic hyperplanes, "log0" and "mlp"
            are plain networks on tangent vectors and on ball coordinates. Or a decoder of your own; see `encoder`.
        encoder: An encoder of your own: the name of a registered class, the class, a function that makes a module, or
            the module; see `horoball.vae.parts`. Registered ones can be saved.
        prior: The same for the prior: "mixture", "vamp" or one of your own. A distribution of torch is taken for one of
            tangent coordinates.
        manifold: The same for the space: "product" or one of your own, which c and n_components may be passed on to.
        scale: Structure of the posterior's scale: "isotropic"; if it is wrapped, "diagonal", "full" or "rotated", whose
            axes are the mean's own: the first leads away from the origin.
        hidden: Sizes of the encoder's hidden layers, or the size of one; the decoder has them in reverse. Larger layers
            fit finer structure, take longer and need more rows. "auto" uses two layers of 256 for maps, three
            from 8,000 rows on, and one of 200 otherwise. Useful: 32 to 600.
        prior_scale: Standard deviation of the prior. Larger values spread the embedding toward the rim. Useful: 0.5 to
            2, or "learn" to learn it, starting at 1.
        beta: Weight of the KL divergence. Larger values pull the embedding to the prior, smaller ones favor
            reconstruction; 1 is the evidence lower bound. Useful: 0.1 to 10.
        distance_weight: Weight of the layout that a map is trained to follow, which keeps distances between rows and
            neighbors together. Larger values make a more faithful map at the cost of the likelihood; 0 is the paper's
            objective. "auto" uses 5 per feature, and at least 50, for maps of two or three dimensions, and 0 otherwise.
            Useful: 0 to 10 per feature.
        locality: From global to local: the share of neighbors in the layout, the rest is that of distances. 0 keeps
            large distances and the layout of groups, 1 keeps nearest neighbors and the finest groups. Useful: 0 to 1.
        max_epochs: Maximum number of epochs. "auto" gives a map as many as have 100 to 400 steps; other models train
            until the validation loss stops falling, or for 200 epochs if no rows are held out. Useful: 50 to 500.
        batch_size: Rows per training step. Larger batches make epochs faster and the steps fewer and less noisy. "auto"
            is 128 to 1024 for maps, by the number of rows, and 128 otherwise. Useful: 32 to 4096.
        learning_rate: Learning rate of Adam. Larger values train faster, until training diverges. "auto" is 0.01, or
            0.02 below 2,000 rows, for maps and 0.001 otherwise; that of a map rises first, and falls to a fiftieth by
            the last epoch. Useful: 1e-4 to 2e-2.
        validation_fraction: Fraction of the rows held out for early stopping; 0 trains on all rows for `max_epochs`.
            Useful: 0.05 to 0.2.
        patience: Epochs without a lower validation loss before training stops; 0 never stops early. Larger values train
            longer. "auto" is 0 for maps and 20 otherwise, and for small tables as many as 160 steps take. Useful: 10
            to 50.
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
        chart: Coordinates that `transform` gives and `inverse_transform` takes. "ball" are those of the Poincaré ball,
            for pictures. "tangent" are tangent vectors at the origin, whose length is the distance from it and which
            have no boundary, for linear models, PCA and the like in a `Pipeline`.
        warm_start: Whether `fit` starts from the model of the last fit, if there is one, instead of a new one: to go on
            with training, or to take in new rows. Columns, scaling and the model's own parameters stay.
        random_state: Seed. The same int gives the same model, and the one of `horoball fit --seed` for the same rows;
            None gives another model each time; a NumPy generator draws a seed.
        verbose: 1 shows progress: a bar in a terminal or notebook, otherwise a line every 30 seconds.

    Attributes:
        model_: The trained `VAE`.
        run_: The model with its scaling and the record of the fit.
        history_: The metrics of every epoch.
        n_iter_: Number of epochs.
        c_: Minus the curvature of the model.
        tried_: With c="auto", the spaces that were compared, with what came of each; see `horoball.vae.spaces`.
        likelihood_: The likelihood's name, where it was chosen by the numbers.
        columns_: Of a table with columns of several kinds, the kind of each and the reason.
        places_: What `place` puts rows into, once `taxonomy` was called.
        labels_: The group of each row, once `fit_predict` was called; −1 for a row in no group. `fit` does not make it,
            as a tree takes time of its own. It is not saved.

    Example:
        >>> from horoball.datasets import branching_diffusion
        >>> x = branching_diffusion(depth=3).x.numpy()
        >>> z = PoincareVAE(max_epochs=5, hidden=(32,), random_state=0).fit_transform(x)
        >>> z.shape, bool((np.linalg.norm(z, axis=1) < 1).all())
        ((75, 2), True)
    """

    places_: Placer
    labels_: np.ndarray

    def __init__(
        self,
        n_components: int = ModelConfig.d,
        *,
        c: float | str = ModelConfig.c,
        posterior: str = ModelConfig.posterior,
        likelihood: str = TABLES.likelihood,
        kind: str = "auto",
        columns: Mapping[str, str] | None = None,
        na: Sequence[str] | None = None,
        decoder: Any = ModelConfig.decoder,
        encoder: Any = ModelConfig.encoder,
        prior: Any = ModelConfig.prior,
        manifold: Any = ModelConfig.manifold,
        scale: str = ModelConfig.scale,
        hidden: int | tuple[int, ...] | str = TABLES.hidden,
        prior_scale: float | str = ModelConfig.prior_scale,
        beta: float = TrainConfig.beta,
        distance_weight: float | str = TABLES.distance_weight,
        locality: float = TABLES.locality,
        max_epochs: int | str = TABLES.max_epochs,
        batch_size: int | str = TABLES.batch_size,
        learning_rate: float | str = TABLES.learning_rate,
        validation_fraction: float = TrainConfig.validation,
        patience: int | str = TABLES.patience,
        optimizer: Any = TrainConfig.optimizer,
        scheduler: Any = TrainConfig.scheduler,
        clip_norm: float = TrainConfig.clip_norm,
        callbacks: Any = None,
        loggers: Any = None,
        device: str = TrainConfig.device,
        precision: str = TrainConfig.precision,
        chart: str = "ball",
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.c = c
        self.posterior = posterior
        self.likelihood = likelihood
        self.kind = kind
        self.columns = columns
        self.na = na
        self.decoder = decoder
        self.encoder = encoder
        self.prior = prior
        self.manifold = manifold
        self.scale = scale
        self.hidden = hidden
        self.prior_scale = prior_scale
        self.beta = beta
        self.distance_weight = distance_weight
        self.locality = locality
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.clip_norm = clip_norm
        self.callbacks = callbacks
        self.loggers = loggers
        self.device = device
        self.precision = precision
        self.chart = chart
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to rows.

        Args:
            X: Rows, shape (n, features): an array or a sparse matrix of numbers, or a data frame, an Arrow table or a
                DuckDB relation, whose columns may be of several kinds. Values may be missing.
            y: Not used.
        """
        return self._fit(X, self.run_ if self.warm_start and hasattr(self, "run_") else None)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """One more epoch on some rows: from the model of the last fit if there is one, otherwise from a new one.

        The first rows decide the scaling and the kinds of the columns, so give many of them.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(60, 4))
            >>> model = PoincareVAE(max_epochs=1, hidden=(8,)).partial_fit(x[:50])
            >>> model.partial_fit(x[50:]).n_iter_
            1
        """
        return self._fit(X, getattr(self, "run_", None), max_epochs=1, validation=0.0)

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit the model, and return the group of each row as scikit-learn's clusterers do: `labels_`.

        Groups are branches of the rows' tree above chance, the finest ones with a support of 0.5 or more; how many
        there are is found, not given, see Note [Finest] in `horoball.trees.levels`. Rows in none have −1, as noise has
        in scikit-learn's DBSCAN; all of them where the tree's verdict is "not detected". Use `fit` and `taxonomy` for
        numbers of groups of your own, for several levels, for names, and to place new rows.

        Args:
            X: Rows, as for `fit`.
            y: Not used.

        Example:
            >>> x = np.kron(np.eye(3), np.ones((20, 5))) + 0.1 * np.random.default_rng(0).normal(size=(60, 15))
            >>> PoincareVAE(max_epochs=5, hidden=(32,), random_state=0).fit_predict(x)[::20]
            array([0, 1, 2])
        """
        tree = self.fit(X).tree(X, draws=_DRAWS)
        labels = tree.levels("auto")[:, -1]
        self.labels_ = labels if tree.leaf is None else labels[tree.leaf]
        return self.labels_

    def _fit(self, X: Any, warm: Run | None, *, max_epochs: int | None = None, validation: float | None = None) -> Self:
        self._in_ball()  # refused before the fit
        shape: tuple[int, ...] = ()
        if isinstance(X, np.ndarray | Tensor) and X.ndim > 2:  # images, say: their numbers are the columns
            shape, X = tuple(X.shape[1:]), X.reshape(len(X), -1)
        table = self._fitted_table(X) if warm is None else self._table(X)
        named_parts = {kind: named(kind, getattr(self, kind)) for kind in Parts._fields}
        hooks, steps = named_hooks(self.callbacks, self.loggers, self.optimizer, self.scheduler)
        options: FitOptions = {
            "d": self.n_components,
            "c": self.c,
            "posterior": self.posterior,
            "likelihood": self.likelihood,
            "decoder": named_parts["decoder"][0],
            "encoder": named_parts["encoder"][0],
            "prior": named_parts["prior"][0],
            "manifold": named_parts["manifold"][0],
            "shape": shape,
            "scale": self.scale,
            "hidden": self.hidden,
            "prior_scale": self.prior_scale,
            "beta": self.beta,
            "distance_weight": self.distance_weight,
            "locality": self.locality,
            "max_epochs": max_epochs or self.max_epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "validation": self.validation_fraction if validation is None else validation,
            "patience": self.patience,
            "optimizer": steps["optimizer"],
            "scheduler": steps["scheduler"],
            "clip_norm": self.clip_norm,
            "device": self.device,
            "precision": self.precision,
            "seed": seed_from(self.random_state),
        }
        with called(**_NAMES), watched(self.verbose) as progress:
            parts = Parts(**{kind: given for kind, (_, given) in named_parts.items()})
            tried: list[Tried] = []
            if self.c == AUTO and warm is not None:
                options["c"], tried = warm.record.model.c, tried_of(warm.record)
            elif self.c == AUTO:
                options, tried = choose_space(table, options, parts, hooks)
            model, config = table_fit(table, **options)
            run = train(table, model, config, parts=parts, hooks=hooks, tried=tried, warm=warm, progress=progress)
            return self._take(run)

    def _take(self, run: Run) -> Self:
        self.run_, self.model_, self.history_, self.n_iter_ = run, run.model, run.history, len(run.history)
        for name in ("places_", "labels_"):  # of another model
            if hasattr(self, name):
                delattr(self, name)
        self.c_: Any = getattr(run.model.ball, "c_value", None)
        self.tried_ = tried_of(run.record)
        self.likelihood_ = run.model.likelihood.name
        self.columns_ = {column.name: (column.kind, column.reason) for column in run.record.columns_of.columns}
        return self

    def _facts(self) -> dict[str, object] | None:
        if not hasattr(self, "run_"):
            return None
        record, last = self.run_.record, self.run_.kept
        facts: dict[str, object] = {"rows": f"{record.rows:,}", "columns": f"{len(self.run_.columns):,}"}
        facts |= {"dimensions": record.model.d}
        facts |= {name: f"{c:.4g}" for name, c in curvatures(self.model_.ball).items()}
        facts |= {"likelihood": self.likelihood_}
        facts |= {"epochs": self.n_iter_}
        return facts | {name: f"{last[name]:.4g}" for name in ("loss", "kl", "validation") if name in last}

    def transform(self, X: Any) -> np.ndarray:
        """Coordinates of the posterior means in the chart of the model, float64, shape (n, n_components)."""
        run, table = self.run_checked(), self._table(X)
        if self._in_ball():
            return torch.cat(list(run.embed(table))).numpy()
        with torch.no_grad():
            return torch.cat([q.mean.cpu().double() for q in run.posteriors(table)]).numpy()

    def _in_ball(self) -> bool:
        """Whether coordinates are those of the ball."""
        if self.chart not in _CHARTS:
            raise ValueError(f"Expected a chart of {', '.join(_CHARTS)}, got {self.chart!r}.")
        return self.chart == "ball"

    def posterior_scale(self, X: Any) -> np.ndarray:
        """Standard deviation of the posterior of each row, shape (n,): how unsure the model is of its place.

        Rows with gaps have larger ones.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(50, 4))
            >>> PoincareVAE(max_epochs=1, hidden=(8,)).fit(x).posterior_scale(x[:3]).shape
            (3,)
        """
        return torch.cat([block[:, -1] for block in self.run_checked().coordinates(self._table(X))]).numpy()

    def inverse_transform(self, Z: Any) -> Any:
        """Rows decoded from coordinates in the model's chart: the mean of the likelihood, in the units of the data.

        Of a table with columns of several kinds it is a pandas data frame, with the likeliest category of each row.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(50, 4))
            >>> PoincareVAE(max_epochs=1, hidden=(8,)).fit(x).inverse_transform(np.zeros((1, 2))).shape
            (1, 4)
        """
        run = self.run_checked()
        Z = np.asarray(Z, np.float64)
        if Z.ndim != 2 or Z.shape[1] != self.n_components:
            raise ValueError(f"inverse_transform expects shape (n, {self.n_components}), got {Z.shape}.")
        with torch.no_grad():
            ball = frozen(run.model.ball)
            z = torch.from_numpy(Z)
            z = (ball.from_ball(z) if self._in_ball() and hasattr(ball, "from_ball") else z).float().to(run.device)
            return self._given_back(run.unscaled(run.model.mean(z).float()))

    def score_samples(self, X: Any, samples: int = 500) -> np.ndarray:
        """Log-likelihood of each row, in the units the model sees, estimated from below with importance weights.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(50, 4))
            >>> PoincareVAE(max_epochs=1, hidden=(8,)).fit(x).score_samples(x, samples=10).shape
            (50,)
        """
        run, samples = self.run_checked(), _Drawn.checked("samples", samples)
        model = copy.deepcopy(run.model).cpu().double()  # which not every device has
        blocks = run.blocks(self._table(X), 64)
        return torch.cat([self._score_block(model, block.cpu().double(), samples) for block in blocks]).numpy()

    @staticmethod
    def _score_block(model: VAE, block: Tensor, samples: int) -> Tensor:
        """A row's score does not depend on its company.

        All rows see the same noise. In float32 the roundings of a matrix product would still depend on how many rows
        there are, by a unit of the last digit: more than scikit-learn's contract allows.
        """
        with shared(), torch.no_grad():
            return iwae(model, block, samples, chunk=128, prior_share=PRIOR_SHARE, generator=generator_for(0))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples(X, samples=100)`: fewer than its default, as a search over parameters asks often.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(50, 4))
            >>> PoincareVAE(max_epochs=1, hidden=(8,)).fit(x).score(x) < 0
            True
        """
        return float(self.score_samples(X, samples=100).mean())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Rows from the model: points from the prior, decoded.

        Of a table with columns of several kinds they are a pandas data frame: truths are truths, categories are texts,
        counts are whole and positive numbers positive. Columns that were skipped are not in it.

        Args:
            n_samples: Number of rows.
            random_state: Seed; an int gives the same rows as `horoball sample --seed`, None other ones each time.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(50, 4))
            >>> PoincareVAE(max_epochs=1, hidden=(8,)).fit(x).sample(3).shape
            (3, 4)
        """
        run, n_samples = self.run_checked(), _Drawn.checked("n_samples", n_samples)
        return self._given_back(run.sample(n_samples, seed_from(random_state)))

    def _given_back(self, x: Tensor, X: Any = None) -> Any:
        """Rows in their own units, as users have them: in the dtype and with the observed values of an array X."""
        run = self.run_checked()
        if isinstance(X, np.ndarray) and not run.record.mixed:
            return np.where(np.isnan(X), x.double().numpy(), X)
        if not run.record.mixed:
            return x.double().numpy()
        rows = run.rows_of(x)
        if isinstance(X, np.ndarray):
            filled, schema = X.astype(np.float64), run.record.columns_of
            columns = schema.columns if X.shape[1] == len(schema.columns) else schema.used  # as `read` takes either
            described = [column.name for column in columns]
            for name in rows.column_names:  # others were skipped, and stay as they are
                place = described.index(name)
                filled[:, place] = np.where(np.isnan(X[:, place]), rows.column(name), X[:, place])
            return filled
        return rows.to_pandas() if hasattr(self, "feature_names_in_") else np.stack(rows.columns, 1).astype(np.float64)

    def impute(self, X: Any, *, draws: int = 0, samples: int = 200, random_state: Any = 0) -> Any:
        """Rows with their missing values filled in; what was observed stays as it is.

        Values are assumed to be missing at random: whether one is missing may depend on those that were observed, and
        not on itself.

        Args:
            X: Rows with the columns of the fit, some values missing.
            draws: How many filled tables to draw from the model; 0 fills in best guesses: the mean of numbers, the
                median of positive ones, the likeliest category.
            samples: Points for each row. More are more exact and take longer. Useful: 100 to 1000.
            random_state: Seed.

        Returns:
            A data frame with all columns of X where `fit` was given one, otherwise an array; a list of `draws` of them
            if draws > 0.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(50, 1)) * np.ones(4)
            >>> x[3, 1] = np.nan
            >>> filled = PoincareVAE(max_epochs=1, hidden=(8,)).fit(x).impute(x)
            >>> bool(np.isnan(filled).any()), np.array_equal(np.delete(filled, 3, 0), np.delete(x, 3, 0))
            (False, True)
        """
        from horoball.vae.impute import impute

        table = self._table(X)
        options = {"samples": _Drawn.checked("samples", samples), "draws": _Drawn.checked("draws", draws)}
        filled = impute(self.run_checked(), table, seed=seed_from(random_state), **options)
        return [self._filled(each, X, table) for each in filled] if draws else self._filled(filled, X, table)

    def _filled(self, x: Tensor, X: Any, table: Table) -> Any:
        """Rows as they were given, with values of the model where some are missing."""
        run = self.run_checked()
        if not (run.record.mixed and hasattr(self, "feature_names_in_")) or isinstance(X, np.ndarray | Table):
            return self._given_back(x, X)
        frame, guesses = frame_of(X), run.rows_of(x)
        from horoball.tables.filling import fill_data_frame, fill_table, gaps_of  # which a fit does not need

        gaps = gaps_of(table.schema or run.record.columns_of, table, frame)
        if type(X).__module__.startswith("pandas."):
            return fill_data_frame(X, gaps, guesses)
        return fill_table(frame, gaps, guesses).to_pandas()

    def tree(
        self,
        X: Any,
        labels: Any = None,
        *,
        names: Sequence[str] | None = None,
        root: str | int = "center",
        method: str = "auto",
        source: str = "auto",
        draws: int = 100,
        max_leaves: int = MAX_LEAVES,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> Tree:
        """The tree of rows, or of labeled groups of rows, with the support of every branch.

        Args:
            X: Rows, shape (n, features).
            labels: One label per row: the leaves are then the labels.
            names: Names of the rows; the index of a pandas data frame if not given.
            root: Where the tree is seen from: "center", a row number, a label, or "midpoint"; see `hierarchy.tree`.
            method: "gromov" for data that branch, with rows at inner nodes; "average" for clusters, with rows at the
                tips; "auto" chooses by how well each predicts distances in columns it has not seen.
            source: Where distances come from: "weighted" columns, each by the share of its variance that the model
                explains; "columns" with equal weights; the "latent" space. "auto" chooses between the first two, and
                takes the latent space for categories and for models with covariates, and vectors as they are.
            draws: Replicates for the support, 0 for none: each moves every row by a draw from its posterior, and draws
                the columns again with replacement.
            max_leaves: With more rows than this, the leaves are as many micro-clusters of rows near each other.
            n_jobs: Threads for the replicates; one per core for trees of 2,000 leaves and more if not given.
            random_state: Seed of all draws.

        Example:
            >>> from horoball.datasets import branching_diffusion
            >>> x = branching_diffusion(depth=3).x.numpy()
            >>> PoincareVAE(max_epochs=5, hidden=(32,), random_state=0).fit(x).tree(x, draws=10).leaves
            75
        """
        from horoball.vae.tree import table_tree

        run, table = self.run_checked(), self._table(X)
        if names is None and labels is None and (index := index_of(X)) is not None:
            names = [str(label) for label in index]
        options: TreeOptions = {"labels": labels, "names": names, "root": root, "method": method, "draws": draws}
        options |= {"max_leaves": max_leaves, "n_jobs": n_jobs}
        return table_tree(run, table, source=source, seed=seed_from(random_state), **options)

    def taxonomy(
        self,
        X: Any,
        levels: Levels = "auto",
        *,
        texts: Sequence[str] | None = None,
        name: NameGroup | None = None,
        tree: Tree | None = None,
        draws: int = _DRAWS,
        random_state: Any = 0,
    ) -> Taxonomy:
        """Nested groups of rows with names, which `place` puts new rows into.

        Where no branch is above chance there are no groups, and nothing to place rows in.

        Args:
            X: Rows, shape (n, features).
            levels: How many groups each level has, such as [20, 5], how many levels there are, or "auto": branches
                with a support of 0.5 or more, the largest, and the finest if these are others.
            texts: A text for each row; groups are then named by words, otherwise by columns.
            name: A function from the texts of some examples, and from words, to a name.
            tree: Their tree, if it was made before.
            draws: Replicates of the tree, if it was not. More are slower and more exact.
            random_state: Seed of all draws.

        Example:
            >>> x = np.kron(np.eye(3), np.ones((20, 5))) + 0.1 * np.random.default_rng(0).normal(size=(60, 15))
            >>> model = PoincareVAE(max_epochs=5, hidden=(32,), random_state=0).fit(x)
            >>> print(model.taxonomy(x, [3], texts=["cat"] * 20 + ["dog"] * 20 + ["oak"] * 20))
            cat: 20 rows, support 1.00
            dog: 20 rows, support 1.00
            oak: 20 rows, support 1.00
            >>> model.place(np.kron(np.eye(3), np.ones((1, 5)))).deepest()
            ['cat', 'dog', 'oak']
        """
        from horoball.vae.tree import places_of, table_taxonomy, table_tree

        run, table, seed = self.run_checked(), self._table(X), seed_from(random_state)
        found = table_tree(run, table, draws=draws, seed=seed) if tree is None else tree
        made = replace(table_taxonomy(run, table, found, levels, texts=texts, name=name), index=index_of(X))
        if hasattr(self, "places_"):  # of other groups
            del self.places_
        if any(made.groups):  # where no branch is above chance, there is nothing to place rows in
            self.places_ = places_of(run, table, made, seed=seed)
        return made

    def place(self, X: Any, coverage: float = 0.9) -> Placed:
        """Where rows belong among the groups of `taxonomy`: their likeliest path, with the probability of each step.

        `deepest()` of the result names each row's place: the deepest group that holds the truth with a probability of
        at least `coverage`, on average over rows like those of the taxonomy; None is the root. It is known from a fifth
        of the taxonomy's rows, which `taxonomy` holds out.

        Args:
            X: Rows, shape (n, features).
            coverage: That probability, between 0 and 1. Larger is less deep. Useful: 0.8 to 0.95.
        """
        from horoball.vae.tree import table_points

        if not hasattr(self, "places_"):
            raise ValueError("There are no groups to place rows in. Make them first: model.taxonomy(X).")
        placed = self.places_.place(table_points(self.run_checked(), self._table(X)), coverage)
        return replace(placed, index=index_of(X))

    def view(
        self,
        X: Any,
        labels: Any = None,
        *,
        names: Sequence[str] | None = None,
        columns: Mapping[str, Any] | None = None,
        tree: Tree | None = None,
        taxonomy: Taxonomy | None = None,
        title: str = "",
        path: str | Path | None = None,
    ) -> View:
        """An interactive map of rows: one HTML page, which a notebook shows; it needs no network.

        Args:
            X: Rows, shape (n, features).
            labels: One label per row, which colors the map at first.
            names: Names of the rows, to search for; the index of a pandas data frame if not given.
            columns: Other values of the rows by name, to show and to color by; see `horoball.view`. The first dozen
                columns of a data frame if not given, of up to 50,000 rows.
            tree: A tree of the rows, shown beside the map and in it.
            taxonomy: Groups of the rows, whose names are written on the map.
            title: Title of the page.
            path: Where to write the page; without it, it is only returned.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(50, 4))
            >>> PoincareVAE(max_epochs=1, hidden=(8,)).fit(x).view(x, labels=["a", "b"] * 25)
            View(... characters)
        """
        from horoball.viewer.run import view_run

        run, table, index = self.run_checked(), self._table(X), index_of(X)
        shown = {} if labels is None else {run.label or "label": labels}
        if columns is None and table.rows <= _SHOWN_ROWS and not isinstance(X, Table):
            columns = {name: X[name] for name in (columns_of_frame(X) or [])[:_SHOWN]}
        named = index if names is None else names
        page = view_run(
            run,
            table,
            columns=shown | {name: values for name, values in (columns or {}).items() if name not in shown},
            labels=None if named is None else [str(name) for name in named],
            tree=tree,
            levels=() if taxonomy is None else taxonomy.names,
            title=title,
            path=path,
        )
        return page if index is None else replace(page, index=list(index))  # whatever names are shown

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, as safetensors and JSON."""
        run, folder = self.run_checked(), located(folder)
        params = {name: _plain(value) for name, value in self.get_params().items()}
        for kind in Parts._fields:  # as the record names them: a class or a module is no JSON
            params[kind] = getattr(run.record.model, kind)
        replace(run, record=run.record.replace(estimator=params)).save(folder)
        if hasattr(self, "places_"):
            from horoball.vae.tree import save_places

            save_places(self.places_, run, folder)
        else:
            (folder / PLACES).unlink(missing_ok=True)  # groups of another model

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model back from a folder that `save` or `horoball fit` wrote."""
        folder = located(folder)
        run = Run.load(folder)
        with reject_incomplete(folder, "does not hold a whole estimator"):
            names, options = cls._get_param_names(), stored_options(run.record)  # where the command has fitted it
            options.pop("columns")  # those of the model, which are not the parameter
            params = run.record.estimator or {
                name: options[setting] for name in names if (setting := _SETTINGS.get(name, name)) in options
            }
            check_fields(params, set(names), "estimator", {"version": run.record.version})
            estimator = cls(**params)._take(run)
        described = [column.name for column in run.record.columns_of.columns]
        estimator._remember(described or run.columns)
        if (folder / PLACES).exists():
            from horoball.vae.tree import load_places

            estimator.places_ = load_places(folder, run)
        return estimator

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = False
        return tags


@dataclass(frozen=True)
class _Drawn(Settings):
    """How much is drawn from a fitted model."""

    samples: int = 500
    n_samples: int = 1
    draws: int = 0

    RANGES: ClassVar[dict[str, Range]] = {
        "samples": Range(1, 10**9, "It counts the importance samples of each row: 500 suits most tables."),
        "draws": Range(0, 10**6, "It counts the tables to draw."),
        "n_samples": Range(1, 10**12, "It counts the rows to draw."),
    }


def _plain(value: Any) -> Any:
    """A parameter as JSON has it; a generator of random numbers is not kept."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return value if isinstance(value, int | float | str | bool) else None
