"""The command that makes a model of a table: `horoball fit`.

What a run is and how it went, as commands print it.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horoball.cli.arguments import (
    BatchSize,
    Beta,
    Curvature,
    Data,
    Device,
    Dim,
    Hidden,
    Id,
    Label,
    LearningRate,
    MaxEpochs,
    Na,
    Precision,
    Quiet,
    Resume,
    Seed,
    TableKind,
    given,
    likelihood_name,
    number,
    posterior_name,
)
from horoball.cli.console import app, console, log_to_console, print_table, reports_errors, say

if TYPE_CHECKING:
    from horoball.vae.options import TableRecord
    from horoball.vae.run import Run

__all__ = ["show_run"]


def show_run(run: Run, folder: Path) -> None:
    """Print what a run is and how it went.

    Example:
        >>> import torch
        >>> from horoball.tables import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.vae.train import train
        >>> run = train(ArrayTable(torch.randn(40, 3)), {"hidden": (8,)}, TrainConfig(max_epochs=1))
        >>> show_run(run, Path("run"))
        {"run": "run", "rows": 40, "columns": 3, ...}
    """
    from horoball.training.progress import early_end  # brings torch, which --help does not need

    record = run.record
    # The weights are those of the best validation loss, where one was watched.
    kept = min(run.history, key=lambda line: line.get("validation", -line["epoch"]), default={})
    results: dict[str, Any] = {"run": str(folder), "rows": record.rows, "columns": len(run.columns)}
    described = {column.name: f"{column.kind}: {column.reason}" for column in record.columns_of.columns}
    results |= {"kinds": described} if described else {}
    results |= {"posterior": record.model.posterior, "d": record.model.d, "c": run.model.ball.c_value}
    results |= {"likelihood": record.model.likelihood, "settings": _settings(record), "epochs": len(run.history)}
    results |= {"best epoch": int(kept["epoch"])} if "validation" in kept else {}
    ended = early_end(run.history, record.training)
    results |= {} if ended is None else {"ended": ended}
    print_table(results | {name: kept[name] for name in ("loss", "kl", "validation") if name in kept})


def _settings(record: TableRecord) -> dict[str, Any]:
    """The options that the command needs again to resume a run."""
    training = record.training.as_dict()
    numbers = (
        "batch_size",
        "learning_rate",
        "beta",
        "distance_weight",
        "locality",
        "validation",
        "patience",
        "seed",
    )
    asked = {"hidden": list(record.model.hidden), "decoder": record.model.decoder}
    asked |= {name.replace("_", " "): training[name] for name in numbers}
    asked |= {name: value for name, value in (("label", record.label), ("ids", record.ids)) if value is not None}
    return asked | {name: value for name, value in record.reading.items() if value}


class DecoderName(StrEnum):
    """Kinds of decoder."""

    gyroplane = "gyroplane"
    log0 = "log0"
    mlp = "mlp"


@app.command()
@reports_errors
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for checkpoints and the fitted model.")],
    dim: Dim = None,
    c: Curvature = None,
    posterior: Annotated[
        str | None,
        typer.Option(
            callback=posterior_name,
            help="Posterior family: riemannian, wrapped or one of a plugin. [default: riemannian; wrapped for cells]",
        ),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            callback=likelihood_name,
            help="Likelihood of the observations: normal for real numbers, bernoulli for values in [0, 1], poisson or "
            "negative_binomial for counts, zero_inflated_negative_binomial or zero_inflated_gamma for counts with more "
            "zeros or with fractions, categorical, ordinal or circular for codes 0, 1, 2 …, log_normal for positive "
            "numbers, von_mises_fisher for vectors, mixed for one per column (see --columns), or a plugin's. 'auto' "
            "chooses by the values, and prints its choice. [default: auto]",
        ),
    ] = None,
    decoder: Annotated[
        DecoderName | None,
        typer.Option(help="First layer of the decoder; 'gyroplane' is the paper's. [default: gyroplane]"),
    ] = None,
    prior_scale: Annotated[
        str | None,
        typer.Option(
            help="Standard deviation of the prior: a number, or 'learn'. Larger values spread the embedding. "
            "Useful: 0.5 to 2. [default: 1.0]"
        ),
    ] = None,
    label: Label = None,
    id_: Id = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Kinds of columns, such as 'age:real,rating:ordinal,id:skip'; the others are guessed. Kinds: real, "
            "positive, count, binary, category, ordinal, circular, date, skip."
        ),
    ] = None,
    na: Na = None,
    drop: Annotated[str | None, typer.Option(help="Columns to leave out, separated by commas.")] = None,
    kind: Annotated[
        TableKind,
        typer.Option(
            help="What a row is: numbers or counts in columns that are alike, cells, vectors, compared by cosine, "
            "or mixed columns; auto to find out by the values."
        ),
    ] = TableKind.auto,
    column: Annotated[
        str | None,
        typer.Option(help="Of vectors: the column of lists that holds them, if there is more than one."),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(help="Of an .h5ad file: the layer with the counts, or X. [default: 'counts' if there, else X]"),
    ] = None,
    batch: Annotated[
        list[str] | None, typer.Option(help="Of an .h5ad file: batch key in obs to correct for; may be repeated.")
    ] = None,
    max_epochs: MaxEpochs = None,
    batch_size: BatchSize = None,
    learning_rate: LearningRate = None,
    hidden: Hidden = None,
    beta: Beta = None,
    distance_weight: Annotated[
        str | None,
        typer.Option(
            help="Weight of a map's layout, which keeps distances and neighbors: a number, or 'auto', 5 a feature "
            "for maps. Larger values make a more faithful map at the cost of the likelihood; 0 is the paper's "
            "objective. [default: auto]"
        ),
    ] = None,
    locality: Annotated[
        float | None,
        typer.Option(
            help="From global to local: share of neighbors in the layout. 0 keeps distances, 1 nearest "
            "neighbors. [default: 0.5; 0.0 for cells]"
        ),
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(help="Fraction of the rows held out for early stopping. Useful: 0.05 to 0.2. [default: 0.1]"),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Epochs without a lower validation loss before stopping; 0 for never. Useful: 10 to 50. [default: "
            "auto, 0 for maps and 20 otherwise, 160 steps at least]"
        ),
    ] = None,
    device: Device = None,
    precision: Precision = None,
    seed: Seed = 0,
    resume: Resume = False,
    quiet: Quiet = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write metrics for TensorBoard to the folder.")
    ] = False,
) -> None:
    """Fit a model to a table.

    Example: horoball fit cells.csv -o run --label type
    """
    from horoball.storage.whole import only_run
    from horoball.tables.cell_values import gap_words
    from horoball.tables.guess import parse_kinds
    from horoball.tables.read import read
    from horoball.training.loop import Interrupted
    from horoball.training.progress import Progress, Scalars, Silent, shown
    from horoball.training.state import check_output_dir
    from horoball.vae.model import ModelConfig
    from horoball.vae.options import check_options, table_fit
    from horoball.vae.train import train

    log_to_console()
    options = given(
        d=dim,
        c=number("--c", c, "learn"),
        posterior=posterior,
        likelihood=likelihood,
        decoder=decoder and decoder.value,
        prior_scale=number("--prior-scale", prior_scale, "learn"),
        hidden=hidden,
        beta=beta,
        distance_weight=number("--distance-weight", distance_weight, "auto"),
        locality=locality,
        max_epochs=max_epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        validation=validation,
        patience=patience,
        device=device,
        precision=precision,
        seed=seed,
    )
    check_options(ModelConfig, **options)
    # One that is locked or cannot be written to is refused before the data are read; a new one is made after.
    with only_run(output if output.is_dir() else None):
        check_output_dir(output, resume=resume)
        table = read(
            data,
            label,
            kind=kind.rows,
            ids=id_,
            columns=parse_kinds(columns) if columns else None,
            drop=[name.strip() for name in (drop or "").split(",") if name.strip()],
            na=gap_words(na),
            vectors=column,
            layer=layer or "auto",
            batch=batch or (),
        )
        for line in [] if table.schema is None else ["Columns:", *(f"  {line}" for line in table.schema.lines())]:
            say(line)
        model, config = table_fit(table, **options)
        progress: Progress = Silent() if quiet else shown(console)
        if tensorboard and int(os.environ.get("RANK", "0")) == 0:
            progress = Scalars(output, progress)
        try:
            run = train(table, model, config, output, label=label, ids=id_, resume=resume, progress=progress)
        except Interrupted as stopped:
            raise KeyboardInterrupt(f"{stopped} Resume with the same command and --resume.") from None
        except KeyboardInterrupt:
            raise KeyboardInterrupt("Stopped before training began: nothing was written to resume from.") from None
    show_run(run, output)
