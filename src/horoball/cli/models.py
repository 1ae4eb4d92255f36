"""Commands for tables and their models: `horoball check`, `embed`, `evaluate`, `view`, `report` and others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horoball.cli.arguments import (
    IS_PATH,
    Columns,
    Data,
    Device,
    Drop,
    Force,
    Id,
    Kind,
    Label,
    Na,
    Output,
    Quiet,
    RunFolder,
    Seed,
    TableFile,
    TableKind,
    VectorColumn,
    by_rank,
    check_outputs,
    check_page,
    given_path,
    rank_of,
    reading,
    save_page,
    takes_options,
)
from horoball.cli.console import app, bar, command_line, console, log_to_console, print_table, reports_errors, say
from horoball.cli.fit import say_columns, show_run
from horoball.options import FitOptions, ReadingOptions, given

if TYPE_CHECKING:
    from horoball.viewer.disc import View

__all__: list[str] = []

_MOST = 1 << 28  # bytes of a tree or a report


@app.command()
@reports_errors
def embed(
    run: RunFolder,
    data: Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="A .parquet, .csv, .tsv or .jsonl file, or a folder for many files.", **IS_PATH
        ),
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
    from horoball.storage.outputs import check_folder
    from horoball.tables.cell_values import gap_words
    from horoball.vae.files import check_ending, embed_file, embed_folder
    from horoball.vae.run import Run

    if output.suffix:
        check_ending(output)
    rank, ranks = rank_of(output)
    if output.suffix:
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
    say(f"{rows:,} rows written{by_rank(rank, ranks)}: {output}", every_rank=True)


@app.command()
@reports_errors
def export(
    run: RunFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, .onnx or .pt2.", **IS_PATH)],
    force: Force = False,
) -> None:
    """Write the encoder for programs without horoball: as ONNX, or as a program of torch.export.

    Example: horoball export run -o encoder.onnx
    """
    from horoball.vae.onnx import OUTPUTS
    from horoball.vae.onnx import export as write
    from horoball.vae.run import Run

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
    from horoball.tables.cell_values import gap_words
    from horoball.vae.run import Run

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
    from horoball.vae.files import check_ending, write_table
    from horoball.vae.run import Run

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
    from horoball.tables.cell_values import gap_words
    from horoball.vae.files import check_ending
    from horoball.vae.impute import impute, write_filled
    from horoball.vae.run import Run

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
    run: Annotated[Path | None, typer.Argument(help="The folder that `horoball fit` wrote.", parser=given_path)] = None,
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
        from horoball.devices import described

        print_table(described(device))
    if run is not None:
        from horoball.vae.run import Run

        show_run(Run.load(run), run)


@app.command()
@reports_errors
def push(
    run: RunFolder,
    repo: Annotated[str, typer.Argument(help="Name of the repository: owner/name.")],
    tree: Annotated[
        Path | None, typer.Option(help="A tree of the rows, .json of `horoball tree`: its verdict.", **IS_PATH)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="The numbers of `horoball report`, .json: its verdict.", **IS_PATH)
    ] = None,
    places: Annotated[
        bool, typer.Option("--places", help="With the groups to place rows in; they hold rows of the fit.")
    ] = False,
    public: Annotated[bool, typer.Option("--public", help="Let everybody read a repository that is new.")] = False,
) -> None:
    """Upload a run to the Hugging Face Hub, with a card of its data, figures, verdict and limits.

    Example: horoball push run my-name/cells --tree tree.json
    """
    import json

    from horoball.storage.outputs import read_file
    from horoball.training.hub import push as upload
    from horoball.training.state import FINAL
    from horoball.trees.record import tree_from_json
    from horoball.vae.run import Run

    notes = []
    if tree is not None:
        verdict = tree_from_json(read_file(tree, _MOST).decode()).verdict
        notes += [] if verdict is None else [verdict.sentence]
    if report is not None:
        said = json.loads(read_file(report, _MOST))
        words = said.get("words") if isinstance(said, dict) else None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"{report} holds no numbers of a report. Give the .json that `horoball report` wrote.")
        notes += words
    url = upload(run, repo, notes=notes, places=places, public=public)
    print_table({"model": url, "run": str(run / FINAL), "data": Run.load(run).record.data})


@app.command()
@reports_errors
def view(
    run: Annotated[str, typer.Argument(help="The folder that `horoball fit` wrote; or the data alone.")],
    output: Output,
    data: Annotated[str | None, typer.Argument(help="A file of rows, or a folder of .parquet files.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="Column to color by as well; may be repeated.")] = None,
    names: Annotated[
        Path | None, typer.Option(help="Text file with the names of the rows, one per line.", **IS_PATH)
    ] = None,
    image_shape: Annotated[
        str | None, typer.Option(help="Shape of the images, where rows are images, such as 28x28.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Of data alone: the column to color by first; a run knows its own.")
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Of data alone: the column with the names of rows.")] = None,
    keep: Annotated[
        Path | None, typer.Option("--run", help="Of data alone: the folder to keep the fitted model in.", **IS_PATH)
    ] = None,
    columns: Columns = None,
    drop: Drop = None,
    na: Na = None,
    title: Annotated[str | None, typer.Option(help="Title of the page; default: the name of the file.")] = None,
    device: Device = None,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write an interactive map: one HTML file with the Poincaré disc, which needs no network.

    Of data alone, a model is fitted first, as `horoball fit` does; --run keeps it for other commands.

    Example: horoball view cells.csv -o map.html --label type
    """
    from horoball.tables.cell_values import gap_words

    path, fitted = (run, keep) if data is None else (data, given_path(run))
    options: dict[str, Any] = {"features": column or (), "names": names, "image_shape": image_shape, "title": title}
    options |= {"na": gap_words(na)} | ({} if device is None else {"device": device})
    check_outputs(output, force=force, reads=[path, names], run=fitted, command="view")
    check_page(output)
    if data is None:
        how = reading(TableKind.auto, id_, na, None, columns, drop or "")
        with _fitted_to(path, keep, how, label=label, device=device, seed=seed, quiet=quiet) as folder:
            page = _page(folder, path, **options)
    elif any(given is not None for given in (label, id_, keep, columns, drop)):
        raise ValueError(
            "--label, --id, --run, --columns and --drop are for data alone: a run knows how its rows are read."
        )
    else:
        page = _page(given_path(run), path, **options)
    save_page(page, output, "view")
    say(f"{len(page.html.encode()) / 1000:,.0f} kB: {output}")


