"""Missing values filled in by a fitted model, by importance sampling of where a row with gaps may lie.

Tables with their gaps filled: all columns of the source, what was observed as it was, in the source's own types. A
model sees columns as float32, so that what it gives back is no copy of what it was given. Here the source is read
again, and only cells that are missing are changed. Cells of a text file stay the text that they are.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from horoball.geometry.random import generator_for
from horoball.likelihoods.discrete import Levels
from horoball.likelihoods.mixed import Mixed, Product
from horoball.storage.whole import whole_file
from horoball.tables.encoding import text_of_dates
from horoball.tables.filling import fill_table, gaps_of, one_array
from horoball.tables.frames import dialect_of, ending_of, frame_as_written, frame_of
from horoball.tables.limits import parsing
from horoball.tables.listing import parquet_files
from horoball.tables.parquet import is_parquet
from horoball.tables.partitions import with_values
from horoball.tables.schema import Schema
from horoball.tables.table import Table
from horoball.vae.files import write_table
from horoball.vae.residuals import Given, NormalColumns, given_observed
from horoball.vae.run import Run

_ROWS = 256  # at a time


@torch.no_grad()
def impute(run: Run, table: Table, *, draws: int = 0, samples: int = 200, seed: int = 0) -> Tensor:
    """The rows of a table with their gaps filled; what was observed stays as it is.

    Points z_k are drawn from q(z | x) of the values that were observed, and weighted by p(x_observed, z)/q(z | x): the
    result is that of p(z | x_observed), of which q is an approximation. Values are assumed to be missing at random:
    that one is missing may depend on the values that were observed, and not on the missing one itself. What the model
    leaves of real and positive columns goes together as in the fit: see `horoball.vae.residuals`.

    Args:
        run: A fitted model.
        table: Rows as `Run.read` gives them; missing values are NaN.
        draws: How many filled tables to draw; 0 fills in the best guess: means of numbers, medians of positive ones,
            the likeliest level of others.
        samples: Points for each row. More are more exact and take longer; 100 to 1000 are useful.
        seed: Seed of the random numbers.

    Returns:
        Rows in their own units, shape (rows, features), or (draws, rows, features).
    """
    why = run.record.kind.refuses.get("impute")
    if why is not None:
        raise ValueError(f"There is nothing to fill in: {why}. Drop rows without one.")
    if not run.record.mixed:
        return next(_whole(run, table, draws))
    generator = generator_for(seed)
    blocks = [_filled(run, block, draws, samples, generator) for block in run.blocks(table, _ROWS)]
    filled = run.unscaled(torch.cat(blocks, -2))
    own = torch.cat(list(table.blocks()))
    return torch.where(own.isnan(), filled, own)  # what was observed comes back to the last digit


def _whole(run: Run, table: Table, draws: int) -> Iterator[Tensor]:
    """A model of tables without gaps has nothing to fill."""
    rows = torch.cat(list(table.blocks()))[:, : table.features]
    yield rows.expand(draws, *rows.shape).clone() if draws else rows


def _filled(run: Run, x: Tensor, draws: int, samples: int, generator: torch.Generator) -> Tensor:
    """Best guesses, or draws, for some rows as the model sees them; complete rows are passed over."""
    out = x.expand(draws, *x.shape).clone() if draws else x.clone()
    gaps = x.isnan().any(-1).nonzero().ravel()
    if not len(gaps):
        return out
    mine, model = x[gaps], run.model
    q, p = model.posterior(mine), model.prior()
    z, log_q = q.rsample_and_log_prob((samples,), generator)
    decoded: Any = model.decode(z)
    residuals = None if run.residuals is None else _Residuals(run, mine)
    likelihood = decoded.log_prob(mine) if residuals is None else residuals.log_prob(decoded)
    weights = (likelihood + p.log_prob(z) - log_q).softmax(0)  # (samples, rows)
    if draws:
        # Where the generator is, so that a seed gives the same on every device.
        chosen = torch.multinomial(weights.T.cpu(), draws, True, generator=generator).to(z.device)  # (rows, draws)
        picked = z[chosen.T, torch.arange(len(gaps), device=z.device)]
        again: Any = model.decode(picked)
        filled = again.sample(generator=generator).to(x.dtype)
        if residuals is not None:
            residuals.draw(filled, again, generator)
    else:
        filled = _best(decoded, weights).to(x.dtype)
        if residuals is not None:
            residuals.expect(filled, decoded, weights)
    out[..., gaps, :] = filled
    return torch.where(x.isnan(), out, x)


class _Residuals:
    """Normal columns of some rows, whose residuals go together."""

    def __init__(self, run: Run, x: Tensor) -> None:
        assert run.residuals is not None  # noqa: S101  the caller has looked
        self._columns, self._covariance = NormalColumns(cast(Mixed, run.model.likelihood)), run.residuals
        self._others, self._values = self._columns.others(x), self._columns.values(x)
        self._there = ~self._values.isnan()

    def _given(self, means: Tensor, noise: Tensor | None = None) -> Given:
        residuals = self._values - means
        return given_observed(self._covariance, residuals if noise is None else residuals - noise, self._there)

    def log_prob(self, decoded: Product) -> Tensor:
        """log p(x_observed | z), up to a constant."""
        rest = decoded.log_prob(self._others)
        return rest + self._given(self._columns.means(decoded)).log_density.to(rest.dtype).to(rest.device)

    def expect(self, filled: Tensor, decoded: Product, weights: Tensor) -> None:
        """Put best guesses into rows: means, or medians of positive numbers."""
        means = self._columns.means(decoded)
        guesses = self._columns.rows(means + self._given(means).expected)
        expected = (weights.cpu().unsqueeze(-1).to(guesses) * guesses).sum(0)
        filled[:, self._columns.features] = expected.to(filled.dtype).to(filled.device)

    def draw(self, filled: Tensor, decoded: Product, generator: torch.Generator) -> None:
        """Put draws into rows: residuals without regard to what was observed, moved to agree with it."""
        means = self._columns.means(decoded)
        factor = torch.linalg.cholesky(self._covariance)
        noise = torch.randn(means.shape, generator=generator, dtype=means.dtype) @ factor.T
        drawn = means + noise + self._given(means, noise).expected
        filled[..., self._columns.features] = self._columns.rows(drawn).to(filled.dtype).to(filled.device)


def _best(decoded: Product, weights: Tensor) -> Tensor:
    """Weighted means over the samples; the likeliest level by weighted probabilities."""
    parts = []
    for likelihood, part in decoded.parts:
        base: Any = getattr(part, "base_dist", None)
        if isinstance(likelihood, Levels):
            parts.append((weights[..., None, None] * base.probs).sum(0).argmax(-1).to(weights.dtype))
            continue
        parts.append((weights.unsqueeze(-1) * likelihood.point_estimate(part)).sum(0))
    return decoded.joined(parts)


def write_filled(run: Run, data: str, table: Table, guesses: Any, path: Path) -> None:
    """Write the rows of a file with their gaps filled to another file, as its name ends."""
    schema = table.schema if run.record.mixed and table.schema is not None else Schema(())
    ending = path.suffix.lower()
    if is_parquet(data):
        written, dialect = _read_parquet(data), None
    elif ending_of(data) is None:  # arrays and cells, which have no gaps
        write_table(guesses, path)
        return
    else:
        with parsing(data):
            written, dialect = frame_as_written(data), dialect_of(data)
    aside = [name for name in (run.label, table.name_column) if name is not None]
    typed = written if dialect is None else frame_of(data, aside)
    gaps = gaps_of(schema, table, typed)
    lines = _json_lines(data, table.rows) if ending == ending_of(data) == ".jsonl" else None
    if lines is not None:
        _write_lines(lines, written.column_names, gaps, guesses, path)
    elif dialect is None:
        write_table(fill_table(written, gaps, guesses), path)
    elif ending in (".csv", ".tsv") and (ending == ".tsv") == (dialect.delimiter == "\t"):
        _write_text(_filled_text(written, typed, gaps, guesses, dialect.decimal), path, dialect.delimiter)
    else:
        filled = fill_table(_kept_text(typed, written, list(gaps)), gaps, guesses)
        write_table(_numbers_of_text(filled, list(gaps), guesses, dialect.decimal), path)


def _read_parquet(path: str) -> Any:
    import fsspec
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = []
    for name in parquet_files(path):
        with parsing(name, "Parquet file"), fsspec.open(name, "rb") as file:
            parts.append(with_values(pq.read_table(file, page_checksum_verification=True), name))
    return pa.concat_tables(parts)


def _filled_text(written: Any, typed: Any, gaps: dict[str, np.ndarray], guesses: Any, decimal: str) -> Any:
    """The text of all cells, with guesses written as the other cells of their column are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for number, name in enumerate(written.column_names):
        gap = gaps.get(name)
        if gap is None or not gap.any():
            continue
        column, values, mask = written.column(number), guesses.column(name), pa.array(gap)
        if pa.types.is_temporal(values.type):
            there = column.filter(pc.invert(mask))
            texts = text_of_dates(values.filter(mask), there).cast(pa.string())
        else:
            plain = values.filter(mask).cast(pa.string())
            if pa.types.is_floating(values.type):
                plain = pc.replace_substring(plain, ".", decimal)
            elif not pa.types.is_integer(values.type):
                plain = _as_others(plain, column, typed.column(number))
            texts = plain
        column = pc.replace_with_mask(column.combine_chunks(), mask, one_array(texts))
        written = written.set_column(number, name, column)
    return written


