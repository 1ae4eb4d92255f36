"""What commands print and write, with tiny data."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from tests.commands import run
from tests.goldens.fits import MANY, TALL, TREE
from tests.goldens.tables import MIXED, VECTORS

QUICK = ("--quiet", "--max-epochs", 2, "--hidden", 6, "--seed", 3)
LISTS = pd.DataFrame({"vector": [[float(x) for x in row] for row in VECTORS] * 4, "kind": ["a", "b"] * 24})


def _numbers() -> pd.DataFrame:
    return pd.DataFrame(TALL, columns=["u", "v", "w"]).assign(kind=["a", "b", "c"] * 24)


class Commands:
    """Files and runs in a folder, made when the first command asks for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """A file or a run by its name."""
        path = self.folder / name
        if not path.exists():
            self._make(name, path)
        return path

    def _make(self, name: str, path: Path) -> None:
        match name:
            case "numbers.csv":
                _numbers().to_csv(path, index=False)
            case "counts.csv":
                pd.DataFrame(MANY.astype(int), columns=list("pqrs")).to_csv(path, index=False)
            case "mixed.csv":
                pd.concat([MIXED] * 5).to_csv(path, index=False)
            case "vectors.parquet":
                LISTS.to_parquet(path)
            case "edges.csv":
                pd.DataFrame(TREE, columns=["child", "parent"]).to_csv(path, index=False)
            case "numbers":
                self.told("fit", self.path("numbers.csv"), "-o", path, "--label", "kind", *QUICK)
            case "mixed":
                self.told("fit", self.path("mixed.csv"), "-o", path, *QUICK)
            case "graph":
                self.told("graph", "fit", self.path("edges.csv"), "-o", path, "--max-epochs", 3, "--quiet", "--seed", 3)
            case _:
                raise KeyError(name)

    def told(self, *arguments: object) -> list[str]:
        """The exit code and the lines that a command printed, with the folder's own name left out."""
        with torch.random.fork_rng(devices=[]):
            result = run(*arguments)
        text = re.sub(r"\d+ kB", "# kB", result.output.replace(str(self.folder), "DIR"))
        return [f"exit {result.exit_code}", *(re.sub(r"\s+$", "", line) for line in text.splitlines())]

    def written(self, name: str, *arguments: object) -> list[str]:
        """What a command printed, and the file that it wrote."""
        output = self.folder / name
        lines = self.told(*arguments, "-o", output, "--force")
        return [*lines, *output.read_text(encoding="utf-8").splitlines()[:12]]


def cases(folder: Path) -> dict[str, Callable[[], list[str]]]:
    """Commands by what they are called here."""
    made = Commands(folder)
    path, told, written = made.path, made.told, made.written
    fresh = ("--force",)

    def groups() -> list[str]:  # which `place` needs
        return written("groups.csv", "tree", path("numbers"), path("numbers.csv"), "--draws", 0, "--levels", "2,4")

    def fit(name: str, *options: Any) -> Callable[[], list[str]]:
        output = folder / f"fit-{name}-{len(options)}"
        return lambda: told("fit", path(name), "-o", output, *QUICK, *options)

    return {
        "help": lambda: told("--help"),
        "fit help": lambda: told("fit", "--help"),
        "tree help": lambda: told("tree", "--help"),
        "graph help": lambda: told("graph", "--help"),
        "fit numbers": fit("numbers.csv", "--label", "kind"),
        "fit counts": fit("counts.csv"),
        "fit mixed": fit("mixed.csv"),
        "fit vectors": fit("vectors.parquet", "--kind", "vectors", "--label", "kind"),
        "fit refuses": lambda: told("fit", path("numbers.csv"), "-o", path("numbers"), *QUICK),
        "info": lambda: told("info", path("numbers")),
        "embed": lambda: written("map.csv", "embed", path("numbers"), path("numbers.csv")),
        "evaluate": lambda: told("evaluate", path("numbers"), path("numbers.csv"), "--samples", 20, "--quiet"),
        "sample": lambda: written("sample.csv", "sample", path("numbers"), "-n", 5, "--seed", 1),
        "impute": lambda: written("filled.csv", "impute", path("mixed"), path("mixed.csv"), "--samples", 10),
        "tree": lambda: written("tree.nwk", "tree", path("numbers"), path("numbers.csv"), "--by-label", "--draws", 5),
        "groups": groups,
        "place": lambda: groups() and written("places.csv", "place", path("numbers"), path("numbers.csv")),
        "view": lambda: told("view", path("numbers"), path("numbers.csv"), "-o", folder / "map.html", *fresh),
        "graph info": lambda: told("graph", "info", path("graph")),
        "graph embed": lambda: written("nodes.csv", "graph", "embed", path("graph")),
        "graph evaluate": lambda: told("graph", "evaluate", path("graph")),
        "graph tree": lambda: written("nodes.nwk", "graph", "tree", path("graph"), "--draws", 0),
    }
