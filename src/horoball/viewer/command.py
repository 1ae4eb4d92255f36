"""What `horoball view` does: files in, a page out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from horoball.training.run import Run
from horoball.viewer.disc import View
from horoball.viewer.run import view_run

__all__ = ["view_files"]


def view_files(
    run: Path,
    data: str,
    output: Path,
    *,
    features: Sequence[str] = (),
    names: Path | None = None,
    image_shape: str | None = None,
    title: str | None = None,
) -> View:
    """Write a map of a table, as a fitted model sees it.

    Args:
        run: The folder that `horoball fit` wrote.
        data: A file of rows, or a folder of Parquet files, as `horoball.data.read` takes them.
        output: The page.
        features: Columns of the data to colour by as well as by the label.
        names: A text file with the name of each row, one a line.
        image_shape: Size of a picture where a row is one: "28x28", or "32x32x3" for colours.
        title: Title of the page; the name of the data without it.

    Example:
        >>> import tempfile, numpy as np
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.run import train
        >>> folder = Path(tempfile.mkdtemp())
        >>> np.save(folder / "rows.npy", np.random.default_rng(0).normal(size=(100, 4)))
        >>> from horoball.data import read
        >>> table = read(folder / "rows.npy")
        >>> run = train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1), folder / "run")
        >>> view_files(folder / "run", str(folder / "rows.npy"), folder / "map.html")
        View(... characters)
    """
    fitted = Run.load(run)
    table = fitted.read(data)
    return view_run(
        fitted,
        table,
        features=features,
        labels=table.names if names is None else names.read_text(encoding="utf-8").splitlines(),
        image_shape=None if image_shape is None else _shape(image_shape),
        title=Path(data).stem if title is None else title,
        path=output,
    )


def _shape(text: str) -> tuple[int, ...]:
    sizes = text.lower().replace("×", "x").split("x")
    if len(sizes) not in (2, 3) or not all(size.strip().isdecimal() for size in sizes):
        raise ValueError(f"The size of a picture is height x width, such as 28x28, got {text!r}.")
    return tuple(int(size) for size in sizes)
