"""What other packages bring: plugins that register classes and readers, optional dependencies, and the table formats.

Plugins: modules of other installed packages that register likelihoods, posterior families or readers. A package names
its module under the entry-point group `horoball.plugins`. Only what is installed is imported: neither a run's folder
nor a data file can name a module to import.

Table formats that come with the package: which module reads files with which ending. This module imports nothing, so
that the help text of a command can name the formats without importing torch. The readers register themselves with
`horoball.tables.formats.table_reader`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from threading import RLock
from typing import Any, Generic, TypeVar

GROUP = "horoball.plugins"
_lock = RLock()  # a plugin may ask a registry while it is imported
_loaded = False


def load_plugins() -> None:
    """Import the modules of all installed plugins, once per process.

    Raises:
        ImportError: A plugin could not be imported; the message names its package.

    Example:
        >>> load_plugins()
    """
    global _loaded
    with _lock:
        if _loaded:
            return
        _loaded = True
        for entry in entry_points(group=GROUP):
            try:
                entry.load()
            except Exception as error:
                _loaded = False  # the next one who asks is told as well
                package = entry.dist.name if entry.dist is not None else entry.value
                raise ImportError(
                    f"The plugin {entry.value!r} of the package {package!r} cannot be imported: "
                    f"{type(error).__name__}: {error} Update or uninstall {package!r}."
                ) from error


def import_plugin(name: str) -> None:
    """Import a module, or a file that ends in .py, that the person who runs a command has named; once, if named again.

    Neither a run's folder nor a data file is ever asked for such a name.

    Raises:
        ImportError: There is none, or it fails; the message says why.

    Example:
        >>> import_plugin("json")
    """
    try:
        if not name.endswith(".py"):
            importlib.import_module(name)
            return
        module = name.rpartition("/")[2].removesuffix(".py")
        spec = importlib.util.spec_from_file_location(module, name)
        if spec is not None and getattr(sys.modules.get(module), "__file__", None) == spec.origin:
            return
        if spec is None or spec.loader is None or module in sys.modules:
            raise ImportError(f"a module {module!r} is there already" if module in sys.modules else "it is no module")
        sys.modules[module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module])
    except Exception as error:
        raise ImportError(
            f"The plugin {name!r} cannot be imported: {type(error).__name__}: {error}. Name an installed module, or a "
            "file such as ./my_module.py."
        ) from error


T = TypeVar("T", bound=type)
_LONGEST = 40  # characters of a name in a message: it may come from a file
_LONGEST_SPEC = 2000  # characters of a name with its settings

OUTSIDE = "(from outside)"  # stands for what no file can name


class UnknownNameError(ValueError):
    """Nothing is registered under a name."""


class Registry(Generic[T]):
    """Classes by their `name`. Plugins are imported when a name is not known, or when all names are asked for.

    Example:
        >>> shapes: Registry[type] = Registry("shape")
        >>> @shapes.register
        ... class Round:
        ...     name = "round"
        >>> shapes["round"].__name__, list(shapes)
        ('Round', ['round'])
        >>> shapes["square"]
        Traceback (most recent call last):
        ...
        horoball.plugins.UnknownNameError: Unknown shape 'square'. Choose one of: round. A shape of another ...
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._classes: dict[str, T] = {}

    def register(self, kind: T) -> T:
        """Add a class under its `name`; also a decorator. The same class may be registered again, as notebooks do.

        Raises:
            ValueError: Another class has this name.
        """
        name = getattr(kind, "name", None)
        if not isinstance(name, str) or not name:
            raise TypeError(f"{kind.__name__} needs a class attribute `name`, a text, to be registered under.")
        other = self._classes.get(name, kind)
        if (other.__module__, other.__qualname__) != (kind.__module__, kind.__qualname__):
            raise ValueError(
                f"The {self.what} {name!r} is {other.__module__}.{other.__qualname__} already. Choose another name "
                f"for {kind.__module__}.{kind.__qualname__}."
            )
        self._classes[name] = kind
        return kind

    def check(self, name: str, own: Sequence[str] = ()) -> None:
        """Reject a name under which nothing is registered.

        Args:
            name: The name.
            own: Other names that would do, for the message.

        Raises:
            UnknownNameError: The message lists the names there are.
        """
        if name not in self._classes:
            load_plugins()
        if name not in self._classes:
            shown = repr(name) if len(name) <= _LONGEST else f"{name[:_LONGEST]!r}…"
            names = ", ".join((*own, *self._classes))
            raise UnknownNameError(
                f"Unknown {self.what} {shown}. Choose one of: {names}. A {self.what} of another package needs that "
                "package installed."
            )

    def holds(self, name: str, kind: type) -> bool:
        """Whether a class is the one under a name."""
        return self._classes.get(name) is kind

    def add(self, name: str, kind: T) -> None:
        """Add a class of another library under a name of ours.

        Example:
            >>> shapes: Registry[type] = Registry("shape")
            >>> shapes.add("number", int)
            >>> shapes["number"]
            <class 'int'>
        """
        self._classes[name] = kind

    def named(self, given: Any) -> tuple[str, Any]:
        """What a setting says: the name with settings, for a file, and what was given, if the name alone is not enough.

        Args:
            given: A name, a class or function, one with some arguments bound by `functools.partial`, or an instance.

        Example:
            >>> shapes: Registry[type] = Registry("shape")
            >>> shapes.add("number", int)
            >>> shapes.named("number"), shapes.named(functools.partial(int, base=2)), shapes.named(print)[0]
            (('number', None), ('number:{"base": 2}', None), '(from outside)')
        """
        if isinstance(given, str):
            return given, None
        settings: dict[str, Any] = {}
        made_by, plain = given, not isinstance(given, functools.partial)
        if not plain:
            made_by, settings = given.func, given.keywords
            plain = not given.args
        home = made_by if isinstance(made_by, type) else type(made_by)
        name = next((name for name, kind in self._classes.items() if kind is home), None)
        if name is None:
            return OUTSIDE, given
        if plain and isinstance(made_by, type):
            return _spec(name, settings), None
        if isinstance(getattr(given, "settings", None), dict):
            return _spec(name, given.settings), given
        return OUTSIDE, given

    def settled(self, spec: str, own: Sequence[str] = ()) -> tuple[T, dict[str, Any]]:
        """The class and the settings that a name stands for, such as 'conv' or 'conv:{"channels": 8}'.

        Args:
            spec: The name.
            own: Other names that would do, for the message.

        Raises:
            ValueError: There is no such class, or it has no such settings.
        """
        name, _, text = spec.partition(":")
        if spec == OUTSIDE:
            raise ValueError(
                f"The {self.what} of this model was made outside of it and has no name. Register its class, and give "
                "the name."
            )
        self.check(name, own)
        home = self[name]
        if not text:
            return home, {}
        try:
            settings = json.loads(text) if len(spec) <= _LONGEST_SPEC else None
        except (ValueError, RecursionError):
            settings = None
        known = inspect.signature(home).parameters
        if not isinstance(settings, dict) or not all(setting in known for setting in settings):
            raise ValueError(
                f"The {self.what} {name!r} takes settings as JSON, such as {name}:{{...}}, from: {', '.join(known)}; "
                f"got {text[:60]!r}."
            )
        return home, settings

    def __getitem__(self, name: str) -> T:
        """The class of a name; see `check`."""
        self.check(name)
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        """The names, in the order in which they were registered."""
        load_plugins()
        return iter(self._classes.copy())


