"""What a run is and how it went, as commands print it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from horoball.cli.console import print_table

if TYPE_CHECKING:
    from horoball.training.table.record import TableRecord
    from horoball.training.table.run import Run

__all__ = ["show_run"]


def show_run(run: Run, folder: Path) -> None:
    """Print what a run is and how it went.

    Example:
        >>> import torch
        >>> from horoball.data import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.table.train import train
        >>> run = train(ArrayTable(torch.randn(40, 3)), {"hidden": (8,)}, TrainConfig(max_epochs=1))
        >>> show_run(run, Path("run"))
        {"run": "run", "rows": 40, "columns": 3, ...}
    """
    from horoball.training.convergence import early_end  # brings torch, which --help does not need

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
