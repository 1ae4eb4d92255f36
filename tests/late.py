"""Packages that take long to import, for the tests that use them: to find all tests, none of them is needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class late:  # noqa: N801  it stands where an import would
    """A module that is imported when a test first uses it: `polars = late("polars")`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for marks of its own at all that a file of tests holds
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
