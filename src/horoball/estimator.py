"""PoincareVAE: the model behind scikit-learn's contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from horoball.data.array_table import ArrayTable
from horoball.data.cells import is_cells
from horoball.data.read import read
from horoball.noise import seeded, shared
from horoball.objectives import iwae
from horoball.training.choices import curvature_fields, distance_weight, prior_fields
from horoball.training.config import TrainConfig
from horoball.training.progress import Bar, Silent
from horoball.training.run import Run, train
from horoball.training.stored import expect_whole

__all__ = ["PoincareVAE"]


class PoincareVAE(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A variational auto-encoder with its latent space in the Poincaré ball, as an estimator.

    Args:
        n_components: Dimension of the ball.
        c: Minus the curvature; 0 for the Euclidean model, "learn" to learn it from 1.
        posterior: "riemannian" or "wrapped".
        likelihood: "auto" (guessed from the numbers, and logged), "normal", "bernoulli", "poisson",
            "negative_binomial" or "categorical".
        decoder: "gyroplane", "log0" or "mlp".
        hidden: Sizes of the encoder's hidden layers, or the size of one; the decoder has them in reverse.
        prior_scale: Standard deviation σ₀ of the prior, or "learn" to learn it from 1.
        beta: Weight of the divergence.
        distance_weight: Weight of the term that keeps distances, 0 for the paper's objective; "auto" switches it on for
            maps, of two or three dimensions, and logs it.
        max_epochs: Most passes over the rows.
        batch_size: Rows of a step.
        learning_rate: Of Adam.
        validation_fraction: Part of the rows held out for early stopping.
        patience: Epochs without a better validation loss before stopping.
        random_state: Seed; an int gives the same model every time.
        verbose: 1 shows a progress bar.

    Attributes:
        model_: The trained `VAE`.
        run_: The model with its scaling.
        history_: The metrics of every epoch.
        n_iter_: Number of epochs.
        c_: Minus the curvature of the model.
        likelihood_: The likelihood's name, where it was chosen by the numbers.

    Example:
        >>> from horoball.data import branching_diffusion
        >>> x = branching_diffusion(depth=3).x.numpy()
        >>> z = PoincareVAE(max_epochs=5, hidden=(32,), random_state=0).fit_transform(x)
        >>> z.shape, bool((np.linalg.norm(z, axis=1) < 1).all())
        ((75, 2), True)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        c: float | str = 1.0,
        posterior: str = "riemannian",
        likelihood: str = "auto",
        decoder: str = "gyroplane",
        hidden: int | tuple[int, ...] = (200,),
        prior_scale: float | str = 1.0,
        beta: float = 1.0,
        distance_weight: float | str = "auto",
        max_epochs: int = 200,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        validation_fraction: float = 0.1,
        patience: int = 20,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.c = c
        self.posterior = posterior
        self.likelihood = likelihood
        self.decoder = decoder
        self.hidden = hidden
        self.prior_scale = prior_scale
        self.beta = beta
        self.distance_weight = distance_weight
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to rows.

        Args:
            X: Rows, shape (n, features): an array, a sparse matrix or a data frame of numbers.
            y: Not used.

        Example:
            >>> PoincareVAE(max_epochs=1, hidden=(8,)).fit(np.random.default_rng(0).normal(size=(50, 4))).n_iter_
            1
        """
        _expect_numbers(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        names = getattr(self, "feature_names_in_", None)
        table = ArrayTable(X, None if names is None else [str(name) for name in names])
        config = TrainConfig(
            distance_weight=distance_weight(self.distance_weight, table, self.n_components),
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            beta=self.beta,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            validation=self.validation_fraction,
            patience=self.patience,
        )
        model = {
            "d": self.n_components,
            "posterior": self.posterior,
            "likelihood": self.likelihood,
            "decoder": self.decoder,
            "hidden": self.hidden,
            **prior_fields(self.prior_scale),
            **curvature_fields(self.c),
        }
        return self._take(train(table, model, config, progress=Bar() if self.verbose else Silent()))

    def _take(self, run: Run) -> Self:
        self.run_, self.model_, self.history_, self.n_iter_ = run, run.model, run.history, len(run.history)
        self.c_, self.likelihood_ = run.model.ball.c_value, run.model.likelihood.name
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Ball coordinates of the posterior means, float64, shape (n, n_components).

        Example:
            >>> x = np.random.default_rng(0).normal(size=(50, 4))
            >>> PoincareVAE(max_epochs=1, hidden=(8,)).fit(x).transform(x[:3]).shape
            (3, 2)
        """
        return torch.cat(list(self.run_checked().embed(ArrayTable(self._rows(X))))).numpy()

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """Rows decoded from ball coordinates: the mean of the likelihood, in the units of the data.

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
            z = run.model.ball.from_ball(torch.from_numpy(Z)).float()
            return run.unscaled(run.model.mean(z).float()).double().numpy()

    def score_samples(self, X: Any, samples: int = 500) -> np.ndarray:
        """Log-likelihood of each row, in the units the model sees, estimated from below with importance weights.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(50, 4))
            >>> PoincareVAE(max_epochs=1, hidden=(8,)).fit(x).score_samples(x, samples=10).shape
            (50,)
        """
        run = self.run_checked()
        blocks = run.blocks(ArrayTable(self._rows(X)), 64)
        return torch.cat([self._score_block(run, block, samples) for block in blocks]).double().numpy()

    @staticmethod
    def _score_block(run: Run, block: Tensor, samples: int) -> Tensor:
        """All rows see the same noise, so that a row's score does not depend on its company."""
        with seeded(0), shared(), torch.no_grad():
            return iwae(run.model, block, samples, chunk=128)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples(X, samples=100)`: fewer than its default, as a search over parameters asks often.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(50, 4))
            >>> PoincareVAE(max_epochs=1, hidden=(8,)).fit(x).score(x) < 0
            True
        """
        return float(self.score_samples(X, samples=100).mean())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Rows from the model: points from the prior, decoded.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(50, 4))
            >>> PoincareVAE(max_epochs=1, hidden=(8,)).fit(x).sample(3).shape
            (3, 4)
        """
        run = self.run_checked()
        with seeded(int(check_random_state(random_state).randint(2**31 - 1))), torch.no_grad():
            z = run.model.prior().sample((n_samples,))
            return run.unscaled(run.model.decode(z).sample().float()).double().numpy()

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, as safetensors and JSON."""
        run = self.run_checked()
        run.about |= {"estimator": {key: _plain(value) for key, value in self.get_params().items()}}
        run.save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model back from a folder that `save` or `horoball fit` wrote."""
        run = Run.load(Path(folder))
        with expect_whole(Path(folder), "does not hold a whole estimator"):
            params = run.about.get("estimator") or _params(run.about)
            estimator = cls(**params)._take(run)
        estimator.n_features_in_ = len(run.columns)
        if run.columns != [f"x{i}" for i in range(len(run.columns))]:
            estimator.feature_names_in_ = np.array(run.columns, dtype=object)
        return estimator

    def run_checked(self) -> Run:
        """The run, or scikit-learn's error for an estimator that is not fitted.

        Example:
            >>> PoincareVAE().run_checked()
            Traceback (most recent call last):
            ...
            sklearn.exceptions.NotFittedError: ...
        """
        check_is_fitted(self, "run_")
        return self.run_

    def _rows(self, X: Any) -> Any:
        self.run_checked()
        _expect_numbers(X)
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = False
        return tags


def _expect_numbers(X: Any) -> None:
    """Refuse what is no table of numbers, by its place; scikit-learn would do so without."""
    if isinstance(X, str | Path):
        raise TypeError(f"Expected rows, got the path {str(X)!r}. Read it first, or use the command horoball fit.")
    if is_cells(X):
        raise TypeError("Expected rows, got AnnData. Use horoball.cells.fit, or give one of its matrices.")
    if hasattr(X, "collect"):
        raise TypeError(f"Expected rows, got a {type(X).__name__}. Collect it first: X.collect().")
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        read(X)


def _plain(value: Any) -> Any:
    """A parameter as JSON has it; a generator of random numbers is not kept."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | float | str | bool) else None


def _params(about: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an estimator that would be fitted as a run was by the command."""
    model, training = about["model"], about["training"]
    params = {name: model[name] for name in ("posterior", "likelihood", "decoder", "hidden")}
    params |= {name: training[name] for name in ("beta", "distance_weight", "max_epochs", "batch_size", "patience")}
    return params | {
        "n_components": model["d"],
        "c": "learn" if model["learn_c"] else model["c"],
        "prior_scale": "learn" if model.get("learn_prior") else model["prior_scale"],
        "learning_rate": training["learning_rate"],
        "validation_fraction": training["validation"],
    }
