"""Commands that keep an index of rows by the embedding of a model: `horoball index build`, `search` and others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horoball.cli.arguments import IS_PATH, Data, Device, Force, Id, Na, RunFolder, TableFile, check_outputs
from horoball.cli.console import Commands, app, print_table, reports_errors, say

if TYPE_CHECKING:
    from horoball.neighbors.index import Index
    from horoball.tables.table import Table
    from horoball.vae.run import Run

__all__: list[str] = []

index_app = typer.Typer(
    cls=Commands,
    help="Keep an index of rows, and find the nearest ones by a model's embedding.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(index_app, name="index")

IndexFolder = Annotated[Path, typer.Argument(help="The folder that `horoball index build` wrote.", **IS_PATH)]
_OF = "index.json"  # which run the points are of
_MOST = 1 << 10  # bytes of it


@index_app.command("build")
@reports_errors
def build(
    run: RunFolder,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the index.", **IS_PATH)],
    recall: Annotated[
        float,
        typer.Option(
            help="Share of the true neighbors that a search among more than 50,000 rows finds, up to 1. Larger values "
            "take longer. Useful: 0.9 to 1."
        ),
    ] = 0.99,
    id_: Id = None,
    na: Na = None,
    device: Device = None,
    force: Force = False,
) -> None:
    """Make an index of rows by a model's embedding. Rows are called by their --id, or by their numbers.

    Example: horoball index build run cells.csv -o cells-index --id cell
    """
    from horoball.geometry.ball import PoincareBall
    from horoball.neighbors.index import FILE, Index
    from horoball.storage.whole import only_run

    if output.exists() and not output.is_dir():
        raise ValueError(f"An index is written to a folder, and {output} is a file.")
    with only_run(output):
        check_outputs(output / FILE, output / _OF, force=force, reads=[data], run=run)
        fitted, table = _rows(run, data, id_, na, device)
        ball = fitted.model.ball
        if not isinstance(ball, PoincareBall):
            raise ValueError(f"An index is of points of the ball, and this model's manifold is {type(ball).__name__}.")
        _write(Index(ball, recall=recall).add(_points(fitted, table), _names(table)), output, fitted)


@index_app.command("search")
@reports_errors
def search(
    index: IndexFolder,
    run: RunFolder,
    data: Data,
    output: TableFile,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbors of each row. Useful: 1 to 100.")] = 10,
    id_: Id = None,
    na: Na = None,
    device: Device = None,
    force: Force = False,
) -> None:
    """Write the nearest neighbors of rows: a line for each, with its rank and its distance.

    Example: horoball index search cells-index run new.csv -o neighbors.csv -k 5
    """
    import pyarrow as pa

    from horoball.vae.files import check_ending, write_table

    check_ending(output)
    check_outputs(output, force=force, reads=[data, index], run=run)
    fitted, table = _rows(run, data, id_, na, device)
    found = _of_run(index, fitted)
    distances, ids = found.search(_points(fitted, table), k)
    rank = pa.array(list(range(1, k + 1)) * table.rows, pa.int64())
    asked = pa.array(_names(table).repeat(k).tolist())
    near = pa.array(found.names(ids).ravel().tolist())
    columns = {
        table.name_column: asked,
        "rank": rank,
        "neighbor": near,
        "distance": pa.array(distances.ravel().numpy()),
    }
    write_table(pa.table(columns), output)
    say(f"{k} neighbors of each of {table.rows:,} rows, among {len(found):,}: {output}")


@index_app.command("update")
@reports_errors
def update(
    index: IndexFolder, run: RunFolder, data: Data, id_: Id = None, na: Na = None, device: Device = None
) -> None:
    """Move the rows that are in an index, by their --id, and add those that are new.

    Example: horoball index update cells-index run changed.csv --id cell
    """
    from horoball.storage.whole import only_run

    fitted, table = _rows(run, data, id_, na, device)
    if table.read_names() is None:
        raise ValueError("Rows are found by their names, and these have none. Give the column that has them: --id.")
    with only_run(index):
        found = _of_run(index, fitted)
        before = len(found)
        found.update(_points(fitted, table), _names(table))
        say(f"{len(found) - before:,} rows are new and {table.rows - len(found) + before:,} moved.")
        _write(found, index, fitted)


@index_app.command("remove")
@reports_errors
def remove(
    index: IndexFolder,
    names: Annotated[list[str] | None, typer.Argument(help="Names of rows.")] = None,
    names_file: Annotated[
        Path | None, typer.Option("--names", help="Text file with names of rows, one per line.", **IS_PATH)
    ] = None,
) -> None:
    """Remove rows from an index, by their names; without --id, these are their numbers.

    Example: horoball index remove cells-index c17 c23
    """
    from horoball.neighbors.index import Index
    from horoball.storage.whole import only_run

    gone: list[Any] = list(names or ())
    if names_file is not None:
        gone += names_file.read_text(encoding="utf-8").splitlines()
    if not gone:
        raise ValueError("No names were given. Name rows after the index, or give a file of names: --names.")
    with only_run(index):
        found = Index.load(index)
        if len(found) and not isinstance(found.names([0])[0], str):
            if not all(name.lstrip("-").isdecimal() for name in gone):
                raise ValueError("The names in this index are whole numbers, and some that were given are not.")
            gone = [int(name) for name in gone]
        _write(found.remove(names=gone), index)


def _rows(run: Path, data: str, id_: str | None, na: str | None, device: str | None) -> tuple[Run, Table]:
    from horoball.tables.cell_values import gap_words
    from horoball.vae.run import Run

    fitted = Run.load(run).to(device or "cpu")
    return fitted, fitted.read(data, id_, na=gap_words(na))


def _points(run: Run, table: Table) -> Any:
    """Posterior means in the tangent chart, which holds those near the rim, too."""
    import torch

    with torch.no_grad():
        return torch.cat([q.mean.cpu() for q in run.posteriors(table)])


def _names(table: Table) -> Any:
    import numpy as np

    names = table.read_names()
    if names is None:
        return np.arange(table.rows)
    return np.fromiter(names.to_pylist() if hasattr(names, "to_pylist") else names, object, table.rows)


def _of_run(folder: Path, run: Run) -> Index:
    """The index in a folder; refuses one of another model, among whose points those of this one mean nothing."""
    from horoball.neighbors.index import Index
    from horoball.storage.outputs import read_file

    found = Index.load(folder)
    if not (folder / _OF).exists() or read_file(folder / _OF, _MOST) != _about(run):
        raise ValueError(f"{folder} is no index of this run. Make one: horoball index build RUN DATA -o INDEX.")
    return found


def _write(index: Index, folder: Path, run: Run | None = None) -> None:
    from horoball.storage.whole import write_whole

    index.save(folder)
    if run is not None:
        write_whole(folder / _OF, _about(run), alone=False)
    print_table({"index": str(folder), "rows": len(index)})


def _about(run: Run) -> bytes:
    return json.dumps({"run": run.digest}).encode() + b"\n"
