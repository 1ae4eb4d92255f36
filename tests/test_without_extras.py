"""A table is fitted with what the package depends on, and nothing else; whatever is installed besides is hidden."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
MODULES = 110  # of the package, that a table's fit imports
NEED_AN_EXTRA = {
    "horoball.graphs.convolution": "graph",
    "horoball.nn.geoopt": "benchmarks",
    "horoball.viewer.widget": "notebook",
}
CODE = """
import json, pkgutil, sys, tempfile, warnings
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path

HIDDEN = set(json.loads(sys.argv[1]))


class Hide(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else super().find_spec(name, path, target)


sys.meta_path[:] = [Hide if finder is PathFinder else finder for finder in sys.meta_path]
warnings.simplefilter("ignore")  # of one epoch
import horoball

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "x.csv"
    file.write_text("a,b,c\\n" + "".join(f"{i % 7},{i % 5},{i / 9}\\n" for i in range(40)))
    x = next(horoball.tables.read(file).blocks()).numpy()
    model = horoball.PoincareVAE(max_epochs=1, hidden=(4,), random_state=0).fit(x)
    z = model.transform(x)
    model.save(Path(folder) / "run")
    slow = sorted({"sympy", "torch._dynamo"} & set(sys.modules))
    again = horoball.PoincareVAE.load(Path(folder) / "run").transform(x)
imported = [name for name in sys.modules if name.partition(".")[0] == "horoball"]
refused = {}
for module in pkgutil.walk_packages(horoball.__path__, "horoball."):
    if not module.name.endswith("__main__"):
        try:
            import_module(module.name)
        except ImportError as error:
            refused[module.name] = str(error)
found = {"shape": z.shape, "same": (z == again).all().item(), "imported": imported, "slow": slow, "refused": refused}
print(json.dumps(found))
"""


def needed() -> set[str]:
    """Distributions that the package depends on, and those that they depend on."""
    found: set[str] = set()
    wanted = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    left = [(requirement, "") for requirement in map(Requirement, wanted)]
    while left:
        requirement, extra = left.pop()
        name = normal(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            theirs = [Requirement(line) for line in metadata.requires(name) or []]
        except metadata.PackageNotFoundError:
            continue
        if name not in found or requirement.extras:
            left += [(each, extra) for each in theirs for extra in ("", *requirement.extras)]
        found.add(name)
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    keep = needed() | {"horoball", "setuptools"}  # torch asks for setuptools from Python 3.12 on
    owners = metadata.packages_distributions()
    hidden = sorted(name for name, dists in owners.items() if keep.isdisjoint(map(normal, dists)))
    assert {"anndata", "matplotlib", "pandas", "torch_geometric"}.issubset(hidden)
    ended = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(hidden)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_table_is_fitted_saved_and_loaded(told: dict[str, Any]) -> None:
    assert told["shape"] == [40, 2]
    assert told["same"]


def test_a_fit_imports_a_part_of_the_package_and_nothing_of_graphs_and_cells(told: dict[str, Any]) -> None:
    others = [name for name in told["imported"] if re.match(r"horoball\.(graphs|cells|viewer|report|cli)\b", name)]
    assert not others
    assert len(told["imported"]) <= MODULES, sorted(told["imported"])


def test_a_fit_imports_neither_the_compiler_of_torch_nor_sympy(told: dict[str, Any]) -> None:
    assert not told["slow"]


def test_what_needs_an_extra_says_which(told: dict[str, Any]) -> None:
    assert told["refused"].keys() == NEED_AN_EXTRA.keys(), told["refused"]
    for name, extra in NEED_AN_EXTRA.items():
        assert f'pip install "horoball[{extra}]"' in told["refused"][name]
