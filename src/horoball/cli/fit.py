"""The command that makes a model of a table: `horoball fit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horoball.cli.arguments import (
    IS_PATH,
    Columns,
    Data,
    Drop,
    Id,
    Kind,
    Label,
    Loggers,
    Na,
    Quiet,
    Resume,
    TableKind,
    VectorColumn,
    reading,
    takes_options,
)
from horoball.cli.config import Config, write_options
from horoball.cli.console import (
    FIRST,
    PLUGIN_HELP,
    app,
    command_line,
    console,
    import_plugins,
    log_to_console,
    print_table,
    reports_errors,
    say,
)
from horoball.options import FitOptions

if TYPE_CHECKING:
    from horoball.tables.table import Table
    from horoball.vae.options import TableRecord
    from horoball.vae.run import Run


def say_columns(table: Table) -> None:
    """Say what the columns of a table are taken for, where they are of several kinds."""
    for line in [] if table.schema is None else ["Columns:", *(f"  {line}" for line in table.schema.lines())]:
        say(line)


def show_run(run: Run, folder: Path, *, kinds: bool = True) -> None:
    """Print what a run is and how it went; and the kinds of its columns, unless they were said before."""
    from horoball.geometry.manifold import curvatures
    from horoball.training.progress import early_end  # brings torch, which --help does not need
    from horoball.vae.spaces import tried_of

    record = run.record
    kept = run.kept
    results: dict[str, Any] = {"run": str(folder), "data": record.data}
    results |= {"rows": record.rows, "columns": len(run.columns)}
    described = {column.name: f"{column.kind}: {column.reason}" for column in record.columns_of.columns}
    results |= {"kinds": described} if described and kinds else {}
    results |= {"posterior": record.model.posterior, "d": record.model.d, **curvatures(run.model.ball)}
    results |= (
        {"tried": {f"{t.space}, c = {t.c:g}": f"{t.log_likelihood:.3f}" for t in tried_of(record)}}
        if record.tried
        else {}
    )
    results |= {"likelihood": record.model.likelihood, "settings": _settings(record), "epochs": len(run.history)}
    results |= {"best epoch": int(kept["epoch"])} if "validation" in kept else {}
    ended = early_end(run.history, record.training)
    results |= {} if ended is None else {"ended": ended}
    print_table(results | {name: kept[name] for name in ("loss", "kl", "validation") if name in kept})


def _settings(record: TableRecord) -> dict[str, Any]:
    """The options that the command needs again to resume a run."""
    from horoball.training.config import TrainConfig
    from horoball.vae.model import OWN

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
    chosen = (name for name in ("optimizer", "scheduler", "clip_norm") if training[name] != getattr(TrainConfig, name))
    asked = {"hidden": list(record.model.hidden), "decoder": record.model.decoder}
    asked |= {name.replace("_", " "): training[name] for name in numbers}
    asked |= {name: value for name, value in (("label", record.label), ("ids", record.ids)) if value is not None}
    asked |= {
        name: said
        for name in ("encoder", "prior", "manifold")
        if (said := getattr(record.model, name)) not in OWN[name]
    }
    asked |= {name.replace("_", " "): training[name] for name in chosen}
    return asked | {name: value for name, value in record.reading.items() if value}


@app.command()
@reports_errors
@takes_options(FitOptions)
def fit(
    context: typer.Context,
    data: Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for checkpoints and the fitted model.", **IS_PATH)
    ],
    options: FitOptions,
    plugin: Annotated[
        list[str] | None, typer.Option("--plugin", is_eager=True, callback=import_plugins, help=PLUGIN_HELP)
    ] = None,
    label: Label = None,
    id_: Id = None,
    columns: Columns = None,
    na: Na = None,
    drop: Drop = None,
    kind: Kind = TableKind.auto,
    column: VectorColumn = None,
    layer: Annotated[
        str | None,
        typer.Option(help="Of an .h5ad file: the layer with the counts, or X. [default: 'counts' if there, else X]"),
    ] = None,
    batch: Annotated[
        list[str] | None, typer.Option(help="Of an .h5ad file: batch key in obs to correct for; may be repeated.")
    ] = None,
    resume: Resume = False,
    quiet: Quiet = False,
    logger: Loggers = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="The same as --logger tensorboard.")] = False,
    config: Config = None,
) -> None:
    """Fit a model to a table.

    Example: horoball fit cells.csv -o run --label type
    """
    from horoball.storage.whole import only_run
    from horoball.tables.read import read
    from horoball.training.hooks import named_hooks
    from horoball.training.loop import Interrupted
    from horoball.training.progress import Progress, Silent, shown
    from horoball.training.state import check_output_dir
    from horoball.vae.model import ModelConfig
    from horoball.vae.options import check_options, table_fit
    from horoball.vae.spaces import AUTO, choose_space
    from horoball.vae.train import train

    log_to_console()
    hooks, _ = named_hooks(loggers=[*(logger or ()), *(["tensorboard"] if tensorboard else ())], folder=output)
    check_options(ModelConfig, {**options, "c": 0.0} if options.get("c") == AUTO else options)
    # One that is locked or cannot be written to is refused before the data are read; a new one is made after.
    with only_run(output if output.is_dir() else None):
        check_output_dir(output, resume=resume)
        how = reading(kind, id_, na, column, columns, drop or "")
        how["layer"], how["batch"] = layer or "auto", batch or ()
        table = read(data, label, **how)
        say_columns(table)
        options, tried = choose_space(table, options, hooks=hooks)
        model, training = table_fit(table, **options)
        progress: Progress = Silent() if quiet else shown(console)
        names: dict[str, Any] = {"label": label, "ids": id_, "tried": tried}
        try:
            run = train(table, model, training, output, hooks=hooks, resume=resume, progress=progress, **names)
        except Interrupted as stopped:
            raise KeyboardInterrupt(f"{stopped} Resume with the same command and --resume.") from None
        except KeyboardInterrupt:
            raise KeyboardInterrupt("Stopped before training began: nothing was written to resume from.") from None
        if FIRST:
            write_options(context, output)
    show_run(run, output, kinds=False)
    say(f"Next: {command_line('horoball', 'view', output, data, '-o', 'map.html')}")
