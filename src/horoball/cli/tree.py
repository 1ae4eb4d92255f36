"""Commands that find the tree, and places in it: `horoball tree`, `place`, `horoball graph tree`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    Na,
    Quiet,
    RunFolder,
    Seed,
    TableKind,
    VectorColumn,
    by_rank,
    check_outputs,
    given_path,
    rank_of,
    reading,
    save_page,
)
from horoball.cli.console import app, bar, print_table, reports_errors, say
from horoball.cli.graphs import GraphFolder, graph_app
from horoball.options import TreeOptions

if TYPE_CHECKING:
    from horoball.trees.drift import Drift
    from horoball.trees.tree import Tree

__all__: list[str] = []

TreeFiles = Annotated[
    list[Path],
    typer.Option(
        "--output",
        "-o",
        help="The file to write, or several, each after its own -o: .html to look at, .nwk, .json, or a table of groups"
        " (.csv, .tsv, .jsonl, .parquet).",
        **IS_PATH,
    ),
]
Root = Annotated[
    str,
    typer.Option(help="Where the tree is seen from: center, midpoint, or the name of a leaf."),
]
Draws = Annotated[
    int, typer.Option(min=0, help="Replicates for the support; 0 for none. More: slower, more exact. Useful: 100.")
]
Levels = Annotated[
    str | None,
    typer.Option(
        help="How many groups to cut the tree into at each level, such as 5,20. Branches with a support of 0.5 or more"
        " if not given; on a map their names are written if this, or --text, is given."
    ),
]


@app.command()
@reports_errors
def tree(
    run: Annotated[str, typer.Argument(help="The folder that `horoball fit` wrote; or the data alone.")],
    output: TreeFiles,
    data: Annotated[str | None, typer.Argument(help="A file of rows, or a folder of .parquet files.")] = None,
    by_label: Annotated[
        bool, typer.Option("--by-label", help="The leaves are the labels of the --label column, not the rows.")
    ] = False,
    label: Annotated[
        str | None, typer.Option(help="Of data alone: the column to keep aside; a run knows its own.")
    ] = None,
    kind: Kind = TableKind.auto,
    column: VectorColumn = None,
    columns: Columns = None,
    drop: Drop = None,
    root: Root = "center",
    method: Annotated[
        str,
        typer.Option(help="gromov for data that branch, average for clusters, consensus for vectors, or auto."),
    ] = "auto",
    source: Annotated[
        str,
        typer.Option(help="Where distances come from: weighted columns, columns, latent, or auto to choose."),
    ] = "auto",
    draws: Draws = 100,
    levels: Levels = None,
    text: Annotated[
        str | None, typer.Option(help="Column of texts by whose words groups are named; by columns if not given.")
    ] = None,
    namer: Annotated[
        str | None,
        typer.Option(
            help="Address of a language model that renames groups by what sets them apart, such as"
            " http://localhost:11434/v1; a key is read from HOROBALL_NAMER_KEY."
        ),
    ] = None,
    namer_model: Annotated[str, typer.Option(help="Name of the model there.")] = "default",
    namer_examples: Annotated[
        bool, typer.Option("--namer-examples", help="Send the texts of typical rows, too, and not words alone.")
    ] = False,
    support: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Of an .html or .nwk file: collapse branches below this support, or not above chance."
        ),
    ] = 0.0,
    id_: Id = None,
    na: Na = None,
    device: Device = None,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Find the tree of the rows, with the support of every branch.

    Of data alone, it is the tree of their columns. A run's model weights columns by what it explains of them, and a
    table of groups is kept with the run, for `horoball place`.

    Example: horoball tree cells.csv -o tree.html -o groups.csv
    """
    from horoball.report.check import groups as groups_of_rows
    from horoball.report.check import tree as tree_of_rows
    from horoball.tables.cell_values import gap_words
    from horoball.tables.limits import title_of
    from horoball.tables.read import read
    from horoball.tables.vectors import read_texts
    from horoball.trees.language_model import namer as namer_at
    from horoball.vae.files import ENDINGS, check_tree_ending, write_tree
    from horoball.vae.run import Run
    from horoball.vae.tree import PLACES, places_of, save_places, table_taxonomy, table_tree
    from horoball.viewer.disc import view_tree
    from horoball.viewer.run import view_run

    for file in output:
        check_tree_ending(file, ".html")
    path, folder = (run, None) if data is None else (data, given_path(run))
    check_outputs(*output, force=force, reads=[path], run=folder, command="tree")
    groups = _asked(levels)
    key = os.environ.get("HOROBALL_NAMER_KEY")
    renamed = None if namer is None else namer_at(namer, namer_model, key=key, examples=namer_examples)
    fitted = None if folder is None else Run.load(folder).to(device or "cpu")
    if fitted is None:
        if source != "auto":
            raise ValueError("--source chooses between columns and a model. Give the folder of a run first.")
        table = read(path, label, **reading(kind, id_, na, column, columns, drop or ""))
    elif any(given is not None for given in (label, column, columns, drop)) or kind is not TableKind.auto:
        raise ValueError(
            "--label, --kind, --column, --columns and --drop are for data alone: a run knows how its rows are read."
        )
    else:
        table = fitted.read(path, id_, na=gap_words(na))
    labels = table.read_labels() if by_label else None
    if by_label and labels is None:
        raise ValueError("--by-label needs a label column: fit the model with --label, and give data that have it.")
    texts = None if text is None else read_texts(path, text)
    names = table.read_names()
    called = None if names is None or by_label else [str(name) for name in names]
    with bar("Replicates", "No tree was written.") as told:
        if fitted is None:
            found = tree_of_rows(table, by_label=by_label, root=root, method=method, draws=draws, seed=seed, told=told)
        else:
            options: TreeOptions = {"labels": labels, "names": called, "root": root, "method": method, "draws": draws}
            found = table_tree(fitted, table, source=source, seed=seed, **options | {"told": told})
    _tell(found)
    cut = _within(groups, found)
    if fitted is None:
        made = groups_of_rows(table, levels=cut, tree=found, texts=texts, name=renamed)
    else:
        made = table_taxonomy(fitted, table, found, cut, texts=texts, name=renamed)
    if any(file.suffix.lower() in ENDINGS for file in output):
        for line in str(made).splitlines():
            say(line)
        if (made.levels < 0).all():
            less = "" if groups else " --levels 5,20 takes less sure ones."
            say(f"No branch is sure enough for a group, and none are kept for `horoball place`.{less}")
            if folder is not None:
                (folder / PLACES).unlink(missing_ok=True)  # those of another tree
        elif fitted is not None and folder is not None:
            save_places(places_of(fitted, table, made, seed=seed), fitted, folder)
    shown = found.collapse(support) if support else found
    for file in output:
        if file.suffix.lower() != ".html":
            drawn = shown if file.suffix.lower() in (".nwk", ".newick") else found
            write_tree(drawn, file, names=names, id_column=table.name_column, groups=made)
        elif fitted is None:  # there is no map beside the tree
            told_labels = table.read_labels()
            colors = None if told_labels is None else {label or "label": told_labels}
            of_rows = made.names if (made.levels >= 0).any() else ()
            page = view_tree(shown, colors, called, rows=table, title=title_of(path), levels=of_rows)
            save_page(page, file, "tree")
        else:
            called_groups = made.names if levels is not None or text is not None else ()
            page = view_run(fitted, table, tree=shown, levels=called_groups, title=title_of(path))
            save_page(page, file, "tree")
        say(f"{shown.leaves:,} leaves: {file}")


