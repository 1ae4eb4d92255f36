"""Commands around a model: `horoball fit`, `embed`, `export`, `evaluate`, `sample`, `info`."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from horoball.cli.console import (
    Data,
    Id,
    Label,
    Output,
    RunFolder,
    app,
    console,
    for_people,
    is_parquet,
    log_to_console,
    number,
    print_table,
    read_for,
    show,
)

__all__: list[str] = []


class Posterior(StrEnum):
    """Kinds of posterior."""

    riemannian = "riemannian"
    wrapped = "wrapped"


class DecoderName(StrEnum):
    """Kinds of decoder."""

    gyroplane = "gyroplane"
    log0 = "log0"
    mlp = "mlp"


class LikelihoodName(StrEnum):
    """Kinds of likelihood."""

    auto = "auto"
    normal = "normal"
    bernoulli = "bernoulli"
    poisson = "poisson"
    negative_binomial = "negative_binomial"
    categorical = "categorical"


@app.command()
@for_people
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to keep the run in.")],
    dim: Annotated[int, typer.Option(help="Dimension of the ball.")] = 2,
    c: Annotated[
        str, typer.Option(help="Minus the curvature: a number, 0 for the Euclidean model, or 'learn'.")
    ] = "1.0",
    posterior: Annotated[
        Posterior | None, typer.Option(help="Kind of posterior; riemannian unless told, and wrapped for cells.")
    ] = None,
    likelihood: Annotated[LikelihoodName, typer.Option(help="Law of the data.")] = LikelihoodName.auto,
    decoder: Annotated[
        DecoderName, typer.Option(help="First step of the decoder: 'gyroplane' is the paper's.")
    ] = DecoderName.gyroplane,
    prior_scale: Annotated[str, typer.Option(help="Standard deviation of the prior: a number, or 'learn'.")] = "1.0",
    label: Label = None,
    id_: Id = None,
    layer: Annotated[str, typer.Option(help="Of an .h5ad file: the layer with the counts, or X.")] = "auto",
    batch: Annotated[
        list[str] | None, typer.Option(help="Of an .h5ad file: a column of obs that the map should not show.")
    ] = None,
    max_epochs: Annotated[int, typer.Option(help="Most passes over the rows.")] = 200,
    batch_size: Annotated[int, typer.Option(help="Rows of a step.")] = 128,
    learning_rate: Annotated[float, typer.Option(help="Step size of Adam.")] = 1e-3,
    hidden: Annotated[
        int | None, typer.Option(help="Size of the hidden layers; 200 unless told, and 128 for cells.")
    ] = None,
    beta: Annotated[float, typer.Option(help="Weight of the divergence.")] = 1.0,
    distance_weight: Annotated[
        str, typer.Option(help="Weight of the term that keeps distances; 'auto' is for maps, 0 the paper's objective.")
    ] = "auto",
    validation: Annotated[float, typer.Option(help="Part of the rows held out for early stopping.")] = 0.1,
    patience: Annotated[int, typer.Option(help="Epochs without improvement before stopping; 0 for never.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Metrics for TensorBoard, in the folder.")] = False,
) -> None:
    """Fit a model to a table.

    Example: horoball fit cells.csv -o run --label type
    """
    from horoball.data import read
    from horoball.data.cells import cell_table, is_cells
    from horoball.training import TrainConfig, choices
    from horoball.training.likelihood import cell_fields
    from horoball.training.loop import Interrupted
    from horoball.training.progress import Bar, Progress, Silent
    from horoball.training.run import train
    from horoball.training.state import expect_room
    from horoball.training.tensorboard import Scalars

    log_to_console()
    curvature = choices.curvature_fields(number("--c", c, "learn"))
    expect_room(output, resume=resume)  # before the data are read
    prior = choices.prior_fields(number("--prior-scale", prior_scale, "learn"))
    model = {"d": dim, "posterior": "riemannian", "likelihood": likelihood.value, "hidden": (200,)}
    model |= {"decoder": decoder.value, **curvature, **prior}
    if is_cells(data):
        if id_ is not None:
            raise ValueError(f"--id is for tables; the cells of {data} have names, which are kept.")
        table = cell_table(data, layer=layer, batch=batch or (), label=label)
        model |= cell_fields(likelihood.value)
    elif batch or layer != "auto":
        raise ValueError(f"--layer and --batch are for .h5ad files, not for {data}.")
    else:
        table = read(data, label, ids=id_)
    model |= {} if posterior is None else {"posterior": posterior.value}
    model |= {} if hidden is None else {"hidden": (hidden,)}
    weight = number("--distance-weight", distance_weight, "auto")
    config = TrainConfig(
        distance_weight=choices.distance_weight(weight, table, dim, library=bool(model.get("library"))),
        max_epochs=max_epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        beta=beta,
        validation=validation,
        patience=patience,
        seed=seed,
    )
    progress: Progress = Silent() if quiet else Bar(console)
    if tensorboard and int(os.environ.get("RANK", "0")) == 0:
        progress = Scalars(output, progress)
    try:
        about = {} if id_ is None else {"ids": id_}
        run = train(table, model, config, output, label=label, resume=resume, progress=progress, about=about)
    except Interrupted as stopped:
        raise KeyboardInterrupt(f"{stopped} Go on with the same command and --resume.") from None
    show(run, output)


@app.command()
@for_people
def embed(
    run: RunFolder,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="A .parquet file, or a folder for many of them.")],
    id_: Id = None,
    file_rows: Annotated[int, typer.Option(min=1, help="Rows of a file, where the output is a folder.")] = 1 << 18,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Write the ball coordinates of every row, its radius and the posterior's scale.

    To a folder they are written file by file: the same command goes on where it was stopped, and under torchrun each
    process writes files of its own.

    Example: horoball embed run cells.csv -o map.parquet
    """
    from rich.progress import Progress

    from horoball.embedding import embed_file, embed_folder
    from horoball.training.run import Run

    rank, ranks = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    if output.suffix:
        is_parquet(output)
        if ranks > 1:
            raise ValueError(f"{ranks} processes cannot write one file. Give a folder: -o {output.with_suffix('')}.")
    fitted = Run.load(run)
    table = read_for(data, fitted, id_)
    if output.suffix:
        rows = embed_file(fitted, table, output)
    else:
        try:
            with Progress(console=console, transient=True, disable=quiet) as progress:
                task = progress.add_task("Rows", total=table.rows / ranks)

                def done(count: int) -> None:
                    progress.update(task, advance=count)

                rows = embed_folder(fitted, table, output, rows=file_rows, rank=rank, ranks=ranks, done=done)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("Stopped. Whole files stay; the same command goes on.") from None
    console.print(f"{rows:,} rows written: {output}", markup=False)


