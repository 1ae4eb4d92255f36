"""Changes to modules for the time of a test, without importing them for it: they are made when a test imports them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

# How many steps the layout of a map and its head start have; see `_layouts_are_short` in conftest.py.
STEPS = {"horoball.vae.layout": "_STEPS", "horoball.vae.map_term": "_EPOCHS"}


class _Watch:
    """A finder of modules that waits for one of them, and changes it once it is imported."""

    def __init__(self, name: str, change: Callable[[ModuleType], Any]) -> None:
        self.name, self.change, self.looking = name, change, False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, with a loader that makes the change."""
        if name != self.name or self.looking:
            return None
        self.looking = True
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                self.change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def once_imported(name: str, change: Callable[[ModuleType], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Change a module now if it is imported, otherwise when the test imports it."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        monkeypatch.setattr(sys, "meta_path", [_Watch(name, change), *sys.meta_path])


def shorten_layouts(monkeypatch: pytest.MonkeyPatch, steps: int = 4) -> None:
    """Lay maps out in a few steps."""
    for name, setting in STEPS.items():
        once_imported(name, lambda module, setting=setting: monkeypatch.setattr(module, setting, steps), monkeypatch)
