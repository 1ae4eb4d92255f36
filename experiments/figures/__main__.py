"""Draw figures as PNG files in docs/reproduction: `python -m experiments.figures [names…]`, without names all."""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.figures import FIGURES, MissingError, save

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"


def main(arguments: list[str] | None = None) -> None:
    """Draw what can be drawn, and say what cannot and why."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(FIGURES))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in FIGURES]:
        parser.error(f"Unknown figure {unknown[0]!r}. Choose from: {', '.join(FIGURES)}.")
    for name in options.names or FIGURES:
        path = options.folder / f"{name}.png"
        try:
            save(FIGURES[name](), path)
        except MissingError as missing:
            print(f"{name}: {missing}", flush=True)
        else:
            print(f"{name}: {path.stat().st_size / 1000:.0f} KB", flush=True)


if __name__ == "__main__":
    main()
