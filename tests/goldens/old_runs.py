"""Runs of version 0.1, and where it put their rows: `python tests/goldens/old_runs.py FOLDER`, with the code of 0.1.

They are of the last code before 0.2. Nothing is random here but the weights.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).with_name("runs-0.1")
FAST: dict[str, Any] = {"max_epochs": 1, "hidden": (4,), "batch_size": 16, "random_state": 7}
TREE = [(f"n{i}", f"n{(i - 1) // 2}") for i in range(1, 12)]
PLACE, COLUMN = np.arange(32)[:, None], np.arange(3)
NUMBERS = (PLACE * (7 + 3 * COLUMN) % 31 / 4.0 + COLUMN).astype(np.float64)
COUNTS = (PLACE * (5 + 2 * COLUMN) % 13 * (PLACE % 3 > 0)).astype(np.float64)


def mixed() -> Any:
    """Columns of several kinds, with gaps."""
    import pandas as pd

    kinds, place = np.array(["a", "b", "c"], object), PLACE[:, 0]
    return pd.DataFrame(
        {
            "height": np.where(place % 9 == 4, np.nan, NUMBERS[:, 0] + 0.5),
            "kind": np.where(place % 7 == 3, None, kinds[place % 3]),
            "visits": COUNTS[:, 1].astype(int),
            "smokes": place % 2 == 0,
        }
    )


def cells() -> Any:
    """Cells of two batches."""
    import anndata
    import pandas as pd

    counts = (np.arange(24)[:, None] * np.arange(3, 9) % 7 + 1).astype(np.float32)
    found = anndata.AnnData(counts, layers={"counts": counts.copy()})
    found.obs_names = [f"cell {i}" for i in range(24)]
    found.obs["batch"] = pd.Categorical(["one", "two"] * 12)
    return found


def _table(rows: Callable[[], Any], **options: Any) -> tuple[Callable[[Path], None], Callable[[Path], Any]]:
    def write(folder: Path) -> None:
        from horoball import PoincareVAE

        PoincareVAE(**FAST, **options).fit(rows()).save(folder)

    def read(folder: Path) -> Any:
        from horoball import PoincareVAE

        return PoincareVAE.load(folder).transform(rows())

    return write, read


def named() -> Any:
    """The numbers, as the file that the command read has them."""
    import pandas as pd

    return pd.DataFrame(NUMBERS, columns=["a", "b", "c"])


def _write_by_command(folder: Path) -> None:
    """As `horoball fit` leaves it, with its checkpoint and what it wrote down of training."""
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "rows.csv"
        named().to_csv(file, index=False)
        options = ["--max-epochs", "1", "--hidden", "4", "--batch-size", "16", "--seed", "7"]
        command = [sys.executable, "-c", "from horoball.cli import app; app()", "fit"]
        subprocess.run([*command, file, "-o", folder, *options], check=True)


def _write_cells(folder: Path) -> None:
    from horoball.cells import fit

    options = {key: value for key, value in FAST.items() if key != "hidden"}
    fit(cells(), batch_key="batch", hidden=(4,), n_neighbors=3, **options).save(folder)


def _read_cells(folder: Path) -> Any:
    from horoball.cells import CellModel

    return CellModel.load(folder).embed(cells(), n_neighbors=3)


def _write_graph(folder: Path) -> None:
    from horoball import PoincareGraphVAE

    PoincareGraphVAE(max_epochs=2, random_state=7).fit(TREE).save(folder)


def _read_graph(folder: Path) -> Any:
    from horoball import PoincareGraphVAE

    return PoincareGraphVAE.load(folder).embedding_


# How a run of each kind is written, and how the places of its rows are read.
KINDS: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any]]] = {
    "numbers": _table(lambda: NUMBERS),
    "counts": _table(lambda: COUNTS, likelihood="negative_binomial"),
    "mixed": _table(mixed),
    "vectors": _table(lambda: NUMBERS + 1.0, likelihood="von_mises_fisher"),
    "command": (_write_by_command, _table(named)[1]),
    "cells": (_write_cells, _read_cells),
    "graph": (_write_graph, _read_graph),
}


def places(folder: Path) -> list[list[float]]:
    """Where the run of a folder, which its kind names, puts its rows."""
    return np.asarray(KINDS[folder.name][1](folder)).astype(np.float64).tolist()


def main(folder: Path) -> None:
    """Write a run of every kind, and where the code at hand puts its rows."""
    said = {}
    for kind, (write, _) in KINDS.items():
        write(folder / kind)
        said[kind] = [[float(f"{x:.7g}") for x in row] for row in places(folder / kind)]
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(said[name])}" for name in sorted(said))
    (folder / "places.json").write_text(f"{{\n{rows}\n}}\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of one epoch
    main(Path(sys.argv[1]))
