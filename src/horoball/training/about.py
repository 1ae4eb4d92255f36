"""What a run says of itself, beside what is asked of it: a table's or a graph's, and with which settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horoball.models.vae import ModelConfig

__all__ = ["expect_columns", "expect_described", "expect_graph", "expect_same", "expect_table"]

# Which rows are held out, and which a step has, follows from the first: with others, rows trained on would be watched.
# The second say what is minimised: the best loss so far would be of another kind than those that follow.
_DEALING = ("seed", "batch_size", "validation")
_MINIMISED = ("beta", "distance_weight", "kl", "samples")


def expect_described(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint says of its run; refuses one that does not describe its model.

    Example:
        >>> expect_described(Path("last.safetensors"), {"about": {"model": {"d": 2}}})
        {'model': {'d': 2}}
    """
    about = header.get("about")
    if not isinstance(about, dict) or not isinstance(about.get("model"), dict):
        raise ValueError(f"{path} holds weights without a description of their model. Point to a run's own folder.")
    return about


def expect_columns(about: dict[str, Any], features: int) -> list[str]:
    """The names of a model's columns; refuses a record of a table whose parts are of other kinds.

    Example:
        >>> expect_columns({"columns": ["a", "b"]}, 2)
        ['a', 'b']
    """
    columns = about["columns"]
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns) or len(columns) != features:
        raise ValueError(f"its columns are not the names of {features} features.")
    for name, kind in (("covariates", dict), ("reading", dict), ("estimator", dict), ("label", str), ("key", str)):
        if about.get(name) is not None and not isinstance(about[name], kind):
            raise ValueError(f"its {name} is {str(about[name])[:40]!r}.")
    return columns


def expect_table(folder: Path, about: dict[str, Any]) -> None:
    """Refuse the run of a graph, and say what it is for.

    Example:
        >>> expect_table(Path("run"), {"graph": {"nodes": 5}})
        Traceback (most recent call last):
        ...
        ValueError: run holds the model of a graph, not of a table. Use `horoball graph embed`...
    """
    if "graph" in about:
        raise ValueError(
            f"{folder} holds the model of a graph, not of a table. Use `horoball graph embed`, `horoball graph "
            "evaluate` and `horoball graph info`, or PoincareGraphVAE.load."
        )


def expect_graph(folder: Path, about: dict[str, Any]) -> None:
    """Refuse the run of a table, and say what it is for.

    Example:
        >>> expect_graph(Path("run"), {"columns": ["x0"]})
        Traceback (most recent call last):
        ...
        ValueError: run holds the model of a table, not of a graph. Use `horoball embed`...
    """
    if "columns" in about:
        raise ValueError(
            f"{folder} holds the model of a table, not of a graph. Use `horoball embed`, `export`, `evaluate`, "
            "`sample`, `view` or `info`, or PoincareVAE.load."
        )


def expect_same(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuse to go on with a run of other data, of another model, or with rows dealt out otherwise.

    Example:
        >>> expect_same(Path("run"), {"model": {"d": 2}}, {"model": {"d": 5}})
        Traceback (most recent call last):
        ...
        ValueError: The run in run has d = 2, not 5. Resume with the options of the first fit.
    """
    for key, kind, command in (("graph", "graph", "graph fit"), ("columns", "table", "fit")):
        if key in old and key not in new and new:
            raise ValueError(
                f"{folder} holds the run of a {kind}. Choose another folder, or go on with it by `horoball {command} "
                "--resume`."
            )
        if key in old and key in new and old[key] != new[key]:
            which = "another graph" if kind == "graph" else "a table with other columns"
            raise ValueError(
                f"The run in {folder} is of {which}. Resume with the file and the options of the first fit."
            )
    before, now = old.get("model", {}), new.get("model", {})
    if before and "graph" not in old:
        # A run of an older version lacks the fields that came later: they had their defaults.
        before = ModelConfig(features=1).as_dict() | before
    pairs = [(name, before.get(name), now[name]) for name in now if before]
    before, now = old.get("training", {}), new.get("training", {})
    pairs += [(name, before[name], now[name]) for name in _DEALING + _MINIMISED if name in before and name in now]
    pairs += [(name, old[name], new[name]) for name in ("rows", "non_edges") if name in old and name in new]
    for name, was, given in pairs:
        if was != given:
            raise ValueError(
                f"The run in {folder} has {name} = {was}, not {given}. Resume with the options of the first fit."
            )
    if old.get("data", new.get("data")) != new.get("data", old.get("data")):
        raise ValueError(f"The run in {folder} is of other rows. Resume with the file of the first fit.")
    if "columns" in new and old.get("covariates", {}) != new.get("covariates", {}):
        raise ValueError(f"The run in {folder} has other batches. Resume with the options of the first fit.")
    if "label" in new and old.get("label") != new["label"]:
        kept = old.get("label")
        raise ValueError(f"The run in {folder} has the label {kept!r}, not {new['label']!r}. Resume with it.")
