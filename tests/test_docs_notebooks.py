"""The notebooks of the documentation run from top to bottom, and are stored without outputs."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ("table", "texts", "cells", "graph")
MOST_CELLS = 12
MOST_SECONDS = 60  # of CPU time, as wall time depends on what else the machine does

# What a kernel does, without one: cells in order, in one namespace, and the last expression of each is shown.
KERNEL = """
import ast, json, sys

def shown(value):
    if value is not None:
        html = getattr(value, "_repr_html_", None)
        assert html() if html else repr(value)

for number, code in enumerate(json.load(sys.stdin)):
    body = ast.parse(code, f"cell {number}").body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), f"cell {number}", "exec"), globals())
    if last is not None:
        shown(eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), globals()))
"""


def notebook(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "docs" / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))


def test_every_notebook_is_tested() -> None:
    assert {path.stem for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")} == set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_short_and_holds_no_outputs(name: str) -> None:
    stored = notebook(name)
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)
    assert stored["metadata"]["kernelspec"]["name"] == "python3"
    assert len(stored["cells"]) <= MOST_CELLS
    assert len({cell["id"] for cell in stored["cells"]}) == len(stored["cells"])
    assert stored["cells"][0]["source"][0].startswith("# ")
    for cell in stored["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    cells = ["".join(cell["source"]) for cell in notebook(name)["cells"] if cell["cell_type"] == "code"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, "-c", KERNEL],
        input=json.dumps(cells),
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.returncode == 0, ended.stderr[-4000:]
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < MOST_SECONDS, f"{name}.ipynb took {seconds:.0f} s of CPU time."
