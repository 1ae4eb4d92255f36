"""Embeddings, groups and places of rows as files.

Embeddings and places of tables of any size: Parquet files of some hundred thousand rows each. A file is written under
another name and renamed when it is whole. What is there is not written again, so that a command that was stopped or
killed goes on where it was. Rank r of n writes the files r, r + n, …, which needs no word with the others: n processes
on n machines do as well as those of torchrun. Whichever finds all files there writes `_SUCCESS`, with their rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.storage.checkpoint import tensors_digest
from horoball.storage.outputs import open_file, read_file
from horoball.storage.stores import located
from horoball.storage.whole import whole_file, write_whole
from horoball.tables.table import Table
from horoball.trees.drift import Drift, unfit
from horoball.trees.placement import Placed, Placer
from horoball.trees.record import tree_to_json
from horoball.trees.taxonomy import Taxonomy
from horoball.trees.tree import Tree
from horoball.vae.run import Run
from horoball.vae.tree import table_points

ABOUT = "_embedding.json"  # readers of Parquet folders leave out what begins so
_OLD_ABOUT = "embedding.json"  # its name until version 0.2
_ABOUT_PLACES = "_places.json"
_SUCCESS = "_SUCCESS"  # as Spark and Hadoop call it: there once all files are
_PLACED = 1 << 16  # rows that are placed at a time
ENDINGS = (".parquet", ".pq", ".csv", ".tsv", ".jsonl")
ROWS = 1 << 18  # of a file: some seconds of work, some megabytes
_GROUP = 1 << 16  # rows of a row group: the writer holds a record of every group
_MOST = 1 << 26  # bytes of the record of a folder: some numbers for every file
_OF = b"horoball"  # where a Parquet file says which embedding it is a part of


def embed_file(run: Run, table: Table, path: Path, first: int = 0, of: Callable[[], str] = str) -> int:
    """Write the coordinates of all rows to one file, as its name ends: .parquet, .csv, .tsv or .jsonl.

    Its columns are `row`, the number of a row, or the rows' names under the name they have in their source; the ball
    coordinates `z0`, `z1` …; `radius`, the distance from the origin; and `scale`, the posterior's.

    Args:
        run: The fitted model.
        table: The rows.
        path: The file.
        first: Number of the first row.
        of: Gives what names the embedding that the file is a part of, once all rows are written.

    Returns:
        Number of rows.

    Example:
        >>> import numpy as np, pyarrow.parquet as pq, tempfile
        >>> from horoball.tables import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.vae.train import train
        >>> table = ArrayTable(np.random.default_rng(0).normal(size=(100, 4)))
        >>> path = Path(tempfile.mkdtemp()) / "z.parquet"
        >>> embed_file(train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1)), table, path)
        100
        >>> pq.read_table(path).column_names
        ['row', 'z0', 'z1', 'radius', 'scale']
    """
    import pyarrow as pa

    d = run.record.model.d
    names = table.read_names()
    if names is not None and not isinstance(names, pa.ChunkedArray):
        names = pa.array(names)
    kind = pa.int64() if names is None else names.type
    numbers = [*(f"z{i}" for i in range(d)), "radius", "scale"]
    id_column = own_name(table.name_column, numbers)
    schema = pa.schema([(id_column, kind), *((name, pa.float64()) for name in numbers)])
    rows = 0
    # A dictionary of numbers that hardly repeat takes a third of the time, and saves nothing.
    dictionaries: list[str] = [] if names is None else [id_column]
    with _writer(path, schema, dictionaries, of) as write:
        for block in _joined(run.coordinates(table, first), _GROUP):
            end = rows + len(block)
            named = pa.array(np.arange(first + rows, first + end)) if names is None else names[rows:end]
            write(pa.table([named, *map(pa.array, block.T.numpy())], schema=schema))
            rows = end
    return rows


def write_table(table: Any, path: Path) -> None:
    """Write a table of pyarrow to a file, as its name ends; it is there whole or not at all.

    In .csv and .tsv names are quoted and stand as they are: programs read back what was read. A spreadsheet takes
    those that begin with = + - @ for formulas; import such columns as text.

    Example:
        >>> import pyarrow as pa, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "z.jsonl"
        >>> write_table(pa.table({"node": ["a"], "z0": [0.5]}), path)
        >>> path.read_text().splitlines()
        ['{"node": "a", "z0": 0.5}']
    """
    with _writer(path, table.schema) as write:
        write(table)


def check_ending(path: Path) -> None:
    """Refuse a name that does not say how to write a table.

    Example:
        >>> check_ending(Path("map.xlsx"))
        Traceback (most recent call last):
        ...
        ValueError: A table is written to a file that ends in .parquet, .pq, .csv, .tsv or .jsonl, not 'map.xlsx'.
    """
    if path.suffix.lower() not in ENDINGS:
        ends = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        raise ValueError(f"A table is written to a file that ends in {ends}, not {path.name!r}.")


@contextmanager
def _writer(
    path: Path, schema: Any, dictionaries: bool | list[str] = True, of: Callable[[], str] = str
) -> Iterator[Callable[[Any], object]]:
    """A function that writes tables one after the other; `of` is asked last."""
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    path = located(path)
    check_ending(path)
    ending = path.suffix.lower()
    with whole_file(path) as file:
        if ending in (".parquet", ".pq"):
            with pq.ParquetWriter(file, schema, use_dictionary=dictionaries, write_page_checksum=True) as parquet:
                yield parquet.write_table
                parquet.add_key_value_metadata({_OF: named} if (named := of()) else {})
        elif ending == ".jsonl":
            yield lambda table: file.writelines(_json_line(row) for row in table.to_pylist())
        else:
            options = pc.WriteOptions(delimiter="\t" if ending == ".tsv" else ",")
            with pc.CSVWriter(file, schema, write_options=options) as delimited:
                yield delimited.write


def _json_line(row: dict[str, Any]) -> bytes:
    """A row as JSON, which has neither dates, as ISO 8601 writes them, nor decimal numbers nor NaN."""

    def plain(value: Any) -> Any:
        if hasattr(value, "isoformat"):
            return value.isoformat()
        return float(value) if isinstance(value, Decimal) else str(value)

    finite = {name: None if isinstance(value, float) and value != value else value for name, value in row.items()}
    return json.dumps(finite, default=plain).encode() + b"\n"


def embed_folder(
    run: Run,
    table: Table,
    folder: Path,
    *,
    rows: int = ROWS,
    rank: int = 0,
    ranks: int = 1,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> int:
    """Write the coordinates of all rows to the files of a folder, those of one rank, and those that are not there yet.

    Args:
        run: The fitted model.
        table: The rows.
        folder: The folder; it may hold a part of the same files.
        rows: Rows of a file; row groups of a source are not cut, so it may be more.
        rank: Whose files are written.
        ranks: How many share the work.
        told: Called after each file with the number of rows that are there, and that of this rank.

    Returns:
        Number of rows that were written now.

    Example:
        >>> import numpy as np, tempfile
        >>> from horoball.tables import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.vae.train import train
        >>> table = ArrayTable(np.random.default_rng(0).normal(size=(100, 4)))
        >>> run = train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1))
        >>> folder = Path(tempfile.mkdtemp())
        >>> embed_folder(run, table, folder, rows=40), embed_folder(run, table, folder, rows=40)
        (100, 0)
        >>> sorted(file.name for file in folder.iterdir())[2:]
        ['part-00000.parquet', 'part-00001.parquet', 'part-00002.parquet']
    """

    def write(shard: Table, path: Path, first: int, of: Callable[[], str]) -> int:
        return embed_file(run, shard, path, first, of)

    about = {"model": run.identity}
    return _write_parts(write, about, table, folder, ABOUT, rows=rows, rank=rank, ranks=ranks, told=told)


def _write_parts(
    write: Callable[[Table, Path, int, Callable[[], str]], int],
    about: dict[str, Any],
    table: Table,
    folder: Path,
    record: str,
    *,
    rows: int,
    rank: int,
    ranks: int,
    told: Callable[[int, int], None],
) -> int:
    """Write the files of one rank that are not there yet; the record says what all are made from."""
    folder, shards = located(folder), table.shards(rows)
    about |= {"rows": [shard.rows for shard in shards], "table": table.sketch(), "names": table.name_column}
    _check(folder, about, record)
    mine = sum(shard.rows for shard in shards[rank::ranks])
    first, done, written, whole = 0, 0, 0, tensors_digest({}, json.dumps(about))
    for number, shard in enumerate(shards):
        path = folder / f"part-{number:05d}.parquet"
        if number % ranks == rank:
            # All rows that a file was made from count, not only those of the sketch.
            if not (path.exists() and _is_there(path, shard.rows, _part(whole, first, shard.fingerprint))):
                (folder / _SUCCESS).unlink(missing_ok=True)
                noted, fingerprint = shard.noted()
                written += write(noted, path, first, partial(_part, whole, first, fingerprint))
            done += shard.rows
            told(done, mine)
        first += shard.rows
    names = {path.name for path in folder.iterdir()}
    if all(f"part-{number:05d}.parquet" in names for number in range(len(shards))):
        write_whole(folder / _SUCCESS, json.dumps({"rows": first, "files": len(shards)}), alone=False)
    return written


def _part(whole: str, first: int, fingerprint: Callable[[], str]) -> str:
    """What a file says of itself: the embedding, where its rows begin, and their fingerprint."""
    return f"{whole} {first} {fingerprint()}"


def _check(folder: Path, about: dict[str, Any], record: str) -> None:
    """Refuse a folder with other results; note in a new one what it will hold."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / record
    if record == ABOUT and not path.exists() and (folder / _OLD_ABOUT).exists():
        path = folder / _OLD_ABOUT
    if not path.exists():
        if any(folder.glob("*.parquet")):
            raise ValueError(f"{folder} holds Parquet files but no {record}. Choose an empty folder.")
        write_whole(path, json.dumps(about), alone=False)  # other ranks write the same
    what = "an embedding" if record == ABOUT else "places"
    try:
        there = json.loads(read_file(path, _MOST))
    except (ValueError, RecursionError) as error:
        if str(path) in str(error):
            raise
        there = None
    if not isinstance(there, dict):
        raise ValueError(f"{path} is no record of {what}. Choose another folder, or remove it.")
    other = {
        "model": "by another model",
        "places": "in other groups, or of another coverage",
        "rows": "of other rows",
        "names": "by other names",
        "table": "of another table",
    }
    for name, which in other.items():
        if there.get(name) != about.get(name):
            raise ValueError(f"{folder} holds {what} {which}. Choose another folder, or remove it.")


