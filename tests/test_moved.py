"""Import paths of the version before: they are found, and say where the new ones are."""

from __future__ import annotations

import importlib
import sys

import pytest

from horoball import _moved

HERE = __file__


def test_a_name_that_has_moved_warns_where_it_is_imported() -> None:
    record = importlib.import_module("horoball.training.record")
    with pytest.warns(DeprecationWarning, match=r"TableRecord since version 0\.2") as told:
        found = record.TableRecord
    assert found.__name__ == "TableRecord"
    assert told[0].filename == HERE


def test_a_module_that_has_moved_is_found_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_moved.MODULES, "horoball.old_manifolds", "horoball.manifolds")
    monkeypatch.setitem(_moved.MODULES, "horoball.old_manifolds.ball", "horoball.manifolds.poincare_ball")
    monkeypatch.setitem(_moved.NAMES, "horoball.old_manifolds.mlp", "horoball.nn")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    _moved.find_old_paths()
    for name in ("horoball.old_manifolds", "horoball.old_manifolds.ball"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.warns(DeprecationWarning, match=r"is horoball\.manifolds since") as told:
        from horoball.old_manifolds import PoincareBall, mlp  # type: ignore[import-not-found]
    with pytest.warns(DeprecationWarning, match=r"is horoball\.manifolds\.poincare_ball since"):
        from horoball.old_manifolds.ball import PoincareBall as Same  # type: ignore[import-not-found]
    assert PoincareBall is Same
    assert callable(sys.modules["horoball.old_manifolds.ball"])
    assert mlp.__module__ == "horoball.nn.mlp"
    assert [warning.filename for warning in told] == [HERE]
    for name in ("horoball.old_manifolds", "horoball.old_manifolds.ball"):
        monkeypatch.delitem(sys.modules, name)


def test_what_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("horoball.wings")
    with pytest.raises(AttributeError, match="no attribute 'wings'"):
        importlib.import_module("horoball.training.record").wings  # noqa: B018
