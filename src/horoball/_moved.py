"""Import paths of version 0.1: they work in 0.2, warn, and end with 0.3.

`MODULES` has modules and packages that are elsewhere now, `NAMES` names that are elsewhere than the rest of their old
home. A name of neither table is looked up in the module that the old one became.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["MODULES", "NAMES", "find_old_paths", "moved_names"]

MODULES: dict[str, str] = {}

NAMES: dict[str, str] = {
    "horoball.training.record.GraphRecord": "horoball.training.graph.record",
    "horoball.training.record.TableRecord": "horoball.training.table.record",
    "horoball.training.request.GRAPHS": "horoball.training.graph.request",
    "horoball.training.request.graph_fit": "horoball.training.graph.request",
}


def moved_names(module: str) -> Callable[[str], Any]:
    """A `__getattr__` for a module that has given names to another.

    Example:
        >>> moved_names("horoball.training")("wings")
        Traceback (most recent call last):
        ...
        AttributeError: module 'horoball.training' has no attribute 'wings'
    """

    def __getattr__(name: str) -> Any:  # noqa: N807  as a module has it
        if f"{module}.{name}" not in NAMES:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new = NAMES[f"{module}.{name}"]
        _warn(f"{module}.{name}", f"{new}.{name}", stacklevel=3)
        return getattr(import_module(new), name)

    return __getattr__


class _Moved(ModuleType):
    """A module under its old path.

    Python gives it to the package as an attribute, over a function of the same name: `cells.simulate` is such a one.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **options)


class _OldPaths(Loader):
    """Finds the modules of `MODULES`, and makes each of them a name for the new one."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Only what no other finder has found is asked for here."""
        if name not in MODULES:
            return None
        return ModuleSpec(name, self, is_package=any(other.startswith(f"{name}.") for other in MODULES))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that can be called, if a function of its package has its name."""
        return _Moved(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Warn whoever imports it."""
        old = module.__name__
        new = MODULES[old]
        _warn(old, new, stacklevel=3)

        def __getattr__(name: str) -> Any:  # noqa: N807  as a module has it
            if name.startswith("__"):
                raise AttributeError(f"module {old!r} has no attribute {name!r}")
            return getattr(import_module(NAMES.get(f"{old}.{name}", new)), name)

        vars(module)["__getattr__"] = __getattr__
        vars(module)["__doc__"] = f"Moved to `{new}`."


def find_old_paths() -> None:
    """Let Python find the old paths, after all that it finds without.

    Example:
        >>> find_old_paths()
    """
    if not any(isinstance(finder, _OldPaths) for finder in sys.meta_path):
        sys.meta_path.append(_OldPaths())


def _warn(old: str, new: str, stacklevel: int) -> None:
    warnings.warn(
        f"{old} is {new} since version 0.2, and is found under its old name until 0.3. Import it from there.",
        DeprecationWarning,
        stacklevel=stacklevel,
    )
