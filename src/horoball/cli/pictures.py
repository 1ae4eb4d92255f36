"""Commands that show: `horoball view`, `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from horoball.cli.console import Data, Id, Label, Output, RunFolder, app, console, for_people

__all__: list[str] = []


@app.command()
@for_people
def view(
    run: RunFolder,
    data: Data,
    output: Output,
    column: Annotated[list[str] | None, typer.Option(help="A column to colour by as well; may be given again.")] = None,
    names: Annotated[Path | None, typer.Option(help="A text file with the name of each row, one a line.")] = None,
    image_shape: Annotated[str | None, typer.Option(help="Size of a picture where a row is one: 28x28.")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
) -> None:
    """Write a map to look at: one HTML file with the Poincaré disc, which needs no network.

    Example: horoball view run cells.csv -o map.html
    """
    from horoball.viewer.command import view_files

    options: dict[str, Any] = {"features": column or (), "names": names, "image_shape": image_shape, "title": title}
    size = len(view_files(run, data, output, **options).html.encode())
    console.print(f"{size / 1000:,.0f} kB: {output}", markup=False)


@app.command()
@for_people
def report(
    data: Data,
    output: Output,
    label: Label = None,
    id_: Id = None,
    c: Annotated[float, typer.Option(min=1e-6, help="Minus the curvature of the hyperbolic model.")] = 1.0,
    dim: Annotated[int, typer.Option(min=1, help="Dimension of both models.")] = 2,
    seeds: Annotated[int, typer.Option(min=1, help="Pairs of models to train.")] = 5,
    max_epochs: Annotated[int, typer.Option(help="Most passes over the rows.")] = 200,
    hidden: Annotated[int, typer.Option(help="Size of the hidden layers.")] = 200,
) -> None:
    """Is the table hierarchical, and did geometry help? One HTML file, and its numbers as JSON beside it.

    A hyperbolic model and its Euclidean twin are trained with each seed and compared on rows that neither has seen.

    Example: horoball report cells.csv -o report.html --label type
    """
    import torch
    from rich.progress import Progress

    from horoball.data import read
    from horoball.data.array_table import ArrayTable
    from horoball.hierarchy.report import make_report
    from horoball.hierarchy.report_page import write_report
    from horoball.training import TrainConfig

    if output.suffix.lower() == ".json" or not output.resolve().parent.is_dir():
        raise ValueError(f"--output names an HTML file in a folder that exists, got {str(output)!r}.")
    table = read(data, label, ids=id_)
    if not isinstance(table, ArrayTable):
        table = ArrayTable(torch.cat(list(table.blocks())), table.columns, table.read_labels())
    model, config = {"d": dim, "hidden": (hidden,)}, TrainConfig(max_epochs=max_epochs)
    try:
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task("Models trained", total=2 * seeds)

            def told(done: int, of: int) -> None:
                progress.update(bar, completed=done, total=of)

            made = make_report(table, config, name=Path(data).stem, model=model, c=c, seeds=seeds, told=told)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Stopped. No report was written.") from None
    numbers = write_report(made, output)
    for sentence in made.words:
        console.print(sentence, markup=False)
    console.print(f"{output}, numbers in {numbers}", markup=False)
