"""Run a table or the figures of the paper again, or what goes beyond it: `python -m experiments table1`."""

from __future__ import annotations

import ast
import os
import sys
from importlib import import_module
from pathlib import Path

__all__ = ["commands", "main"]

HERE = Path(__file__).parent


def commands() -> dict[str, str]:
    """The experiments, and what each is in a line; none is imported for it.

    Example:
        >>> commands()["table1"]
        'Table 1, likelihood of the branching diffusion process by curvature'
    """
    found = {}
    for path in sorted((*HERE.glob("*.py"), *HERE.glob("*/__main__.py"))):
        text = path.read_text(encoding="utf-8")
        if path != Path(__file__) and '\nif __name__ == "__main__":' in text:
            name = path.parent.name if path.name == "__main__.py" else path.stem
            about = (ast.get_docstring(ast.parse(text)) or "").splitlines()[0]
            found[name] = about.partition(": `python")[0].rstrip(".")
    return dict(sorted(found.items()))


def main(words: list[str] | None = None) -> int:
    """Run the experiment that is named first, with the options that follow; without a name, list all."""
    name, *options = (sys.argv[1:] if words is None else words) or ["--help"]
    known = commands()
    if name not in known:
        asked = name in ("-h", "--help")
        start = "" if asked else f"There is no experiment {name!r}. "
        lines = [f"{start}Experiments, each with its own --help:", *(f"  {each:<20}{known[each]}" for each in known)]
        print(*lines, sep="\n", file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of several processes only get in each other's way
    package = (HERE / name).is_dir()
    sys.argv = [f"python -m experiments {name}", *options]
    return import_module(f"experiments.{name}.__main__" if package else f"experiments.{name}").main() or 0


if __name__ == "__main__":
    sys.exit(main())
