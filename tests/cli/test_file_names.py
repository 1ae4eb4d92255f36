"""Names of files that are not UTF-8: every command takes them, and none fails after its work is done."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.commands import done, refused

ODD = os.fsdecode(b"caf\xe9")
FAST = ["--quiet", "--hidden", "4", "--max-epochs", "1"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Other systems have no such names.")


@pytest.fixture(autouse=True)
def _a_process_of_its_own() -> Iterator[None]:
    """Commands seed the global generator."""
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with an odd name in an odd folder, and runs beside it."""
    folder = tmp_path_factory.mktemp("names")
    (folder / ODD).mkdir()
    stem = folder / ODD / ODD
    x = np.random.default_rng(0).normal(size=(40, 3))
    np.save(f"{stem}.npy", x)
    np.savetxt(f"{stem}.csv", x, delimiter=",", header="a,b,c", comments="")
    with Path(f"{stem}.parquet").open("wb") as file:
        pq.write_table(pa.table(list(map(pa.array, x.T)), names=["a", "b", "c"]), file)
    Path(f"{stem}.txt").write_text("a b\nb c\nc d\nd a\n")
    done("fit", f"{stem}.csv", "-o", folder / "run", *FAST)
    done("graph", "fit", f"{stem}.txt", "-o", folder / "graph", "--quiet", "--max-epochs", "1")
    return folder


@pytest.mark.parametrize("ending", ["csv", "npy", "parquet"])
def test_tables_with_such_a_name_are_read(ending: str, folder: Path, tmp_path: Path) -> None:
    data = folder / ODD / f"{ODD}.{ending}"
    done("fit", data, "-o", tmp_path / "run", *FAST)
    done("embed", tmp_path / "run", data, "-o", tmp_path / "z.parquet")
    done("embed", tmp_path / "run", data, "-o", tmp_path / "parts")
    done("evaluate", tmp_path / "run", data, "--samples", 2)


@pytest.mark.parametrize("command", ["view", "report"])
def test_a_page_shows_what_can_be_shown_of_such_a_name(command: str, folder: Path, tmp_path: Path) -> None:
    data, page = folder / ODD / f"{ODD}.csv", tmp_path / "page.html"
    if command == "view":
        done("view", folder / "run", data, "-o", page)
    else:
        done("report", data, "-o", page, "--seeds", 1, "--max-epochs", 1, "--hidden", 4)
    assert "caf\ufffd" in page.read_text(encoding="utf-8")


REFUSED = {
    "fit": ["rows.csv", "-o", ODD],
    "embed": ["run", "rows.csv", "-o", f"{ODD}.parquet"],
    "embed, run": ["embed", ODD, "rows.csv", "-o", "z.parquet"],
    "evaluate": [ODD, "rows.csv"],
    "info": [ODD],
    "view": ["run", "rows.csv", "-o", f"{ODD}.html"],
    "report": ["rows.csv", "-o", f"{ODD}.html"],
    "sample": ["run", "-o", f"{ODD}.parquet"],
    "export": ["run", "-o", f"{ODD}.onnx"],
    "graph fit": ["edges.txt", "-o", ODD],
    "graph embed": ["run", "-o", f"{ODD}.parquet"],
    "graph evaluate": [ODD],
    "graph info": [ODD],
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_output_with_such_a_name_is_refused_before_any_work(case: str) -> None:
    command = [] if "," in case else case.split()
    assert "is not UTF-8" in refused(*command, *REFUSED[case])
