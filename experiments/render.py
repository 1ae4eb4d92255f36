"""Put the tables, made from the results, into the pages that show them: `python -m experiments.render`.

A table stands between `<!-- name -->` and `<!-- /name -->`, and is written by nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from experiments import reconstruction, table4, wordnet

ROOT = Path(__file__).parents[1]
PAGES = ("experiments/README.md", "docs/graphs.md")
TABLES: dict[str, Callable[[], str]] = {
    "table4": table4.table,
    "reconstruction": reconstruction.table,
    "wordnet": wordnet.table,
}


def rendered(page: str) -> str:
    """A page with its tables as the results have them.

    Example:
        >>> "<!-- table4 -->" in rendered("experiments/README.md")
        True
    """
    text = (ROOT / page).read_text()
    for name, table in TABLES.items():
        first, last = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if first in text:
            before, rest = text.split(first)
            text = f"{before}{first}\n{table()}\n\n{last}{rest.split(last)[1]}"
    return text


def main() -> None:
    """Write the pages."""
    for page in PAGES:
        (ROOT / page).write_text(rendered(page))
        print(page)


if __name__ == "__main__":
    main()
