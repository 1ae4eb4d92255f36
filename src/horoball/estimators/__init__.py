"""Estimators with scikit-learn's interface, for tables and for graphs."""

from horoball.estimators.graph import PoincareGraphVAE
from horoball.estimators.table import PoincareVAE

__all__ = ["PoincareGraphVAE", "PoincareVAE"]
