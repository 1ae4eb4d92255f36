"""How docstrings are shown on the reference pages: examples as consoles, tags as links, `*batch` with its star."""

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Rewrites docstrings for Markdown; the sources stay plain text."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called by griffe for every module, class, function and attribute."""
        if obj.docstring:
            lines = obj.docstring.value.split("\n")
            obj.docstring.value = "\n".join(_line(line) for line in lines)


def _line(line: str) -> str:
    if line.strip() == "Example:":  # griffe knows the section by its plural
        return line.replace("Example:", "Examples:")
    if line.lstrip().startswith((">>>", "...")):
        return line
    name = re.match(r" *\*{1,2}(?=\w+: )", line)  # of a parameter, such as **style
    start = name.end() if name else 0
    prose = line[start:].split("`")
    for k in range(0, len(prose), 2):  # outside of code
        prose[k] = re.sub(r"\[((eq|errata):\w+)\]", r"([\1][\1])", prose[k].replace("*", r"\*"))
    return line[:start] + "`".join(prose)
