"""Commands that show: `horoball view`, `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from horoball.cli.arguments import (
    Data,
    Device,
    Dim,
    Hidden,
    Id,
    Label,
    MaxEpochs,
    Na,
    Output,
    RunFolder,
    TableKind,
    given,
)
from horoball.cli.console import app, bar, reports_errors, say
from horoball.cli.outputs import Force, check_outputs, check_page, save_page

__all__: list[str] = []


@app.command()
@reports_errors
def view(
    run: RunFolder,
    data: Data,
    output: Output,
    column: Annotated[list[str] | None, typer.Option(help="Column to color by as well; may be repeated.")] = None,
    names: Annotated[Path | None, typer.Option(help="Text file with the names of the rows, one per line.")] = None,
    image_shape: Annotated[
        str | None, typer.Option(help="Shape of the images, where rows are images, such as 28x28.")
    ] = None,
    na: Na = None,
    title: Annotated[str | None, typer.Option(help="Title of the page; default: the name of the file.")] = None,
    device: Device = None,
    force: Force = False,
) -> None:
    """Write an interactive map: one HTML file with the Poincaré disc, which needs no network.

    Example: horoball view run cells.csv -o map.html
    """
    from horoball.data.files.gap_words import gap_words
    from horoball.viewer.command import view_files

    options: dict[str, Any] = {"features": column or (), "names": names, "image_shape": image_shape, "title": title}
    options |= given(device=device, na=gap_words(na))
    check_outputs(output, force=force, reads=[data, names], run=run, command="view")
    check_page(output)
    page = view_files(run, data, **options)
    save_page(page, output, "view")
    say(f"{len(page.html.encode()) / 1000:,.0f} kB: {output}")


@app.command()
@reports_errors
def report(
    data: Data,
    output: Output,
    label: Label = None,
    id_: Id = None,
    na: Na = None,
    c: Annotated[
        float,
        typer.Option(
            min=1e-6,
            help="Minus the curvature of the hyperbolic model. Larger values leave more room for branches. "
            "Useful: 0.1 to 5.",
        ),
    ] = 1.0,
    dim: Dim = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Pairs of models to train. More give a narrower interval. Useful: 3 to 20.")
    ] = 5,
    max_epochs: MaxEpochs = None,
    hidden: Hidden = None,
    device: Device = None,
    kind: Annotated[
        TableKind, typer.Option(help="What a row is: values of columns, or a vector, compared by its cosine.")
    ] = TableKind.table,
    column: Annotated[
        str | None, typer.Option(help="Of vectors: the column of lists that holds them, if there is more than one.")
    ] = None,
    force: Force = False,
) -> None:
    """Is the table hierarchical, and did geometry help? One HTML file, and its numbers as JSON beside it.

    A hyperbolic model and a Euclidean baseline are trained with each seed and compared on rows that neither has seen.

    Example: horoball report cells.csv -o report.html --label type
    """
    import torch

    from horoball.data import read
    from horoball.data.files.gap_words import gap_words
    from horoball.data.files.names import title_of
    from horoball.data.tables.array_table import ArrayTable
    from horoball.data.vectors.vector_table import read_vectors
    from horoball.report.analysis import make_report
    from horoball.report.page import is_report, numbers_of, write_report
    from horoball.storage.outputs import check_files
    from horoball.training.request import VECTORS, table_fit

    check_page(output)
    check_files((output, numbers_of(output)), reads=[data], replace=force or is_report(output))
    if column is not None and kind is not TableKind.vectors:
        raise ValueError(f"--column is for vectors. Say so: --kind vectors --column {column}.")
    if kind is TableKind.vectors:
        table = read_vectors(data, column, label, ids=id_)
    else:
        table = read(data, label, ids=id_, na=gap_words(na))
    if not isinstance(table, ArrayTable):
        table = ArrayTable(torch.cat(list(table.blocks())), table.columns, table.read_labels())
    options = given(d=dim, hidden=hidden, max_epochs=max_epochs, device=device)
    options |= {"likelihood": VECTORS.likelihood} if kind is TableKind.vectors else {}
    model, config = table_fit(table, **options)  # as `horoball fit` does
    with bar("Models trained", "No report was written.") as told:
        made = make_report(table, config, name=title_of(data), model=model, c=c, seeds=seeds, told=told)
    numbers = write_report(made, output)
    for sentence in made.words:
        say(sentence)
    say(f"{output}, numbers in {numbers}")