@contextmanager
def _fitted_to(
    data: str,
    keep: Path | None,
    how: ReadingOptions,
    *,
    label: str | None,
    device: str | None,
    seed: int,
    quiet: bool,
) -> Iterator[Path]:
    """The folder of a model that is fitted to a table as `horoball fit` does; one that is not kept is removed."""
    from horoball.storage.whole import only_run
    from horoball.tables.read import read
    from horoball.training.loop import Interrupted
    from horoball.training.progress import Silent, shown
    from horoball.training.state import check_output_dir
    from horoball.vae.options import table_fit
    from horoball.vae.train import train

    log_to_console()
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(TemporaryDirectory(prefix="horoball-"))) / "run"
        stack.enter_context(only_run(folder if folder.is_dir() else None))
        check_output_dir(folder, resume=False)
        table = read(data, label, **how)
        say_columns(table)
        asked: FitOptions = {"device": device, "seed": seed}
        model, config = table_fit(table, **given(asked))
        try:
            progress = Silent() if quiet else shown(console)
            train(table, model, config, folder, label=label, ids=how["ids"], progress=progress)
        except Interrupted as stopped:
            again = command_line("horoball", "fit", data, "-o", folder, "--resume")
            raise KeyboardInterrupt(f"{stopped} {f'Resume with: {again}' if keep else 'Nothing was kept.'}") from None
        yield folder
        if keep is not None:
            say(f"The model is kept in {keep}. Next: {command_line('horoball', 'tree', keep, data, '-o', 'tree.html')}")