def _spec(name: str, settings: dict[str, Any]) -> str:
    try:
        return f"{name}:{json.dumps(settings, sort_keys=True)}" if settings else name
    except TypeError as error:
        raise TypeError(f"Settings of {name!r} are numbers, texts, truths and lists of them: {error}.") from None


def called_with(make: Callable[..., Any], offered: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Call a class or function with settings, and with those of the arguments offered that it names.

    Example:
        >>> called_with(lambda d, outputs: (d, outputs), {"d": 2, "outputs": 5, "generator": None}, {})
        (2, 5)
    """
    taken = inspect.signature(make).parameters
    every = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    bound = make.keywords if isinstance(make, functools.partial) else {}
    return make(**{n: v for n, v in offered.items() if (every or n in taken) and n not in bound} | settings)


def lacking(part: object, protocol: type) -> list[str]:
    """The public members of a protocol that an object has not, in alphabetical order."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    names = {name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", ()))}
    return sorted(name for name in names if not name.startswith("_") and not hasattr(part, name))


_NEEDS = {  # optional packages: what needs them, and the extra that has them
    "anndata": ("Cells need anndata", "cells"),
    "anywidget": ("A widget needs anywidget", "notebook"),
    "faiss": ("Search needs FAISS", "search"),
    "geoopt": ("GeooptBall needs geoopt", "benchmarks"),
    "huggingface_hub": ("The Hub needs huggingface_hub", "hub"),
    "matplotlib": ("Plots need matplotlib", "plot"),
    "networkx": ("A networkx graph needs networkx", "graph"),
    "openpyxl": ("Spreadsheets (.xlsx) need openpyxl", "excel"),
    "pandas": ("A data frame needs pandas", ""),
    "torch_geometric": ("This needs PyTorch Geometric", "graph"),
}


def required(module: str) -> Any:
    """An optional module, such as "faiss"; where its package is missing, the error says how to install it."""
    package = module.partition(".")[0]
    if module in sys.modules and sys.modules[package] is not None:
        return sys.modules[module]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch_geometric and geoopt call the deprecated torch.jit.script when imported
        try:
            importlib.import_module(package)
        except ModuleNotFoundError:
            need, extra = _NEEDS[package]
            name = f'"horoball[{extra}]"' if extra else package
            raise ImportError(f"{need}. Install it with: pip install {name}.") from None
        return importlib.import_module(module)


TABLE_FORMATS = {
    ".csv": "horoball.tables.delimited",
    ".tsv": "horoball.tables.delimited",
    ".parquet": "horoball.tables.parquet",
    ".csv.gz": "horoball.tables.frames",
    ".tsv.gz": "horoball.tables.frames",
    ".zip": "horoball.tables.frames",
    ".xlsx": "horoball.tables.frames",
    ".feather": "horoball.tables.frames",
    ".arrow": "horoball.tables.frames",
    ".jsonl": "horoball.tables.frames",
    ".npy": "horoball.tables.numpy_files",
    ".npz": "horoball.tables.numpy_files",
    ".h5ad": "horoball.tables.anndata",
}


def one_of(endings: list[str]) -> str:
    """Endings as words of a sentence."""
    return " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
