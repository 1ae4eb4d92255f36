"""Import paths of the version before: they are found, and say where the new ones are."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import horoball
from horoball import _moved

HERE = __file__


@pytest.fixture(autouse=True)
def _imported_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module warns when it is imported, which another test may have done before."""
    for name in _moved.MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
        package, _, leaf = name.rpartition(".")
        if package == "horoball":
            monkeypatch.delitem(vars(horoball), leaf, raising=False)


def test_a_name_that_has_moved_warns_where_it_is_used() -> None:
    with pytest.warns(DeprecationWarning, match=r"horoball\.hierarchy\.Tree is horoball\.trees\.Tree since") as told:
        found = horoball.hierarchy.Tree  # type: ignore[attr-defined]
    assert found is horoball.trees.Tree
    assert told[0].filename == HERE


def test_a_package_that_has_moved_is_found_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"horoball\.data is horoball\.tables since") as told:
        from horoball.data import Graph, read  # type: ignore[import-not-found]
    assert read is horoball.tables.read
    assert Graph is horoball.graphs.Graph
    assert told[0].filename == HERE
    with pytest.warns(DeprecationWarning, match=r"horoball\.manifolds is horoball\.geometry since"):
        assert horoball.manifolds.PoincareBall is horoball.PoincareBall  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_module_that_has_moved_is_the_function_of_its_package_too() -> None:
    from horoball.cells.simulate import simulate  # type: ignore[import-not-found]

    assert horoball.cells.simulate(depth=1, cells=8, genes=4).shape == (8, 4)
    assert simulate(depth=1, cells=8, genes=4).shape == (8, 4)
    importlib.reload(horoball.cells)  # the function again, for those who come after


def test_nobody_is_warned_without_an_old_path() -> None:
    code = "import horoball, horoball.cells, horoball.report.page; horoball.PoincareVAE, horoball.PoincareGraphVAE"
    subprocess.run([sys.executable, "-W", "error::DeprecationWarning:horoball", "-c", code], check=True)


def test_the_finder_is_there_once_and_knows_nothing_but_old_paths() -> None:
    _moved.find_old_paths()
    (finder,) = [each for each in sys.meta_path if type(each).__module__ == _moved.__name__]
    for name in ("numpy", "data", "horoball", "horoball.tables", "horoball.wings", "horoball.data.wings"):
        assert finder.find_spec(name) is None
    code = "import sys, horoball; print(sys.meta_path[-1].__class__.__module__)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == _moved.__name__


def test_it_ends_with_version_0_3() -> None:
    assert tuple(map(int, horoball.__version__.split(".")[:2])) < (0, 3), "Remove horoball._moved and what imports it."


def test_what_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("horoball.wings")
    with pytest.raises(AttributeError, match="no attribute 'wings'"):
        horoball.hierarchy.wings  # type: ignore[attr-defined]  # noqa: B018
