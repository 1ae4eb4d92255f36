"""The command line: `horoball fit`, `embed`, `evaluate`, `sample`, `info`."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as RichTable

if TYPE_CHECKING:
    from horoball.training.run import Run

__all__ = ["app"]

app = typer.Typer(
    name="horoball",
    help="Learn a map of a hierarchy: a variational auto-encoder on the Poincaré ball, from a table of numbers.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_console = Console(stderr=True)


class Posterior(StrEnum):
    """Kinds of posterior."""

    riemannian = "riemannian"
    wrapped = "wrapped"


class LikelihoodName(StrEnum):
    """Kinds of likelihood."""

    auto = "auto"
    normal = "normal"
    bernoulli = "bernoulli"
    poisson = "poisson"
    negative_binomial = "negative_binomial"
    categorical = "categorical"


def _for_people(command: Callable[..., None]) -> Callable[..., None]:
    """What a person can act on becomes one line and exit code 1; Ctrl-C leaves a checkpoint and exit code 130."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt as error:
            _console.print(f"{error} Go on with the same command and --resume.", style="yellow", markup=False)
            raise typer.Exit(130) from None
        except (ValueError, OSError, FloatingPointError, TypeError) as error:
            _console.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)
            raise typer.Exit(1) from None

    return run


Data = Annotated[str, typer.Argument(help="A .csv, .tsv, .parquet, .npy or .npz file, or a folder of .parquet files.")]
RunFolder = Annotated[Path, typer.Argument(help="The folder that `horoball fit` wrote.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]


@app.command()
@_for_people
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to keep the run in.")],
    dim: Annotated[int, typer.Option(help="Dimension of the ball.")] = 2,
    c: Annotated[
        str, typer.Option(help="Minus the curvature: a number, 0 for the Euclidean model, or 'learn'.")
    ] = "1.0",
    posterior: Annotated[Posterior, typer.Option(help="Kind of posterior.")] = Posterior.riemannian,
    likelihood: Annotated[LikelihoodName, typer.Option(help="Law of the data.")] = LikelihoodName.auto,
    label: Annotated[str | None, typer.Option(help="A column to keep aside, as the colour of a map.")] = None,
    max_epochs: Annotated[int, typer.Option(help="Most passes over the rows.")] = 200,
    batch_size: Annotated[int, typer.Option(help="Rows of a step.")] = 128,
    learning_rate: Annotated[float, typer.Option(help="Step size of Adam.")] = 1e-3,
    hidden: Annotated[int, typer.Option(help="Size of the hidden layers.")] = 200,
    beta: Annotated[float, typer.Option(help="Weight of the divergence.")] = 1.0,
    patience: Annotated[int, typer.Option(help="Epochs without improvement before stopping; 0 for never.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Fit a model to a table.

    Example: horoball fit cells.csv -o run --label type
    """
    from horoball.data import read
    from horoball.training import TrainConfig
    from horoball.training.progress import Bar, Silent
    from horoball.training.run import train

    _log_to_console()
    learn = c == "learn"
    try:
        curvature = 1.0 if learn else float(c)
    except ValueError:
        raise ValueError(f"--c is a number or 'learn', got {c!r}.") from None
    if any((output / name).exists() for name in ("model.safetensors", "last.safetensors")) and not resume:
        raise ValueError(f"{output} already holds a run. Choose another folder, or go on with --resume.")
    model = {
        "d": dim,
        "c": curvature,
        "learn_c": learn,
        "posterior": posterior.value,
        "likelihood": likelihood.value,
        "hidden": (hidden,),
    }
    config = TrainConfig(
        max_epochs=max_epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        beta=beta,
        patience=patience,
        seed=seed,
    )
    progress = Silent() if quiet else Bar(_console)
    run = train(read(data, label), model, config, output, label=label, resume=resume, progress=progress)
    _show(run, output)


@app.command()
@_for_people
def embed(run: RunFolder, data: Data, output: Output) -> None:
    """Write the ball coordinates of every row to a Parquet file.

    Example: horoball embed run cells.csv -o map.parquet
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from horoball.training.run import Run

    fitted = Run.load(run)
    table = _read(data, fitted)
    d = fitted.model.prior.loc.shape[0]
    schema = pa.schema([(f"z{i}", pa.float64()) for i in range(d)])
    rows = 0
    part = output.with_name(output.name + ".part")
    with pq.ParquetWriter(part, schema) as writer:
        for block in fitted.embed(table):
            writer.write_table(pa.table([pa.array(column) for column in block.T.numpy()], schema=schema))
            rows += len(block)
    part.replace(output)
    _console.print(f"{rows:,} rows, {d} coordinates: {output}", markup=False)


@app.command()
@_for_people
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
    table = fitted.scaled(_read(data, fitted))
    torch.manual_seed(0)
    sums = torch.zeros(4, dtype=torch.float64)
    with torch.no_grad():
        for block in table.blocks(1024):
            bound = elbo(fitted.model, block, kl="sample")
            terms = (bound.value, bound.kl, log_likelihood(fitted.model, block, samples), torch.ones(len(block)))
            sums += torch.stack([term.double().sum() for term in terms])
    means = (sums[:3] / sums[3]).tolist()
    numbers = dict(zip(("elbo", "kl", f"log-likelihood, {samples} samples"), means, strict=True))
    _print_table({name: f"{value:.4f}" for name, value in numbers.items()} | {"rows": f"{int(sums[3]):,}"})


@app.command()
@_for_people
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

    fitted = Run.load(run)
    torch.manual_seed(seed)
    with torch.no_grad():
        z = fitted.model.prior().sample((n,))
        x = fitted.unscaled(fitted.model.decode(z).sample().float())
    pq.write_table(pa.table([pa.array(column) for column in x.T.numpy()], names=fitted.columns), output)
    _console.print(f"{n:,} rows, {len(fitted.columns)} columns: {output}", markup=False)


@app.command()
@_for_people
def info(run: RunFolder) -> None:
    """Print what a run is and how it went.

    Example: horoball info run
    """
    from horoball.training.run import Run

    _show(Run.load(run), run)


def _read(data: str, fitted: Run) -> Any:
    from horoball.data import read

    return read(data, fitted.label, label_may_miss=True)


def _show(run: Run, folder: Path) -> None:
    about = run.about
    model = about["model"]
    last = run.history[-1] if run.history else {}
    numbers = {
        "run": str(folder),
        "rows × columns": f"{about['rows']:,} × {len(run.columns)}",
        "posterior": f"{model['posterior']}, d = {model['d']}, c = {last.get('c', model['c']):.4g}",
        "likelihood": model["likelihood"],
        "epochs": str(len(run.history)),
    }
    numbers |= {name: f"{last[name]:.4f}" for name in ("loss", "kl", "validation") if name in last}
    _print_table(numbers)


def _print_table(numbers: dict[str, str]) -> None:
    if not sys.stdout.isatty():
        print(json.dumps(numbers, ensure_ascii=False))
        return
    table = RichTable(show_header=False)
    for name, value in numbers.items():
        table.add_row(name, value)
    Console().print(table, markup=False)


def _log_to_console() -> None:
    logger = logging.getLogger("horoball")
    logger.setLevel(logging.INFO)
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)


if __name__ == "__main__":
    app()
