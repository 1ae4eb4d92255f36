"""Parts from outside and where they go, as docs/extending.md has them: `python -m tests.extension_table` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = "examples/extensions"
PAGE = ROOT / "docs" / "extending.md"
START, END = "<!-- parts -->\n", "<!-- /parts -->\n"


class Extension(NamedTuple):
    """A file of `examples/extensions`, and the options of `horoball fit` that use what it registers."""

    part: str
    file: str
    options: dict[str, str]


EXTENSIONS = [
    Extension("encoder", "convolutions", {"encoder": 'conv:{"channels": 4}'}),
    Extension("decoder", "convolutions", {"decoder": "deconv"}),
    Extension("prior", "flow", {"prior": "flow"}),
    Extension("posterior", "wrapped_laplace", {"posterior": "wrapped_laplace"}),
    Extension("likelihood", "student_t", {"likelihood": "student_t"}),
    Extension("manifold", "sphere", {"manifold": "sphere", "posterior": "fisher", "decoder": "log0"}),
    Extension("optimizer", "lion", {"optimizer": "lion"}),
    Extension("logger", "lines", {"logger": "lines"}),
    Extension("format", "stata", {}),
]
WAYS = {
    "estimator": "`PoincareVAE`",
    "command": "`horoball fit`, `embed`",
    "saving": "saved and loaded",
    "tree": "tree and map",
}


def table() -> str:
    """The table: every cell is a test."""
    lines = [f"| part | example | {' | '.join(WAYS.values())} |", "|---|---|" + ":-:|" * len(WAYS)]
    for part, file, options in EXTENSIONS:
        said = " ".join(f"--{name} {value.partition(':')[0]}" for name, value in options.items())
        example = f"`{file}.py`" + (f": `{said}`" if said else "")
        lines.append(f"| {part} | {example} | {' | '.join('yes' for _ in WAYS)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table to the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    PAGE.write_text(before + START + table() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
