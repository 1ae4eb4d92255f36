"""What is done with a run, a graph's run, an index or an embedding that was read, and what must come of it."""

from __future__ import annotations

import io
import json
import math
import unicodedata
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quality.fuzzing.run_seeds import layout, resume
from quality.fuzzing.tensors import stored

__all__ = ["use_embedding", "use_graph", "use_index", "use_resume", "use_run"]

Use = Callable[[], object]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Commands print what a person would see."""
        return True


def use_run(folder: Path) -> Use:
    """Load a run, embed rows, decode points, print what it says of itself."""
    from horoball.cli.models import info
    from horoball.tables import ArrayTable
    from horoball.vae.run import Run

    run = Run.load(folder)

    def use() -> None:
        rows = torch.cat(list(run.embed(ArrayTable(torch.ones(2, len(run.columns))))))
        _check_finite("the embedding", rows)
        _check_history(run)
        _check_plain(lambda: info.__wrapped__(folder))  # type: ignore[attr-defined]

    return use


def use_graph(folder: Path) -> Use:
    """Load a graph's run, embed its nodes, evaluate them, print what it says of itself."""
    from horoball.cli.graphs import evaluate_graph, info_graph
    from horoball.graphs.run import GraphRun

    run = GraphRun.load(folder)

    def use() -> None:
        _check_finite("the embedding", run.embed())
        _check_history(run)
        _check_plain(lambda: info_graph.__wrapped__(folder))  # type: ignore[attr-defined]
        _check_plain(lambda: evaluate_graph.__wrapped__(folder, sources=3))  # type: ignore[attr-defined]

    return use


def use_index(folder: Path) -> Use:
    """Load an index and search it."""
    from horoball.neighbors import Index

    index = Index.load(folder)

    def use() -> None:
        if len(index):
            distances, ids = index.search(index.points[:2], k=min(3, len(index)))
            _check_finite("the distances", distances)
            if int(ids.min()) < 0 or int(ids.max()) >= len(index):
                raise AssertionError("the ids are not of the index")
            _check_finite("the distances of ancestors", index.ancestors(0)[0])
        if len(index) and index._names is not None:
            index.names([0, len(index) - 1])
        repr(index)

    return use


def use_resume(folder: Path) -> Use:
    """Go on with a run; what it leaves is as a sound run leaves it."""
    run = resume(folder, resume=True)

    def use() -> None:
        expected, found = json.loads((folder / "layout.json").read_text()), layout(folder / "run")
        for name, there in found.items():
            if there != expected.get(name):
                raise AssertionError(f"leaves {name} of other names, types or shapes")
        for path in (folder / "run").glob("*.safetensors"):
            file = stored(path.read_bytes())
            for name, tensor in file.tensors.items() if file else ():
                if tensor.dtype.startswith("F") and not np.isfinite(tensor.array).all():
                    raise AssertionError(f"leaves {path.name} with {name} not finite")
        for line in (folder / "run" / "metrics.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if sorted(entry) != expected["metrics.jsonl"] or not all(map(_number, entry.values())):
                raise AssertionError(f"leaves metrics of other kinds: {line[:80]}")
        _check_history(run)

    return use


def use_embedding(folder: Path) -> Use:
    """Go on with an embedding; all files are whole at its end."""
    import pyarrow.parquet as pq

    from horoball.tables import ArrayTable
    from horoball.vae.files import embed_folder
    from horoball.vae.run import Run

    table = ArrayTable(torch.from_numpy(np.load(folder / "rows.npy")))
    run = Run.load(folder / "run")
    embed_folder(run, table, folder / "z", rows=8)

    def use() -> None:
        expected = torch.cat(list(run.embed(table))).numpy()
        for number in range(3):
            part, rows = folder / "z" / f"part-{number:05d}.parquet", expected[8 * number : 8 * number + 8]
            if pq.read_metadata(part).num_rows != len(rows):
                raise AssertionError(f"{part.name} is not of {len(rows)} rows")
            try:
                held = pq.read_table(part, page_checksum_verification=True, use_threads=False).to_pandas()
            except (OSError, ValueError):  # a page was damaged, and its checksum says so
                continue
            if not np.allclose(held[["z0", "z1"]].to_numpy(), rows):
                raise AssertionError(f"{part.name} holds other places than the model's")

    return use


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _check_history(run: Any) -> None:
    if not all(_number(value) for line in run.history for value in line.values()):
        raise AssertionError("its history is not of finite numbers")


def _check_finite(what: str, values: torch.Tensor) -> None:
    if not bool(torch.isfinite(values).all()):
        raise AssertionError(f"{what} is not finite")


def _check_plain(command: Callable[[], None]) -> None:
    """Run a command as at a terminal; what it prints has nothing in it that a terminal would obey."""
    with redirect_stdout(_Terminal()) as out:
        command()
    odd = {char for char in out.getvalue() if unicodedata.category(char) in ("Cc", "Cf") and char not in "\n\r\t"}
    if odd:
        raise AssertionError(f"prints {sorted(odd)!r}")
