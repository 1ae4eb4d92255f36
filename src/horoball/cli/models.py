"""Commands that use a model: `horoball embed`, `export`, `evaluate`, `sample`, `impute`, `info`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from horoball.cli.arguments import (
    Data,
    Device,
    Id,
    Na,
    Quiet,
    RunFolder,
    TableFile,
)
from horoball.cli.console import app, bar, print_table, reports_errors, say
from horoball.cli.outputs import Force, check_outputs
from horoball.cli.run_summary import show_run

__all__: list[str] = []


@app.command()
@reports_errors
def embed(
    run: RunFolder,
    data: Data,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A .parquet, .csv, .tsv or .jsonl file, or a folder for many files."),
    ],
    id_: Id = None,
    na: Na = None,
    file_rows: Annotated[
        int, typer.Option(min=1, help="Rows per file of a folder. Larger values write fewer files.")
    ] = 1 << 18,
    device: Device = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the ball coordinates of every row, its radius and the posterior's scale.

    A folder is written file by file: the same command resumes where it was stopped, and under torchrun each process
    writes its own files.

    Example: horoball embed run cells.csv -o map.parquet
    """
    from horoball.data.files.gap_words import gap_words
    from horoball.export.embedding import check_ending, embed_file, embed_folder
    from horoball.storage.outputs import check_folder
    from horoball.training.table.run import Run

    rank, ranks = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    if output.suffix:
        check_ending(output)
        if ranks > 1:
            raise ValueError(f"{ranks} processes cannot write one file. Give a folder: -o {output.with_suffix('')}.")
        check_outputs(output, force=force, reads=[data], run=run)
    else:
        check_folder(output, [data])
    fitted = Run.load(run).to(device or "cpu")
    table = fitted.read(data, id_, na=gap_words(na))
    if output.suffix:
        rows = embed_file(fitted, table, output)
    else:
        with bar("Rows", "Complete files stay; the same command resumes.", quiet=quiet) as told:
            rows = embed_folder(fitted, table, output, rows=file_rows, rank=rank, ranks=ranks, told=told)
    say(f"{rows:,} rows written: {output}")


@app.command()
@reports_errors
def export(
    run: RunFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, .onnx or .pt2.")],
    force: Force = False,
) -> None:
    """Write the encoder for programs without horoball: as ONNX, or as a program of torch.export.

    Example: horoball export run -o encoder.onnx
    """
    from horoball.export import OUTPUTS
    from horoball.export import export as write
    from horoball.training.table.run import Run

    check_outputs(output, force=force, run=run)
    fitted = Run.load(run)
    write(fitted, output)
    codes = [f"the number of the {name}" for name in fitted.record.covariates]
    rows = " and ".join([f"{len(fitted.columns)} columns", *codes])
    say(f"x: {rows} → {', '.join(OUTPUTS)}: {output}")


@app.command()
@reports_errors
def evaluate(
    run: RunFolder,
    data: Data,
    samples: Annotated[
        int,
        typer.Option(
            min=1, help="Importance samples per row. More give a tighter bound and take longer. Useful: 100 to 5000."
        ),
    ] = 500,
    na: Na = None,
    device: Device = None,
    quiet: Quiet = False,
) -> None:
    """Print the evidence lower bound and the log-likelihood of a table, in nats per row.

    Example: horoball evaluate run test.csv --samples 5000
    """
    from horoball.data.files.gap_words import gap_words
    from horoball.training.table.run import Run

    fitted = Run.load(run).to(device or "cpu")
    table = fitted.read(data, na=gap_words(na))
    with bar("Rows", "There are no figures yet.", quiet=quiet) as told:
        found = fitted.evaluate(table, samples, told)
    results: dict[str, Any] = {"elbo": found.elbo, "kl": found.kl}
    print_table(results | {f"log-likelihood, {samples} samples": found.log_likelihood, "rows": found.rows})


@app.command()
@reports_errors
def sample(
    run: RunFolder,
    output: TableFile,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of rows to draw.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    device: Device = None,
    force: Force = False,
) -> None:
    """Write rows drawn from the model to a file.

    Example: horoball sample run -n 1000 -o new.parquet
    """
    from horoball.export.embedding import check_ending, write_table
    from horoball.training.table.run import Run

    check_ending(output)
    check_outputs(output, force=force, run=run)
    drawn = Run.load(run).to(device or "cpu").sample_rows(n, seed)
    write_table(drawn, output)
    say(f"{n:,} rows, {drawn.num_columns} columns: {output}")


@app.command("impute")
@reports_errors
def fill(
    run: RunFolder,
    data: Data,
    output: TableFile,
    draw: Annotated[bool, typer.Option("--draw", help="Draw values from the model instead of best guesses.")] = False,
    samples: Annotated[
        int, typer.Option(min=1, help="Points per row. More are more exact and take longer. Useful: 100 to 1000.")
    ] = 200,
    na: Na = None,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    device: Device = None,
    force: Force = False,
) -> None:
    """Write a table with its missing values filled in by the model; values are assumed to be missing at random.

    All columns are written, and what was observed as it was.

    Example: horoball impute run customers.csv -o filled.csv
    """
    from horoball.data.files.gap_words import gap_words
    from horoball.export.embedding import check_ending
    from horoball.export.filled import write_filled
    from horoball.training.table.impute import impute
    from horoball.training.table.run import Run

    check_ending(output)
    check_outputs(output, force=force, reads=[data], run=run)
    fitted = Run.load(run).to(device or "cpu")
    table = fitted.read(data, na=gap_words(na))
    filled = impute(fitted, table, draws=int(draw), samples=samples, seed=seed)
    write_filled(fitted, data, table, fitted.rows_of(filled[0] if draw else filled), output)
    say(f"{table.rows:,} rows written: {output}")


@app.command()
@reports_errors
def info(
    run: Annotated[Path | None, typer.Argument(help="The folder that `horoball fit` wrote.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Say instead what this name stands for: auto, cpu, cuda, mps.")
    ] = None,
) -> None:
    """Print what a run is and how it went; or what `--device` would use on this machine.

    Example: horoball info run
    """
    if (run is None) == (device is None):
        raise ValueError("info expects either the folder of a run or --device: horoball info run, or --device auto.")
    if device is not None:
        from horoball.runtime.devices import described

        print_table(described(device))
    if run is not None:
        from horoball.training.table.run import Run

        show_run(Run.load(run), run)
