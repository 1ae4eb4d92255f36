"""An installed horoball, used: `python smoke.py [cells|graph|notebook|onnx|plot|search]` from an empty folder.

Without an argument there is no extra, and what needs one must say which. With one, what it is for must work.
"""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

import horoball as hb


def rows() -> torch.Tensor:
    return torch.randn(80, 4, generator=torch.Generator().manual_seed(0))


def core() -> None:
    for module in pkgutil.walk_packages(hb.__path__, "horoball."):
        try:
            importlib.import_module(module.name)
        except ImportError as error:  # which says what to install
            if 'pip install "horoball[' not in str(error):
                raise
    model = hb.PoincareVAE(max_epochs=2).fit(rows().numpy())
    z = model.transform(rows().numpy())
    assert z.shape == (80, 2)
    hb.view(z).save("map.html")
    model.save("run")
    assert (hb.PoincareVAE.load("run").transform(rows().numpy()) == z).all()
    Path("rows.csv").write_text("a,b,c\n" + "".join(f"{x},{y},{z}\n" for x, y, z in rows()[:, :3].tolist()))
    for command in ("fit rows.csv -o fitted --max-epochs 2", "embed fitted rows.csv -o z.parquet", "info fitted"):
        subprocess.run([sys.executable, "-m", "horoball", *command.split()], check=True, capture_output=True)


def cells() -> None:
    cells = hb.cells.simulate(depth=2, cells=100, genes=20)
    hb.cells.fit(cells, max_epochs=1)
    assert cells.obsm["X_poincare"].shape == (100, 2)


def graph() -> None:
    edges = torch.tensor([(i, (i - 1) // 2) for i in range(1, 31)])
    assert hb.PoincareGraphVAE(encoder="gcn", max_epochs=2).fit_transform(edges).shape == (31, 2)


def notebook() -> None:
    widget = hb.view([[0.0, 0.0], [0.5, 0.0]], labels=["a", "b"]).widget()
    widget.rows = [1]
    assert widget.selection == ["b"]


def onnx() -> None:
    hb.PoincareVAE(max_epochs=1).fit(rows().numpy()).save("run")
    subprocess.run(
        [sys.executable, "-m", "horoball", "export", "run", "-o", "encoder.onnx"], check=True, capture_output=True
    )
    assert Path("encoder.onnx").stat().st_size > 0


def plot() -> None:
    hb.plotting.points(0.5 * rows()[:, :2].tanh().numpy())


def search() -> None:
    z = rows()
    _, ids = hb.neighbors.Index(hb.PoincareBall()).add(z).search(z, k=1)
    assert ids.squeeze(-1).tolist() == list(range(80))


EXTRAS: dict[str, Callable[[], None]] = {
    "cells": cells,
    "graph": graph,
    "notebook": notebook,
    "onnx": onnx,
    "plot": plot,
    "search": search,
}


def main(extra: str = "") -> None:
    if extra:
        EXTRAS[extra]()
        return
    core()
    for name, use in EXTRAS.items():
        try:
            use()
        except (ImportError, subprocess.CalledProcessError) as error:
            said = str(error) + str(getattr(error, "stderr", b"") or "")
            assert f"horoball[{name}]" in said, f"{name}: {said}"
        else:
            raise AssertionError(f"{name} works without its extra: the core has a dependency too many.")


if __name__ == "__main__":
    main(*sys.argv[1:])
