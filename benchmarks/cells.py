"""Cells of two simulators beside SCVI and ComBat: `python -m benchmarks.cells [--quick]`, then `--render`.

One thread, CPU seconds. Three batches of uneven composition. Every run is a line of `results/cells.jsonl`, written as
soon as it is made; runs that are there are passed over. Needs scvi-tools, which is left out if it is not there:
`pip install scvi-tools==1.4.2` beside the torch that is there. `benchmarks.cell_queries` adds new cells and lineages.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import horoball as hb
from benchmarks.cell_models import MODELS, Data, available
from benchmarks.cell_scores import SCORES, judged
from benchmarks.table import markdown

RESULTS = Path(__file__).parent / "results" / "cells.jsonl"


def data(simulator: str, cells: int, genes: int, seed: int) -> Data:
    if simulator == "splatter":
        from tests.cells.splatter import splatter

        truth = splatter(cells, genes, 3, batch_scale=0.5, uneven=0.4, seed=seed)
        return Data(truth.cells, "stem", truth.shares)
    made = hb.cells.simulate(depth=3, cells=cells, genes=genes, batches=3, seed=seed)
    made.obs["type"], made.obs["time"] = made.obs["branch"], made.obs["depth"]
    return Data(made, "0", None)


def stored(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def known(path: Path, setting: dict[str, Any]) -> bool:
    return any(all(line.get(name) == value for name, value in setting.items()) for line in stored(path))


def keep(path: Path, line: dict[str, Any]) -> None:
    rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in line.items()}
    print(rounded, file=sys.stderr, flush=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(rounded) + "\n")


def figure(values: Sequence[float | None], digits: int = 3) -> str:
    """Mean of several seeds with their standard deviation; empty where nothing was measured."""
    there = [value for value in values if value is not None]
    if not there:
        return ""
    return f"{np.mean(there):.{digits}f}" + (f" ± {np.std(there):.{digits}f}" if len(there) > 1 else "")


def render(lines: Sequence[dict[str, Any]]) -> str:
    """The table of all maps, one row for each model and setting."""
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in lines:
        if line["what"] == "map":
            size = f"{line['cells']} × {line['genes']}"
            rows.setdefault((line["data"], size, line["d"], line["model"]), []).append(line)
    order = list(MODELS)
    made = []
    for key, runs in sorted(rows.items(), key=lambda row: (*row[0][:3], order.index(row[0][3]))):
        shown = [figure([run[name] for run in runs]) for name in SCORES]
        epochs = "" if not runs[0]["epochs"] else figure([float(run["epochs"]) for run in runs], 0).split(" ")[0]
        cpu = figure([run["cpu"] for run in runs], 0).split(" ")[0]
        made.append([*map(str, key), str(len(runs)), epochs, *shown, cpu])
    titles = ["data", "cells × genes", "d", "model", "seeds", "epochs", "batch, excess", "iLISI", "same type", "cLISI"]
    return markdown([*titles, "pseudotime", "denoised", "genes, AUC", "CPU s"], made)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few cells, one epoch, without SCVI")
    parser.add_argument("--render", action="store_true", help="print the table of the runs that are there")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=None, help="of all models; the default of each if not given")
    parser.add_argument("--cells", type=int, default=1500)
    parser.add_argument("--genes", type=int, default=500)
    parser.add_argument("--simulators", nargs="+", default=["splatter", "tree"])
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2, 10])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args(arguments)
    if options.quick:
        options.seeds, options.epochs, options.cells, options.genes, options.dimensions = [0], 1, 200, 60, [2]
        options.models = [name for name in options.models if not name.startswith("SCVI")]
    warnings.simplefilter("ignore")  # of scvi-tools' packages
    asked = [] if options.render else [name for name in options.models if available(name)]
    for name in asked:  # imports and compilation are not counted
        MODELS[name](data("splatter", 100, 30, 0), 2, 1, 0)
    for seed in options.seeds:
        for simulator in options.simulators:
            for d in options.dimensions:
                for name in asked:
                    size = {"cells": options.cells, "genes": options.genes}
                    setting = {"what": "map", "data": simulator, **size, "d": d, "model": name, "seed": seed}
                    if known(options.results, setting):
                        continue
                    given = data(simulator, options.cells, options.genes, seed)
                    torch.set_num_threads(1)  # numba, by scanpy's neighbors, sets another number
                    start = time.process_time()
                    found = MODELS[name](given, d, options.epochs, seed)
                    cpu = time.process_time() - start
                    keep(options.results, setting | {"epochs": found.epochs, **judged(given, found), "cpu": cpu})
    print(render(stored(options.results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
