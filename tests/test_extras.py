"""PyTorch Geometric is imported in silence, and its lack says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from horoball.graphs import Graph, vgae_scores
from horoball.plugins import required


def test_the_import_does_not_warn() -> None:
    # In a process of its own: here the library may have been imported before.
    code = "from horoball.plugins import required; required('torch_geometric.nn')"
    told = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stderr == ""


def test_the_extra_is_named_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(ImportError, match=r'pip install "horoball\[graph\]"'):
        required("torch_geometric.nn")
    with pytest.raises(ImportError, match="needs PyTorch Geometric"):
        vgae_scores(Graph.of([(0, 1)]), torch.tensor([[0, 1]]), epochs=1)


def test_a_module_that_the_library_does_not_have_is_told_as_such() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"torch_geometric\.no_such"):
        required("torch_geometric.no_such")