def _is_there(path: Path, rows: int, part: str) -> bool:
    """Whether a file is there, whole and this part of this embedding; another one is written again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_file(path) as file:
            try:
                found = pq.read_metadata(file)
            except (pa.ArrowException, OSError, UnicodeDecodeError):  # damaged: it is written again
                return False
    except FileNotFoundError:
        return False
    said = (found.metadata or {}).get(_OF, b"").decode("utf-8", "replace")
    if said.split()[:2] == part.split()[:2] and len(said.split()) == 3 and said != part:
        raise ValueError(
            f"{path.parent} holds an embedding of another table: {path.name} is of other rows, or of the same with "
            "other names. Choose another folder, or remove it."
        )
    return said == part and found.num_rows == rows


def _joined(blocks: Iterable[Tensor], rows: int) -> Iterator[Tensor]:
    """Blocks of some rows or more."""
    waiting: list[Tensor] = []
    for block in blocks:
        waiting.append(block)
        if sum(map(len, waiting)) >= rows:
            yield torch.cat(waiting)
            waiting = []
    if waiting:
        yield torch.cat(waiting)


def place_file(
    run: Run,
    placer: Placer,
    table: Table,
    path: Path,
    coverage: float = 0.9,
    threshold: float | None = None,
    first: int = 0,
    of: Callable[[], str] = str,
) -> tuple[int, int, int]:
    """Write where all rows belong to one file, as its name ends, some rows at a time; see `places_table`.

    Returns:
        Number of rows, of those in a group, and of those that do not fit.
    """
    rows = below = strange = 0
    with ExitStack() as stack:
        write = None
        for shard in table.shards(_PLACED):
            placed = placer.place(table_points(run, shard, first + rows), coverage)
            names = shard.read_names()
            made = places_table(placed, threshold, names=names, id_column=table.name_column, first=first + rows)
            if write is None:
                write = stack.enter_context(_writer(path, made.schema, of=of))
            write(made)
            rows, below = rows + shard.rows, below + shard.rows - made["place"].null_count
            strange += 0 if placed.typical is None else placed.drift.unfit
        if write is None:
            write_table(places_table(placer.place(np.empty((0, placer.points.shape[1])), coverage), threshold), path)
    return rows, below, strange


def place_folder(
    run: Run,
    placer: Placer,
    table: Table,
    folder: Path,
    coverage: float = 0.9,
    *,
    rows: int = ROWS,
    rank: int = 0,
    ranks: int = 1,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> int:
    """Write where all rows belong to the files of a folder, those of one rank, and those that are not there yet.

    Args:
        run: The fitted model.
        placer: What places rows in its groups.
        table: The rows.
        folder: The folder; it may hold a part of the same files.
        coverage: See `Placer.place`.
        rows: See `embed_folder`.
        rank: See `embed_folder`.
        ranks: See `embed_folder`.
        told: See `embed_folder`.

    Returns:
        Number of rows that were written now.
    """

    def write(shard: Table, path: Path, first: int, of: Callable[[], str]) -> int:
        return place_file(run, placer, shard, path, coverage, first=first, of=of)[0]

    arrays = {"points": placer.points, "levels": placer.levels, "held": placer.held, "limits": placer.limits}
    arrays |= {"typical": placer.typical} if len(placer.typical) else {}
    about = [list(map(float, placer.fitted)), [list(level) for level in placer.names], coverage]
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    made = {"model": run.identity, "places": tensors_digest(tensors, json.dumps(about))}
    return _write_parts(write, made, table, folder, _ABOUT_PLACES, rows=rows, rank=rank, ranks=ranks, told=told)


def drift_of(placer: Placer, folder: Path, rank: int = 0, ranks: int = 1) -> Drift:
    """Whether the rows of one rank, whose places a folder holds, still come from where those of the groups came from.

    Args:
        placer: What placed them.
        folder: The folder that `place_folder` wrote.
        rank: See `embed_folder`.
        ranks: See `embed_folder`.
    """
    import pyarrow.parquet as pq

    rows = strange = 0
    for path in sorted(located(folder).glob("part-*.parquet"), key=str):
        if int(path.stem[5:]) % ranks == rank:
            with open_file(path) as file:
                typical = pq.read_table(file, columns=["typical"])["typical"].to_numpy()
            rows, strange = rows + len(typical), strange + int(unfit(typical, len(placer.typical)).sum())
    return Drift(rows, strange, len(placer.typical))


def places_table(
    placed: Placed, threshold: float | None = None, *, names: Any = None, id_column: str = "row", first: int = 0
) -> Any:
    """An Arrow table with a line per row: its path, the probability of each step, how typical it is, and its place.

    The place is the deepest group that holds the truth with the probability `placed.coverage`; none is the root.
    """
    import pyarrow as pa

    n, levels = placed.path.shape
    if names is None:
        ids = pa.array(np.arange(first, first + n))
    elif isinstance(names, pa.Array | pa.ChunkedArray):
        ids = names.cast(pa.string())
    else:
        ids = pa.array([str(name) for name in names], pa.string())
    columns: dict[str, Any] = {}
    most = placed.path.max(0, initial=-1)
    called = placed.group_names or [[str(at) for at in range(number + 1)] for number in most.tolist()]
    ended = placed.path < 0
    start = np.cumsum([0, *map(len, called)])
    every = pa.array([name for level in called for name in level], pa.string())
    number = placed.path + start[:-1]  # among the names of all levels
    for level in range(levels):
        columns[f"level_{level + 1}"] = every.take(pa.array(number[:, level], mask=ended[:, level]))
        columns[f"probability_{level + 1}"] = pa.array(placed.probability[:, level], mask=ended[:, level])
    if placed.typical is not None:
        columns["typical"] = pa.array(placed.typical)
    steps = placed.depth(threshold)
    last = np.take_along_axis(number, np.maximum(steps - 1, 0)[:, None], 1)[:, 0]
    columns["place"] = every.take(pa.array(last, mask=steps == 0))
    return pa.table({own_name(id_column, columns): ids} | columns)


def own_name(id_column: str, others: Iterable[str]) -> str:
    """The name of a column of ids beside others, which have none of the same name.

    Example:
        >>> own_name("name", ["leaf"]), own_name("leaf", ["leaf"])
        ('name', 'leaf_id')
    """
    others = set(others)
    name = id_column
    while name in others:
        name += "_id"
    return name


TREE_ENDINGS = (".nwk", ".newick", ".json", *ENDINGS)


def write_tree(
    tree: Tree,
    path: Path,
    *,
    names: Any = None,
    id_column: str = "row",
    groups: Taxonomy | None = None,
) -> None:
    r"""Write a tree to a file, as its name ends.

    `.nwk` and `.newick` hold the tree with branch lengths, and support in percent; `.json` holds everything;
    `.parquet`, `.csv`, `.tsv` and `.jsonl` hold a line per row of the data: its name, its leaf, and at every level the
    number of its group and the group's name; nothing where the row is in none.
    """
    check_tree_ending(path)
    ending = path.suffix.lower()
    if ending in (".nwk", ".newick"):
        write_whole(path, tree.to_newick() + "\n")
    elif ending == ".json":
        write_whole(path, tree_to_json(tree) + "\n")
    else:
        write_table(_groups(tree, names, id_column, groups), path)


def check_tree_ending(path: Path, *others: str) -> None:
    """Refuse a name that does not say how to write a tree."""
    if path.suffix.lower() not in (*TREE_ENDINGS, *others):
        raise ValueError(
            f"A tree is written to a file that ends in {', '.join((*TREE_ENDINGS, *others))}, not {path.name!r}."
        )


def _groups(tree: Tree, names: Any, id_column: str, groups: Taxonomy | None) -> Any:
    import pyarrow as pa

    leaf = np.arange(tree.leaves) if tree.leaf is None else tree.leaf
    rows = pa.array(np.arange(len(leaf)) if names is None else [str(name) for name in names])
    columns: dict[str, Any] = {"leaf": pa.array([tree.names[at] for at in leaf])}
    if groups is not None:
        levels = zip(groups.groups, groups.levels.T, groups.names, strict=True)
        for level, (described, numbers, called) in enumerate(levels, 1):
            number = str(len(described))
            if f"groups_{number}" in columns:  # a level may find no more groups than the one above
                number += f"_of_level_{level}"
            columns[f"groups_{number}"] = pa.array(numbers, mask=numbers < 0)
            columns[f"names_{number}"] = pa.array(called, pa.string())
    return pa.table({own_name(id_column, columns): rows} | columns)
