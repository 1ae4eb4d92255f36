"""The site: few entries at the top, every page in them, and a first sentence that says what the page is for."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NAVIGATION = re.search(r"^nav:\n((?: .*\n)+)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def navigation() -> str:
    assert NAVIGATION
    return NAVIGATION[1]


def test_the_navigation_has_at_most_eight_entries_at_the_top() -> None:
    assert 0 < len(re.findall(r"^  - ", navigation(), re.MULTILINE)) <= 8


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r": (\S+\.md)$", navigation(), re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_every_page_begins_with_what_it_is_for() -> None:
    assert PAGES
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        included = re.fullmatch(r'--8<-- "(.+)"\n', text)
        if included:
            text = (ROOT / included[1]).read_text(encoding="utf-8")
        begins = re.match(r"# .+\n\n(?:[A-Z]|`\w)", text)
        assert begins, f"{page.name}: begin with a title and a sentence, not with code."


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120


def test_reference_pages_name_what_exists() -> None:
    for page in sorted((DOCS / "reference").glob("*.md")):
        for name in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            assert pkgutil.resolve_name(name), f"{page.name} documents {name}."
