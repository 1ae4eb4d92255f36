"""Small sound runs, graphs' runs and embedding folders, each with what is needed to go on with it.

Beside the folder `run` or `z`, which is damaged, an input holds the rows or edges (`rows.npy`, `edges.json`), the
settings to go on with (`fit.json`), and what the files of a sound run look like at its end (`layout.json`).
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quality.fuzzing.folders import Folder
from quality.fuzzing.tensors import stored

__all__ = ["embedding_seeds", "layout", "resume", "run_seeds"]


class _StopError(Exception):
    """Training ends in the middle of an epoch."""


class _Stopping:
    """A progress that ends training at its second step, when the first has been kept."""

    def start(self, epochs: int, done: int) -> None:
        """Nothing."""

    def step(self, step: int, *_: Any) -> None:
        """End training."""
        if step == 2:
            raise _StopError

    def epoch(self, line: dict[str, float]) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


def resume(folder: Path, **options: Any) -> Any:
    """Fit as an input's settings say, or go on with its run."""
    from horoball.graphs import read_graph
    from horoball.graphs.run import train_graph
    from horoball.tables import ArrayTable
    from horoball.training import TrainConfig
    from horoball.vae.train import train

    fit = json.loads((folder / "fit.json").read_text())
    config = TrainConfig(**fit["config"] | options.pop("config", {}))
    if (folder / "edges.json").exists():
        graph = read_graph([tuple(pair) for pair in json.loads((folder / "edges.json").read_text())])
        return train_graph(graph, fit["model"], config, folder / "run", test=fit["test"], **options)
    rows = torch.from_numpy(np.load(folder / "rows.npy"))
    return train(ArrayTable(rows), fit["model"], config, folder / "run", **options)


def layout(folder: Path) -> dict[str, Any]:
    """Names, types and shapes of the tensors in a folder's files, and the names of the numbers of an epoch."""
    out: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        file = stored(path.read_bytes())
        if file is None:
            raise AssertionError(f"{path.name} cannot be taken apart")
        out[path.name] = {name: [t.dtype, list(t.array.shape)] for name, t in sorted(file.tensors.items())}
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return out | {"metrics.jsonl": sorted(json.loads(lines[-1]))}


def run_seeds() -> dict[str, list[Folder]]:
    """Runs to go on with: of tables and of graphs, at the end of an epoch and within one."""
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(20, 3, generator=generator) for _ in range(2)]
    tables, graphs = [], []
    config: dict[str, Any] = {"max_epochs": 2, "batch_size": 128}
    for number, x in enumerate((rows[0], rows[1], rows[0].abs().mul(3).round())):
        model = {"hidden": [4], "posterior": ("riemannian", "riemannian", "wrapped")[number]}
        tables.append(_ended({"model": model, "config": config}, {"rows.npy": _npy(x)}))
    half = {"max_epochs": 1, "batch_size": 9, "checkpoint_seconds": 0.0}
    tables.append(_stopped({"model": {"hidden": [4]}, "config": half}, {"rows.npy": _npy(rows[0])}))
    config |= {"validation": 0.0, "patience": 0, "learning_rate": 0.1}
    for number in range(4):  # each of another graph, of the same size
        nodes = [f"{'abcd'[number]}{i}" for i in range(6)]
        edges = [(nodes[i], nodes[j]) for i in range(6) for j in range(i) if (i + j) % 3]  # none is alone after a split
        fit = {"model": {"d": 2, "hidden": 2, "encoder": ("free", "gcn")[number % 2]}, "config": config, "test": 0.2}
        graphs.append(_ended(fit, {"edges.json": json.dumps(edges).encode()}))
    return {"resume, table": tables, "resume, graph": graphs}


def _npy(x: torch.Tensor) -> bytes:
    out = io.BytesIO()
    np.save(out, x.numpy())
    return out.getvalue()


def _ended(fit: dict[str, Any], given: dict[str, bytes]) -> Folder:
    """A run of one epoch that may go on for another."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, data in (given | {"fit.json": json.dumps(fit).encode()}).items():
            (folder / file).write_bytes(data)
        resume(folder, config={"max_epochs": 1})
        return _with_layout(folder)


def _stopped(fit: dict[str, Any], given: dict[str, bytes]) -> Folder:
    """A run that was stopped in its first epoch."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, data in (given | {"fit.json": json.dumps(fit).encode()}).items():
            (folder / file).write_bytes(data)
        with suppress(_StopError):
            resume(folder, progress=_Stopping())
        return _with_layout(folder)


def _with_layout(folder: Path) -> Folder:
    kept: Folder = {file: (folder / file).read_bytes() for file in _names(folder)}
    resume(folder, resume=True)
    return kept | {"layout.json": json.dumps(layout(folder / "run")).encode()}


def _names(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def embedding_seeds() -> dict[str, list[Folder]]:
    """Embeddings in several files, whole and in part, by two models of the same size."""
    from horoball.tables import ArrayTable
    from horoball.training import TrainConfig
    from horoball.vae.files import embed_folder
    from horoball.vae.train import train

    out: list[Folder] = []
    for seed in (0, 1):
        rows = torch.randn(20, 3, generator=torch.Generator().manual_seed(seed))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "rows.npy").write_bytes(_npy(rows))
            run = train(ArrayTable(rows), {"hidden": (4,)}, TrainConfig(max_epochs=1), folder / "run")
            embed_folder(run, ArrayTable(rows), folder / "z", rows=8)
            for unused in ("last", "best"):
                (folder / "run" / f"{unused}.safetensors").unlink()
            (folder / "run" / "metrics.jsonl").unlink()
            out.append({file: (folder / file).read_bytes() for file in _names(folder)})
            shutil.rmtree(folder / "z")
    return {"embedding folder": [*out, {name: data for name, data in out[0].items() if "00001" not in name}]}
