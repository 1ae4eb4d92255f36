"""What is public: the names that the reference lists, and the paths under which they are imported."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import horoball

ROOT = Path(__file__).parents[2]


def resolve(path: str) -> Any:
    """The object at a dotted path; paths that are deprecated are looked up as well."""
    names = path.split(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for k in range(len(names), 0, -1):
            try:
                value: Any = importlib.import_module(".".join(names[:k]))
            except ModuleNotFoundError:
                continue
            for name in names[k:]:
                value = getattr(value, name)
            return value
    raise ModuleNotFoundError(path)


def own_names(module: ModuleType) -> set[str]:
    """What a module defines without an underscore."""
    found: set[str] = set()
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return {name for name in found if not name.startswith("_")}


def names_of(module: ModuleType) -> set[str]:
    """What a module offers: what it says, or what it defines without an underscore."""
    return set(module.__all__) if hasattr(module, "__all__") else own_names(module)


def documented() -> list[str]:
    """The dotted paths of `docs/reference`, with the names that a module offers."""
    found: set[str] = set()
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        for path in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            value = resolve(path)
            found |= {f"{path}.{name}" for name in names_of(value)} if inspect.ismodule(value) else {path}
    return sorted(found)


def offered() -> list[str]:
    """The names of `__all__` of every package."""
    packages = [horoball, *(resolve(m.name) for m in pkgutil.walk_packages(horoball.__path__, "horoball.") if m.ispkg)]
    return sorted(f"{package.__name__}.{name}" for package in packages for name in package.__all__)


def _defaults(parameter: inspect.Parameter) -> str:
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    only = " (by name)" if parameter.kind is inspect.Parameter.KEYWORD_ONLY else ""
    value = parameter.default
    plain = isinstance(value, int | float | str | bool | tuple | type(None))
    given = "" if value is inspect.Parameter.empty else f"={value!r}" if plain else "=…"
    return f"{star}{parameter.name}{given}{only}"


def signature(path: str) -> str:
    """A name, what it is, and what it takes."""
    value, name = resolve(path), path.rpartition(".")[2]
    if isinstance(value, ModuleType):
        return f"module {name}"
    if not callable(value):
        return f"value {name}"
    kind = "class" if inspect.isclass(value) else "function"
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # of a class written in C, or a protocol
        return f"{kind} {name}"
    return f"{kind} {name}({', '.join(map(_defaults, parameters))})"


def public_names() -> list[str]:
    """The documented names wherever they live, which a new layout leaves as they are."""
    return sorted({signature(path) for path in documented()})
