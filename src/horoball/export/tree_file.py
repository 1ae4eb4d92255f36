"""A tree as a file: Newick, JSON, or a table with the groups of every row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from horoball.export.embedding import ENDINGS, write_table
from horoball.hierarchy.taxonomies import Taxonomy
from horoball.hierarchy.trees import Tree, tree_to_json
from horoball.storage.atomic import write_whole

__all__ = ["TREE_ENDINGS", "check_tree_ending", "write_tree"]

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
    number of its group, and the group's name if it has one; nothing where the row is in none.

    Args:
        tree: The tree.
        path: The file.
        names: Names of the rows; their numbers if not given.
        id_column: What the column of names is called.
        groups: Groups of the rows.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tree.nwk"
        >>> write_tree(Tree.from_merges([[0, 1]], [1.0], names=["a", "b"]), path)
        >>> path.read_text()
        '(a:1,b:1);\n'
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
    """Refuse a name that does not say how to write a tree.

    Example:
        >>> check_tree_ending(Path("tree.txt"))
        Traceback (most recent call last):
        ...
        ValueError: A tree is written to a file that ends in .nwk, .newick, .json, ..., not 'tree.txt'.
    """
    if path.suffix.lower() not in (*TREE_ENDINGS, *others):
        raise ValueError(
            f"A tree is written to a file that ends in {', '.join((*TREE_ENDINGS, *others))}, not {path.name!r}."
        )


def _groups(tree: Tree, names: Any, id_column: str, groups: Taxonomy | None) -> Any:
    import pyarrow as pa

    leaf = np.arange(tree.leaves) if tree.leaf is None else tree.leaf
    rows = pa.array(np.arange(len(leaf)) if names is None else [str(name) for name in names])
    columns: dict[str, Any] = {id_column: rows, "leaf": pa.array([tree.names[at] for at in leaf])}
    if groups is not None:
        levels = zip(groups.groups, groups.levels.T, groups.names, strict=True)
        for level, (described, numbers, called) in enumerate(levels, 1):
            number = str(len(described))
            if f"groups_{number}" in columns:  # a level may find no more groups than the one above
                number += f"_of_level_{level}"
            columns[f"groups_{number}"] = pa.array(numbers, mask=numbers < 0)
            if any(group.words for group in described):
                columns[f"names_{number}"] = pa.array(called, pa.string())
    return pa.table(columns)
