"""The page of errors, which lists only messages that need more advice, quotes what the code says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def quoted() -> list[str]:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    return [row[1] for row in re.finditer(r"^\| `(.+?)` \|", page, re.MULTILINE)]


def literals(tree: ast.AST) -> Iterator[str]:
    """Strings of a module, with … for what is filled in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


@pytest.fixture(scope="module")
def said() -> str:
    """Everything that the source says, a string a line."""
    strings = (text for path in SOURCES for text in literals(ast.parse(path.read_text(encoding="utf-8"))))
    return "\n".join(re.sub("…+", "…", text) for text in strings)  # a list and its dots are one part that varies


@pytest.mark.parametrize("message", quoted())
def test_the_code_says_what_the_page_quotes(message: str, said: str) -> None:
    fixed = re.sub(r"\{\w+\}", "…", message)
    assert fixed in said, f"Nothing in src says {fixed!r}. Bring docs/errors.md to what the code says."


def test_no_message_is_quoted_twice() -> None:
    messages = quoted()
    assert messages
    assert len(messages) == len(set(messages))
