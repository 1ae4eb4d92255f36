"""Kinds of rows and what can be done with them, as docs/data.md has them: `python -m tests.kind_table` writes it."""

from __future__ import annotations

from pathlib import Path

from horoball.tables.read import KINDS
from horoball.vae.kinds import kind_named

PAGE = Path(__file__).parents[1] / "docs" / "data.md"
START, END = "<!-- kinds -->\n", "<!-- /kinds -->\n"

# Each verb by the command, after `horoball`, with RUN and DATA in their places; and in Python.
VERBS = {
    "check": ("check DATA", "horoball.check(x)"),
    "fit": ("fit DATA -o RUN", "PoincareVAE().fit(x)"),
    "embed": ("embed RUN DATA -o map.csv", "model.transform(x)"),
    "view": ("view RUN DATA -o map.html", "view_run(run, table)"),
    "tree": ("tree RUN DATA -o tree.html -o groups.csv --levels 3", "model.tree(x)"),
    "place": ("place RUN DATA -o places.csv", "model.place(x)"),
    "impute": ("impute RUN DATA -o filled.csv", "model.impute(x)"),
    "evaluate": ("evaluate RUN DATA --samples 3", "model.score_samples(x)"),
    "sample": ("sample RUN -o drawn.csv -n 5", "model.sample(5)"),
    "report": ("report DATA -o report.html", "make_report(table, config)"),
    "export": ("export RUN -o encoder.onnx", "export(run, path)"),
}


def tables() -> str:
    """Both tables: what kinds are, and what can be done with rows of each."""
    lines = ["| kind | rows are | likelihood | groups are named by |", "|---|---|---|---|"]
    called = {"vectors": "words of a text, or by number", "mixed": "columns and categories"}
    for name, said in KINDS.items():
        likelihood = kind_named(name).defaults.get(
            "likelihood", "of each column" if name == "mixed" else "by the values"
        )
        lines.append(f"| {name} | {said} | {likelihood.replace('_', ' ')} | {called.get(name, 'columns')} |")
    lines += ["", "| | " + " | ".join(KINDS) + " | in Python |", "|---|" + ":-:|" * len(KINDS) + "---|"]
    reasons = []
    for verb, (_, python) in VERBS.items():
        cells = []
        for name in KINDS:
            why = kind_named(name).refuses.get(verb)
            cells.append("yes" if why is None else f"no ({len(reasons) + 1})")
            reasons += [] if why is None else [f"({len(reasons) + 1}) `{verb}` of {name}: {why}."]
        lines.append(f"| `horoball {verb}` | {' | '.join(cells)} | `{python}` |")
    return "\n".join([*lines, "", *reasons]) + "\n"


def main() -> None:
    """Write the tables to the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    PAGE.write_text(before + START + tables() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