@app.command()
@reports_errors
def place(
    run: RunFolder,
    data: Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="A .parquet, .csv, .tsv or .jsonl file, or a folder for many files.", **IS_PATH
        ),
    ],
    coverage: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Probability, below 1, with which the place of a row holds the truth; 0.9 if not given. Larger is less"
            " deep. Useful: 0.8 to 0.95.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Deprecated, use --coverage: probability of the deepest group that is named."),
    ] = None,
    id_: Id = None,
    na: Na = None,
    file_rows: Annotated[
        int, typer.Option(min=1, help="Rows per file of a folder. Larger values write fewer files.")
    ] = 1 << 18,
    device: Device = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write where new rows belong among the groups of `horoball tree`: the deepest group that holds the truth.

    Tells how many rows do not fit, and whether the groups are to be made anew; in a pipe, as one line of JSON.

    A folder is written file by file: the same command resumes where it was stopped, and under torchrun each process
    writes its own files.

    Example: horoball place run new.parquet -o places.csv --coverage 0.9
    """
    from horoball.storage.outputs import check_folder
    from horoball.tables.cell_values import gap_words
    from horoball.trees.drift import Drift
    from horoball.vae.files import check_ending, drift_of, place_file, place_folder
    from horoball.vae.run import Run
    from horoball.vae.tree import load_places

    if output.suffix:
        check_ending(output)
    if coverage is not None and threshold is not None:
        raise ValueError("--coverage and --threshold are two ways to choose a place. Give --coverage alone.")
    rank, ranks = rank_of(output)
    if output.suffix:
        check_outputs(output, force=force, reads=[data], run=run)
    elif threshold is not None:
        raise ValueError("--threshold is for one file. Give --coverage for a folder.")
    else:
        check_folder(output, [data])
    fitted = Run.load(run).to(device or "cpu")
    placer = load_places(run, fitted)
    table = fitted.read(data, id_, na=gap_words(na))
    held = 0.9 if coverage is None else coverage
    if not output.suffix:
        with bar("Rows", "Complete files stay; the same command resumes.", quiet=quiet) as told:
            rows = place_folder(fitted, placer, table, output, held, rows=file_rows, rank=rank, ranks=ranks, told=told)
        who = by_rank(rank, ranks)
        said = f"{rows:,} rows written{who}; a place holds the truth with a probability of at least {held:g}: {output}"
        say(said, every_rank=True)
        if len(placer.typical):
            _tell_drift(output, drift_of(placer, output, rank, ranks))
        return
    rows, below, unfit = place_file(fitted, placer, table, output, held, threshold)
    if threshold is not None:
        say(f"{rows:,} rows, {below:,} of them placed with a probability of at least {threshold:g}: {output}")
    else:
        say(
            f"{rows:,} rows, {below:,} of them placed in a group and {rows - below:,} at the root; a place "
            f"holds the truth with a probability of at least {held:g}: {output}"
        )
    if len(placer.typical):
        _tell_drift(output, Drift(rows, unfit, len(placer.typical)))


def _tell_drift(output: Path, drift: Drift) -> None:
    """A line for a person, and one of JSON for a scheduler; the rows are those of this process."""
    say(drift.sentence)
    print_table({"output": str(output), "rows": drift.rows, "unfit": drift.unfit, "p": drift.p, "anew": drift.anew})


@graph_app.command("tree")
@reports_errors
def tree_of_graph(
    run: GraphFolder,
    output: TreeFiles,
    root: Root = "center",
    draws: Draws = 100,
    levels: Levels = None,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Find the tree of the nodes, with the support of every branch.

    Example: horoball graph tree run -o tree.nwk
    """
    from horoball.graphs.estimator import graph_tree
    from horoball.graphs.run import GraphRun
    from horoball.trees.taxonomy import taxonomy
    from horoball.vae.files import check_tree_ending, write_tree
    from horoball.viewer.disc import view_tree

    for file in output:
        check_tree_ending(file, ".html")
    check_outputs(*output, force=force, run=run, command="graph tree")
    groups = _asked(levels)
    fitted = GraphRun.load(run)
    with bar("Replicates", "No tree was written.") as told:
        found = graph_tree(fitted, root=root, draws=draws, seed=seed, told=told)
    _tell(found)
    made = taxonomy(found, _within(groups, found))
    for file in output:
        if file.suffix.lower() == ".html":
            save_page(view_tree(found, title=run.resolve().name), file, "graph tree")
        else:
            write_tree(found, file, names=fitted.graph.names, id_column="node", groups=made)
        say(f"{found.leaves:,} leaves: {file}")


