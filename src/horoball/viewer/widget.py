"""A map or a tree as a notebook's widget, whose selection is an attribute in Python.

The page is the one that `View` writes, in a frame as `View` shows it; `widget.js` passes on what is selected in it.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from horoball.plugins import required

AnyWidget: Any = required("anywidget").AnyWidget
traitlets: Any = importlib.import_module("traitlets")  # which comes with anywidget


class Widget(AnyWidget):
    """A page in a notebook, and the rows that a lasso, a branch or a group selects in it.

    Both attributes can be set too, which selects rows in the page, and observed: `widget.observe(told, "selection")`.

    Args:
        page: Text of the page.
        index: Labels of its rows, which need not be unique.
        height: Height in pixels.

    Attributes:
        selection: Labels of the selected rows, in the order of the rows.
        rows: Their numbers, ascending.

    Example:
        >>> widget = Widget("<!doctype html>", ["ann", "ben", "eve"])
        >>> widget.rows = [0, 2]  # as a lasso does
        >>> widget.selection
        ['ann', 'eve']
        >>> widget.selection = ["ben"]
        >>> widget.rows
        [1]
    """

    _esm = files("horoball.viewer").joinpath("widget.js").read_text(encoding="utf-8")
    page = traitlets.Unicode(read_only=True).tag(sync=True)
    height = traitlets.Int(640).tag(sync=True)
    rows = traitlets.List().tag(sync=True)
    selection = traitlets.List()

    def __init__(self, page: str, index: Sequence[Any], height: int = 640) -> None:
        self._index, self._following = list(index), False
        self._places: dict[Any, list[int]] = {}
        for row, label in enumerate(self._index):
            self._places.setdefault(label, []).append(row)
        super().__init__(height=height)
        self.set_trait("page", page)

    @traitlets.validate("rows")
    def _check_rows(self, proposal: Any) -> list[int]:
        rows = sorted({operator.index(row) for row in proposal["value"]})
        if rows and (rows[0] < 0 or rows[-1] >= len(self._index)):
            wrong = rows[0] if rows[0] < 0 else rows[-1]
            raise ValueError(f"rows expects numbers of rows from 0 to {len(self._index) - 1}, got {wrong}.")
        return rows

    @traitlets.observe("rows")
    def _follow_rows(self, change: Any) -> None:
        self._following = True  # of rows with one label, those that were selected are meant
        try:
            self.selection = [self._index[row] for row in change["new"]]
        finally:
            self._following = False

    @traitlets.validate("selection")
    def _check_selection(self, proposal: Any) -> list[Any]:
        labels = list(proposal["value"])
        return labels if self._following else [self._index[row] for row in self._rows_of(labels)]

    @traitlets.observe("selection")
    def _follow_selection(self, change: Any) -> None:
        if not self._following:
            self.rows = self._rows_of(change["new"])

    def _rows_of(self, labels: Sequence[Any]) -> list[int]:
        for label in labels:
            if label not in self._places:
                known = ", ".join(repr(one) for one in self._index[:5])
                raise ValueError(f"No row has the label {label!r}. Labels are those of the rows shown: {known}, ….")
        return sorted({row for label in labels for row in self._places[label]})
