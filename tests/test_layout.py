"""The layout of the repository: packages in layers, and commands in texts that exist.

Which package may import which is checked by import-linter; see pyproject.toml.
"""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
AROUND = ("benchmarks", "experiments", "quality")
# They take a tenth of a second each to import, and up to three; see tests/late.py.
SLOW = {"anndata", "dendropy", "geoopt", "h5py", "lancedb", "matplotlib", "networkx", "onnx", "onnxruntime"}
SLOW |= {"openpyxl", "polars", "psycopg", "scanpy", "torch_geometric", "examples", "horoball.graphs.convolution"}
PARTS = {
    path.stem
    for path in (ROOT / "src" / "horoball").iterdir()
    if (path / "__init__.py").exists() or path.suffix == ".py"
}


def test_import_contracts_cover_every_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert set(settings["root_packages"]) == {"horoball", *AROUND}
    named = {name.strip() for layer in settings["contracts"][0]["layers"] for name in layer.split("|")}
    assert named == {f"horoball.{part}" for part in PARTS - {"__init__", "__main__"}}


@pytest.mark.parametrize("folder", [".", "docs", "src", "tests", *AROUND])
def test_commands_of_the_repository_that_texts_name_exist(folder: str) -> None:
    found = (ROOT / folder).glob("*.md") if folder == "." else (ROOT / folder).rglob("*.*")
    texts = {path: path.read_text() for path in found if path.suffix in {".md", ".py"} and path.name != "CHANGELOG.md"}
    assert texts
    for path, text in texts.items():
        for name in re.findall(rf"-m ((?:{'|'.join(AROUND)})(?:\.\w+)+)", text):
            assert find_spec(name) is not None, f"{path}: {name}"


def test_tests_that_a_text_names_exist() -> None:
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for name in re.findall(r"tests/[\w/]+\.py", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists() or path.name == "CHANGELOG.md", f"{path}: {name}"


def test_slow_packages_are_imported_by_the_tests_that_use_them() -> None:
    found = []
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.parse(path.read_bytes()).body:
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            found += [f"{path}: {name}" for name in names if name in SLOW or name.partition(".")[0] in SLOW]
    assert not found, found
