"""What estimators have in common: what they take as rows, and what a notebook shows of them.

Rows are arrays, sparse matrices, data frames, Arrow tables or DuckDB relations.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from horoball.tables.anndata import is_cells
from horoball.tables.cell_values import gap_numbers, gap_words
from horoball.tables.frames import gives_arrow
from horoball.tables.numbers import check_numbers
from horoball.tables.read import read
from horoball.tables.schema import ReadOptions, choose
from horoball.tables.table import ArrayTable, Table
from horoball.vae.run import Run

_log = logging.getLogger("horoball")


class ShownInNotebooks:
    """A scikit-learn estimator that a notebook shows as a table once it is fitted, and as a diagram before.

    `sklearn.set_config(display="text")` shows neither, as for any estimator.
    """

    def _facts(self) -> dict[str, object] | None:
        """What the table says; None before the fit."""
        return None

    def _repr_html_inner(self) -> str:  # what scikit-learn's `_repr_html_` gives
        from horoball.notebook import facts_table  # which a fit does not need

        facts = self._facts()
        return super()._repr_html_inner() if facts is None else facts_table(str(self), facts)  # type: ignore[misc]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:  # what a notebook asks for first
        made: dict[str, Any] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        return made | {"text/html": self._repr_html_inner()} if "text/html" in made else made


class TakesRows(ShownInNotebooks, BaseEstimator):
    """An estimator that makes tables of the rows it is given, by the columns it was fitted to."""

    kind: str
    columns: Mapping[str, str] | None
    na: Sequence[str] | None
    run_: Run

    def run_checked(self) -> Run:
        """The run, or scikit-learn's error for an estimator that is not fitted."""
        check_is_fitted(self, "run_")
        return self.run_

    def _fitted_table(self, X: Any) -> Table:
        """Rows to fit the model to."""
        if isinstance(X, Table):
            self._remember(X.columns)
            return X
        _check_numbers(X)
        X, named = self._with_gaps(X), gives_arrow(X) or hasattr(X, "columns")
        if not named and self.kind != "vectors":
            gaps = "allow-nan" if isinstance(X, np.ndarray) else True
            X = self._validated(X, ensure_min_samples=2, ensure_all_finite=gaps)
        table = read(X, kind=self.kind, columns=self.columns, na=gap_words(self.na))
        for line in [] if table.schema is None else ["Columns:", *table.schema.lines()]:  # as the command prints
            _log.info(line)
        if table.schema is None and hasattr(X, "to_numpy") and table.kind != "vectors":  # of which scikit-learn knows
            X = self._validated(X, ensure_min_samples=2)
            same = ArrayTable(X, [str(name) for name in getattr(self, "feature_names_in_", table.columns)])
            same.kind = table.kind
            return same
        self._remember([column.name for column in table.schema.columns] if table.schema else table.columns)
        return table

    def _validated(self, X: Any, **options: Any) -> Any:
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], **options)

    def _with_gaps(self, X: Any) -> Any:
        """An array with the numbers that stand for a missing value made NaN."""
        numbers = gap_numbers(gap_words(self.na))
        if numbers and isinstance(X, np.ndarray) and X.dtype.kind in "iuf" and np.isin(X, numbers).any():
            return np.where(np.isin(X, numbers), np.nan, X)
        return X

    def _remember(self, names: list[str]) -> None:
        """What scikit-learn knows of the columns; those of an array have no names."""
        self.n_features_in_ = len(names)
        if names != [f"x{i}" for i in range(len(names))]:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _table(self, X: Any) -> Table:
        """Rows for the fitted model; where both have names, columns are found by them, as the commands do."""
        run, X = self.run_checked(), self._with_gaps(X)
        if isinstance(X, np.ndarray | Tensor) and X.ndim > 2 and tuple(X.shape[1:]) == run.record.model.shape:
            X = X.reshape(len(X), -1)
        if isinstance(X, Table):
            return X
        if run.record.as_read.kind == "vectors":
            return run.read(X)
        if run.record.schema or (gives_arrow(X) and not hasattr(X, "to_numpy") and self._by_name(X)):  # Arrow, DuckDB
            return run.read(X, na=gap_words(self.na))
        return ArrayTable(self._rows(X), run.columns)

    def _by_name(self, X: Any) -> bool:
        """Whether columns are found by name: both have names. Those of a file may be x0, x1, … as an array's are."""
        names = getattr(X, "column_names", getattr(X, "columns", ()))  # Arrow has the first
        known = hasattr(self, "feature_names_in_") or any(name in names for name in self.run_.columns)
        return known and len(names) > 0 and all(isinstance(name, str) for name in names)

    def _rows(self, X: Any) -> Any:
        run = self.run_checked()
        _check_numbers(X)
        if hasattr(X, "to_numpy") and self._by_name(X):
            X = X[choose(list(X.columns), ReadOptions(columns=run.columns), "The data frame").features]
            X = X if hasattr(self, "feature_names_in_") else X.to_numpy()  # scikit-learn knows of no names
        return self._validated(X, reset=False)


def _check_numbers(X: Any) -> None:
    """Refuse what is no table of numbers, by its place; scikit-learn would do so without."""
    if isinstance(X, str | Path):
        raise TypeError(f"Expected rows, got the path {str(X)!r}. Read it first, or use the command horoball fit.")
    if is_cells(X):
        raise TypeError("Expected rows, got AnnData. Use horoball.cells.fit, or give one of its matrices.")
    if hasattr(X, "collect"):
        raise TypeError(f"Expected rows, got a {type(X).__name__}. Collect it first: X.collect().")
    if not hasattr(X, "columns"):
        check_numbers(X, "X", objects=True)