def _page(
    run: Path,
    data: str,
    *,
    features: Sequence[str],
    names: Path | None,
    image_shape: str | None,
    title: str | None,
    na: Sequence[str],
    device: str = "cpu",
) -> View:
    """A map of the rows of a file, as the model in a folder sees them."""
    from horoball.tables.limits import title_of
    from horoball.vae.run import Run
    from horoball.viewer import view as view_of
    from horoball.viewer.run import file_columns, shape_of

    fitted = Run.load(run).to(device)
    table = fitted.read(data, na=na)
    own = file_columns(data, features, table.rows)
    own.pop(fitted.record.ids or "", None)  # which names the points
    return view_of(
        fitted,
        table,
        features=[name for name in features if name not in own],
        columns=own,
        labels=None if names is None else names.read_text(encoding="utf-8").splitlines(),
        image_shape=None if image_shape is None else shape_of(image_shape),
        title=title_of(data) if title is None else title,
    )


@app.command()
@reports_errors
def check(
    data: Data,
    label: Label = None,
    id_: Id = None,
    columns: Columns = None,
    drop: Drop = None,
    na: Na = None,
    kind: Kind = TableKind.auto,
    column: VectorColumn = None,
) -> None:
    """Say what a table is taken for, what is missing, and whether it has structure: in seconds, without a model.

    Example: horoball check cells.csv --label type
    """
    from horoball.report.check import check as checked

    log_to_console()
    found = checked(data, label, **reading(kind, id_, na, column, columns, drop or ""))
    for line in str(found).splitlines():
        say(line)


@app.command()
@reports_errors
@takes_options(FitOptions, "d", "hidden", "max_epochs", "device")
def report(
    data: Data,
    output: Output,
    options: FitOptions,
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
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Pairs of models to train; 3 if not given, 5 if thorough. More give a narrower interval. Useful: 3 to"
            " 20.",
        ),
    ] = None,
    thorough: Annotated[
        bool,
        typer.Option("--thorough", help="Train on all rows, and judge more rows by the model: minutes, not seconds."),
    ] = False,
    kind: Kind = TableKind.auto,
    column: VectorColumn = None,
    columns: Columns = None,
    drop: Drop = None,
    force: Force = False,
) -> None:
    """Is the table hierarchical, and did geometry help? One HTML file, and its numbers as JSON beside it.

    What `horoball check` says of the table comes first. Then a hyperbolic model and a Euclidean baseline are trained
    with each seed and compared on rows that neither has seen: on up to 1,250 rows, or on all with --thorough.

    Example: horoball report cells.csv -o report.html --label type
    """
    from horoball.hierarchy.delta import fixed_sample
    from horoball.report.analysis import SHORT_ROWS, make_report
    from horoball.report.check import check as check_table
    from horoball.report.page import is_report, numbers_of, write_report
    from horoball.storage.outputs import check_files
    from horoball.tables.limits import title_of
    from horoball.tables.read import read
    from horoball.vae.options import table_fit

    check_page(output)
    check_files((output, numbers_of(output)), reads=[data], replace=force or is_report(output))
    table = read(data, label, **reading(kind, id_, na, column, columns, drop or ""))
    checked = check_table(table)
    for line in str(checked).splitlines()[:-1]:  # the last says what to do next, which is this
        say(line)
    # As `horoball fit` does, of as many rows as a pair is trained on.
    held = table.loaded()
    trained = held if thorough else held.part(fixed_sample(held.rows, SHORT_ROWS))
    model, config = table_fit(trained, **options)
    pairs = (5 if thorough else 3) if seeds is None else seeds
    with bar("Models and tree", "No report was written.") as told:
        short = None if thorough else checked
        title = title_of(data)
        made = make_report(held, config, name=title, model=model, c=c, seeds=pairs, checked=short, told=told)
    numbers = write_report(made, output)
    for sentence in made.words:
        say(sentence)
    say(f"{output}, numbers in {numbers}")
