"""Embeddings of tables of any size: Parquet files of some hundred thousand rows each.

A file is written under another name and renamed when it is whole. What is there is not written again, so that a command
that was stopped or killed goes on where it was. Rank r of n writes the files r, r + n, …, which needs no word with the
others: n processes on n machines do as well as those of torchrun.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.data.table import Table
from horoball.training.run import Run
from horoball.training.whole import whole_file

__all__ = ["ABOUT", "ROWS", "embed_file", "embed_folder"]

ABOUT = "embedding.json"
ROWS = 1 << 18  # of a file: some seconds of work, some megabytes
_GROUP = 1 << 16  # rows of a row group: the writer holds a record of every group


def embed_file(run: Run, table: Table, path: Path, first: int = 0) -> int:
    """Write the places of all rows to one Parquet file.

    Its columns are `row`, the number of a row, or the rows' names under the name they have in their source; the ball
    coordinates `z0`, `z1` …; `radius`, the distance from the origin; and `scale`, the posterior's.

    Args:
        run: The fitted model.
        table: The rows.
        path: The file.
        first: Number of the first row.

    Returns:
        Number of rows.

    Example:
        >>> import numpy as np, pyarrow.parquet as pq, tempfile
        >>> from horoball.data import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.run import train
        >>> table = ArrayTable(np.random.default_rng(0).normal(size=(100, 4)))
        >>> path = Path(tempfile.mkdtemp()) / "z.parquet"
        >>> embed_file(train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1)), table, path)
        100
        >>> pq.read_table(path).column_names
        ['row', 'z0', 'z1', 'radius', 'scale']
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    d = run.model.prior.loc.shape[0]
    names = table.read_names()
    if names is not None and not isinstance(names, pa.ChunkedArray):
        names = pa.array(names)
    kind = pa.int64() if names is None else names.type
    numbers = [*(f"z{i}" for i in range(d)), "radius", "scale"]
    schema = pa.schema([(table.name_column, kind), *((name, pa.float64()) for name in numbers)])
    rows = 0
    # A dictionary of numbers that hardly repeat takes a third of the time, and saves nothing.
    dictionaries: list[str] = [] if names is None else [table.name_column]
    options: dict[str, Any] = {"use_dictionary": dictionaries, "write_page_checksum": True}
    with whole_file(path) as part, pq.ParquetWriter(part, schema, **options) as writer:
        for block in _joined(run.places(table), _GROUP):
            end = rows + len(block)
            named = pa.array(np.arange(first + rows, first + end)) if names is None else names[rows:end]
            writer.write_table(pa.table([named, *map(pa.array, block.T.numpy())], schema=schema))
            rows = end
    return rows


def embed_folder(
    run: Run,
    table: Table,
    folder: Path,
    *,
    rows: int = ROWS,
    rank: int = 0,
    ranks: int = 1,
    done: Callable[[int], None] = lambda rows: None,
) -> int:
    """Write the places of all rows to the files of a folder, those of one rank, and those that are not there yet.

    Args:
        run: The fitted model.
        table: The rows.
        folder: The folder; it may hold a part of the same files.
        rows: Rows of a file; row groups of a source are not cut, so it may be more.
        rank: Whose files are written.
        ranks: How many share the work.
        done: Called with the number of rows of each file that is there.

    Returns:
        Number of rows that were written now.

    Example:
        >>> import numpy as np, tempfile
        >>> from horoball.data import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.run import train
        >>> table = ArrayTable(np.random.default_rng(0).normal(size=(100, 4)))
        >>> run = train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1))
        >>> folder = Path(tempfile.mkdtemp())
        >>> embed_folder(run, table, folder, rows=40), embed_folder(run, table, folder, rows=40)
        (100, 0)
        >>> sorted(file.name for file in folder.iterdir())[1:]
        ['part-00000.parquet', 'part-00001.parquet', 'part-00002.parquet']
    """
    import pyarrow.parquet as pq

    shards = table.shards(rows)
    about = {"model": _digest(run), "rows": [shard.rows for shard in shards]}
    _expect(folder, about | {"table": table.fingerprint(), "names": table.name_column})
    first = written = 0
    for number, shard in enumerate(shards):
        path = folder / f"part-{number:05d}.parquet"
        if number % ranks == rank:
            if not path.exists() or pq.read_metadata(path).num_rows != shard.rows:
                written += embed_file(run, shard, path, first)
            done(shard.rows)
        first += shard.rows
    return written


def _expect(folder: Path, about: dict[str, Any]) -> None:
    """Refuse a folder with another embedding; note in a new one what it will hold."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ABOUT
    if not path.exists():
        if any(folder.glob("*.parquet")):
            raise ValueError(f"{folder} holds Parquet files but no {ABOUT}. Choose an empty folder.")
        with whole_file(path, mark=f".{os.getpid()}") as part:  # other ranks write the same
            part.write_text(json.dumps(about))
    there = json.loads(path.read_text())
    other = {
        "model": "by another model",
        "rows": "of other rows",
        "table": "of another table",
        "names": "by other names",
    }
    for name, what in other.items():
        if there.get(name, about[name]) != about[name]:  # older folders do not say all
            raise ValueError(f"{folder} holds an embedding {what}. Choose another folder, or remove it.")


def _digest(run: Run) -> str:
    """Of the weights and the scaling."""
    digest = hashlib.sha256()
    tensors = dict(run.model.state_dict())
    if run.scaler is not None:
        tensors |= {"scaler.mean": run.scaler.mean, "scaler.std": run.scaler.std}
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _joined(blocks: Iterable[Tensor], rows: int) -> Iterator[Tensor]:
    """Blocks of some rows or more."""
    waiting: list[Tensor] = []
    for block in blocks:
        waiting.append(block)
        if sum(map(len, waiting)) >= rows:
            yield torch.cat(waiting)
            waiting = []
    if waiting:
        yield torch.cat(waiting)
