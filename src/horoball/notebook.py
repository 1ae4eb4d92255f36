"""What a notebook shows of an object: a small table of HTML, without scripts and with all text escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

LINES = 20  # of a table; print has them all
_LONGEST = 200  # characters of a cell: a name may be a whole text
_LEFT = ' style="text-align:left"'  # notebooks align cells to the right, which suits numbers alone


def html_table(
    caption: str,
    lines: Sequence[Sequence[object]],
    header: Sequence[str] = (),
    *,
    rest: str = "more lines",
    of: int | None = None,
) -> str:
    """A table of HTML; of many lines, the first 20 and how many are left out.

    Args:
        caption: What the table is of.
        lines: Its lines; the first cell of each may begin with spaces, which indent it.
        header: Names of the columns; without them, the first cell of each line is its name.
        rest: What the lines that are left out are called.
        of: How many lines there are, if the first 20 alone are given.
    """
    made = [f"<table><caption{_LEFT}>{_text(caption)}</caption>"]
    if header:
        made.append("<thead><tr>" + "".join(f"<th{_LEFT}>{_text(name)}</th>" for name in header) + "</tr></thead>")
    made.append("<tbody>")
    first = "td" if header else "th"
    for line in lines[:LINES]:
        cells = "".join(f"<td{_LEFT}>{_text(cell)}</td>" for cell in line[1:])
        made.append(f"<tr><{first}{_LEFT}>{_text(line[0])}</{first}>{cells}</tr>")
    left = (len(lines) if of is None else of) - LINES
    if left > 0:
        made.append(f'<tr><td{_LEFT} colspan="{max(map(len, lines))}">… {left:,} {_text(rest)}</td></tr>')
    return "".join([*made, "</tbody></table>"])


def facts_table(caption: str, facts: Mapping[str, object]) -> str:
    """A table of names and values; those that are None are left out."""
    return html_table(caption, [(name, value) for name, value in facts.items() if value is not None])


def _text(value: object) -> str:
    text = str(value)
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    inside = text.lstrip(" ")
    return "&emsp;" * (len(text) - len(inside)) + escape(inside)