def _as_others(texts: Any, column: Any, typed: Any) -> Any:
    """Truths as the column writes them: yes and no may be True, TRUE or 1."""
    import pyarrow as pa

    if not pa.types.is_boolean(typed.type):
        return texts
    said = {"true": "true", "false": "false"}
    for text, truth in zip(column.to_pylist(), typed.to_pylist(), strict=True):
        if truth is not None:
            said["true" if truth else "false"] = text
    return pa.chunked_array([pa.array([said[text] for text in texts.to_pylist()], pa.string())])


def _kept_text(typed: Any, written: Any, used: Sequence[str]) -> Any:
    """Columns of a text file with their types; one that a model does not use stays text if numbers would lose zeros."""
    import pyarrow as pa

    for number, name in enumerate(typed.column_names):
        column = typed.column(number)
        if name in used or not pa.types.is_integer(column.type):
            continue
        texts = written.column(number).to_pylist()
        if any(
            value is not None and str(value) != text.strip()
            for value, text in zip(column.to_pylist(), texts, strict=True)
        ):
            kept = [None if value is None else text for value, text in zip(column.to_pylist(), texts, strict=True)]
            typed = typed.set_column(number, name, pa.array(kept, pa.string()))
    return typed


def _numbers_of_text(frame: Any, used: Sequence[str], guesses: Any, decimal: str) -> Any:
    """Columns of numbers that were read as text, because of cells that were none, as numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = {}
    for name, column in zip(frame.column_names, frame.columns, strict=True):
        kind = guesses.column(name).type if name in used else column.type
        if pa.types.is_string(column.type) and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            column = pc.replace_substring(pc.utf8_trim_whitespace(column), decimal, ".").cast(pa.float64())
        columns[name] = column
    return pa.table(columns)  # without what the reader has noted of the fields


def _write_lines(
    lines: list[dict[str, Any]], columns: list[str], gaps: dict[str, np.ndarray], guesses: Any, path: Path
) -> None:
    """Write the objects of a file of JSON lines as they are, with what they lack."""
    import pyarrow as pa

    for name, gap in gaps.items():
        values = guesses.column(name)
        if pa.types.is_temporal(values.type):
            texts = [text if isinstance(text := line.get(name), str) else None for line in lines]
            values = text_of_dates(values, pa.chunked_array([texts], pa.string()))
        for number, value in zip(np.flatnonzero(gap), values.filter(pa.array(gap)).to_pylist(), strict=True):
            lines[number][name] = value
    with whole_file(path) as file:
        for line in lines:
            kept = {name: line[name] for name in columns if name in line}
            file.write(json.dumps(kept, ensure_ascii=False).encode() + b"\n")


def _json_lines(path: str, rows: int) -> list[dict[str, Any]] | None:
    """The objects of a file with one on each line; None if it is written otherwise."""
    import fsspec

    with fsspec.open(path, "rb") as file:
        try:
            lines = [json.loads(line) for line in file if line.strip()]
        except (ValueError, RecursionError):
            return None
    return lines if len(lines) == rows and all(isinstance(line, dict) for line in lines) else None


def _write_text(frame: Any, path: Path, delimiter: str) -> None:
    """Write text as it is: quotes are where they are needed."""
    with whole_file(path) as file:
        lines = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        writer = csv.writer(lines, delimiter=delimiter, lineterminator="\n")
        writer.writerow(frame.column_names)
        for batch in frame.to_batches(max_chunksize=1 << 14):
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        lines.detach()