@app.command()
@for_people
def export(
    run: RunFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, .onnx or .pt2.")],
) -> None:
    """Write the encoder for programs without horoball: as ONNX, or as a program of torch.export.

    Example: horoball export run -o encoder.onnx
    """
    from horoball.export import OUTPUTS
    from horoball.export import export as write
    from horoball.training.run import Run

    fitted = Run.load(run)
    write(fitted, output)
    given = [f"the number of the {name}" for name in fitted.about.get("covariates", {})]
    rows = " and ".join([f"{len(fitted.columns)} columns", *given])
    console.print(f"x: {rows} → {', '.join(OUTPUTS)}: {output}", markup=False)


@app.command()
@for_people
def evaluate(
    run: RunFolder,
    data: Data,
    samples: Annotated[int, typer.Option(min=1, help="Importance samples per row; the paper's tables use 5000.")] = 500,
) -> None:
    """Print the evidence lower bound and the log-likelihood of a table, in nats per row.

    Example: horoball evaluate run test.csv --samples 5000
    """
    import torch

    from horoball.objectives import elbo, log_likelihood
    from horoball.training.run import Run

    fitted = Run.load(run)
    table = read_for(data, fitted)
    torch.manual_seed(0)
    sums = torch.zeros(4, dtype=torch.float64)
    with torch.no_grad():
        for block in fitted.blocks(table, 1024):
            bound = elbo(fitted.model, block, kl="sample")
            terms = (bound.value, bound.kl, log_likelihood(fitted.model, block, samples), torch.ones(len(block)))
            sums += torch.stack([term.double().sum() for term in terms])
    means = (sums[:3] / sums[3]).tolist()
    numbers = dict(zip(("elbo", "kl", f"log-likelihood, {samples} samples"), means, strict=True))
    print_table({name: f"{value:.4f}" for name, value in numbers.items()} | {"rows": f"{int(sums[3]):,}"})


@app.command()
@for_people
def sample(
    run: RunFolder,
    output: Output,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of rows.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
) -> None:
    """Write rows drawn from the model to a Parquet file.

    Example: horoball sample run -n 1000 -o new.parquet
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    import torch

    from horoball.training.run import Run
    from horoball.training.whole import whole_file

    is_parquet(output)
    fitted = Run.load(run)
    if fitted.model.covariates or fitted.model.likelihood.library:
        raise ValueError(
            "Rows of this model are given batches or sums, which the prior does not draw. In Python, "
            "VAE.decode(z, given) takes them."
        )
    torch.manual_seed(seed)
    with torch.no_grad():
        z = fitted.model.prior().sample((n,))
        x = fitted.unscaled(fitted.model.decode(z).sample().float())
    drawn = pa.table([pa.array(column) for column in x.T.numpy()], names=fitted.columns)
    with whole_file(output) as part:
        pq.write_table(drawn, part, write_page_checksum=True)
    console.print(f"{n:,} rows, {len(fitted.columns)} columns: {output}", markup=False)


@app.command()
@for_people
def info(run: RunFolder) -> None:
    """Print what a run is and how it went.

    Example: horoball info run
    """
    from horoball.training.run import Run

    show(Run.load(run), run)