def _tell(found: Tree) -> None:
    """What was chosen and why, and how much of it to believe."""
    results: dict[str, Any] = {"leaves": found.leaves, "rows": int(found.size.sum())}
    results |= {"method": found.method, "distances": found.source}
    if found.evidence:
        results["correlation with distances in unseen columns"] = {
            f"{one.source}, {one.method}": one.correlation for one in found.evidence
        }
    if found.support is not None:
        inner, above = found.support[found.leaves : -1], found.supported[found.leaves : -1]
        results["branches"] = len(inner)
        for low in (0.5, 0.7, 0.9):
            results[f"above chance, with support of at least {low}"] = int((above & (inner >= low)).sum())
    print_table(results)
    if found.verdict is not None:
        say(found.verdict.sentence)


def _asked(levels: str | None) -> list[int] | None:
    """Numbers of groups, one a level; None where the tree is to say."""
    if levels is None:
        return None
    parts = [part.strip() for part in levels.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and int(part) >= 1 for part in parts):
        raise ValueError(f"--levels expects numbers of groups, such as 5,20, got {levels!r}.")
    return [int(part) for part in parts]


def _within(groups: list[int] | None, found: Tree) -> list[int] | Literal["auto"]:
    """A small tree has fewer leaves than the groups that are asked for."""
    if groups is None:
        return "auto"
    return [number for number in groups if number <= found.leaves] or [found.leaves]
