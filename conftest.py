"""How tests are found. Nothing of the package is imported for it: whoever runs one test waits for that test alone."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Iterator
from doctest import DocTest, DocTestRunner
from functools import cached_property
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem, DoctestModule

ROOT = Path(__file__).parent
DOCUMENTED = {
    ROOT / "src": ROOT / "src",
    ROOT / "experiments": ROOT,
}  # folders of examples, and what imports start from


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for garbage after the tests are found, among what is new: of what is imported, nothing ever is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> DoctestModule | None:
    """The examples of docstrings; files of tests have none."""
    if file_path.suffix == ".py" and any(folder in file_path.parents for folder in DOCUMENTED):
        return Examples.from_parent(parent, path=file_path)
    return None


class Examples(DoctestModule):
    """The examples of a module: listed from its source, and imported when one of them is run."""

    def collect(self) -> Iterable[DoctestItem]:
        """An item for every docstring with an example."""
        runner = DocTestRunner()  # the module brings its own
        for name, line, text in self.listed:
            yield Example.from_parent(
                self, name=name, runner=runner, dtest=DocTest([], {}, name, str(self.path), line, text)
            )

    @cached_property
    def listed(self) -> list[tuple[str, int, str]]:
        """Name, line and text of every docstring with an example."""
        folder = next(start for folder, start in DOCUMENTED.items() if folder in self.path.parents)
        parts = self.path.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        return sorted(_docstrings(ast.parse(self.path.read_bytes()), name))

    @cached_property
    def imported(self) -> dict[str, DoctestItem]:
        """The examples as doctest finds them in the module."""
        found = {item.name: item for item in super().collect()}
        listed = [name for name, _, _ in self.listed]
        if sorted(found) != listed:
            raise self.CollectError(
                f"{self.path} has examples of {sorted(found)}, but {listed} were found in its text."
            )
        return found


class Example(DoctestItem):
    """The example of one docstring."""

    def setup(self) -> None:
        """Import the module."""
        found = self.getparent(Examples).imported[self.name]  # type: ignore[union-attr]
        self.dtest, self.runner = found.dtest, found.runner
        super().setup()


def _docstrings(node: ast.AST, name: str) -> Iterator[tuple[str, int, str]]:
    text = (
        ast.get_docstring(node, clean=False) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else None
    )
    if text is not None and ">>> " in text:
        yield name, getattr(node, "lineno", 1) - 1, text
    if not isinstance(node, ast.FunctionDef):
        for child in (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)):
            inner = f"{name}.{child.name}" if isinstance(child, ast.ClassDef | ast.FunctionDef) else name
            yield from _docstrings(child, inner)
