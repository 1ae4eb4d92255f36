"""A fitted model for rows that are in an engine already: Ray Data's `map_batches`, Spark's `mapInArrow`.

For rows in files neither is needed: `horoball embed` and `horoball place` share the work without a scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any


class _OfBatches:
    """What batches of rows become; each process reads the model when it meets its first rows, and keeps it."""

    def __init__(self, run: str | Path, keep: Sequence[str] = (), device: str = "cpu") -> None:
        self.run, self.keep, self.device = str(run), tuple(keep), device
        self._loaded: Any = None

    def __getstate__(self) -> tuple[str, tuple[str, ...], str, dict[str, Any]]:
        return self.run, self.keep, self.device, self._options()

    def __setstate__(self, state: tuple[str, tuple[str, ...], str, dict[str, Any]]) -> None:
        run, keep, device, options = state
        self.__init__(run, keep, device, **options)  # type: ignore[misc]

    def __call__(self, batch: Any) -> Any:
        """An Arrow table of rows → one with the columns that are kept, and those that are made."""
        import pyarrow as pa

        kept = [name for name in self.keep if name not in batch.column_names]
        if kept:
            raise ValueError(f"The batch has no column {kept[0][:40]!r} to keep.")
        if isinstance(batch, pa.RecordBatch):
            batch = pa.Table.from_batches([batch])
        made = self._made(batch) if batch.num_rows else self._made(_one_row(batch.schema)).slice(0, 0)
        for name in reversed(self.keep):
            if name in made.column_names:
                raise ValueError(f"The column {name[:40]!r} to keep has the name of one that is made. Rename it.")
            made = made.add_column(0, batch.schema.field(name), batch.column(name))
        return made

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same of Arrow record batches, one after the other, as Spark's `mapInArrow` gives and takes them."""
        for batch in batches:
            yield from self(batch).to_batches()

    def schema(self, rows: Any) -> Any:
        """The Arrow schema of what rows of an Arrow schema become; no row is needed."""
        return self(rows.empty_table()).schema

    def _options(self) -> dict[str, Any]:
        return {}

    def _made(self, batch: Any) -> Any:
        raise NotImplementedError

    def _model(self) -> Any:
        if self._loaded is None:
            from horoball.vae.run import Run

            self._loaded = Run.load(Path(self.run)).to(self.device)
        return self._loaded


class Embedder(_OfBatches):
    """Batches of rows → their ball coordinates z0, z1 …, radius and scale, as `horoball embed` writes them.

    Args:
        run: The folder that `horoball fit` wrote, or its URL, which every worker must be able to read.
        keep: Names of columns that go with the coordinates, such as a key.
        device: Where workers compute.

    Example:
        >>> import pyarrow as pa, tempfile, torch
        >>> from horoball.tables import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.vae.train import train
        >>> folder, x = tempfile.mkdtemp(), torch.randn(50, 2)
        >>> run = train(ArrayTable(x, ["a", "b"]), {"hidden": (8,)}, TrainConfig(max_epochs=1), Path(folder))
        >>> batch = pa.table({"key": [7, 9], "a": [0.1, 0.2], "b": [1.0, 2.0]})
        >>> Embedder(folder, keep=["key"])(batch).column_names
        ['key', 'z0', 'z1', 'radius', 'scale']
    """

    def _made(self, batch: Any) -> Any:
        import pyarrow as pa
        import torch

        run = self._model()
        found = torch.cat(list(run.coordinates(run.read(batch))))
        names = [*(f"z{i}" for i in range(found.shape[1] - 2)), "radius", "scale"]
        return pa.table(dict(zip(names, map(pa.array, found.T.numpy()), strict=True)))


class Placer(_OfBatches):
    """Batches of rows → their places among the groups of `horoball tree`, as `horoball place` writes them.

    Args:
        run: The folder of a run with the groups of a tree, or its URL.
        keep: Names of columns that go with the places, such as a key.
        device: Where workers compute.
        coverage: Probability with which a place holds the truth, below 1. Larger is less deep. Useful: 0.8 to 0.95.

    Example:
        >>> Placer("run", keep=["key"]).coverage
        0.9
    """

    def __init__(
        self, run: str | Path, keep: Sequence[str] = (), device: str = "cpu", *, coverage: float = 0.9
    ) -> None:
        super().__init__(run, keep, device)
        self.coverage = coverage
        self._places: Any = None

    def _options(self) -> dict[str, Any]:
        return {"coverage": self.coverage}

    def _made(self, batch: Any) -> Any:
        from horoball.vae.files import places_table
        from horoball.vae.tree import load_places, table_points

        run = self._model()
        if self._places is None:
            self._places = load_places(Path(self.run), run)
        placed = self._places.place(table_points(run, run.read(batch)), self.coverage)
        return places_table(placed).drop_columns(["row"])


def _one_row(schema: Any) -> Any:
    """A row of zeros and empty texts: engines ask what an empty batch becomes, to know its columns."""
    import pyarrow as pa

    values = []
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        value = pa.array([""], pa.string()) if text else pa.array([0], pa.int8())
        try:
            values.append(value.cast(kind))
        except (pa.ArrowException, NotImplementedError):
            values.append(pa.nulls(1, kind))
    return pa.table(values, names=schema.names)
