"""Data stay data: no name becomes markup, nothing is fetched, and the page is small."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from horoball.viewer import View, view
from horoball.viewer.points import SCRIPTS, TREE_SCRIPTS, _source
from tests.viewer.conftest import Open, spiral

ATTACKS = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "<!--<script>",
    "]]><svg onload=alert(3)>",
    "{{script}}",
    "\u2028alert(4)\u2029",
    "javascript:alert(5)",
    "\"'`${alert(6)}",
    "=HYPERLINK(1)",
    "\ud800 half a pair",
    "nul \x00 and bell \x07",
    "عربى 木 🌳",
)


def attacked(title: str = ATTACKS[0]) -> View:
    n = len(ATTACKS)
    columns = {name: list(ATTACKS) for name in ATTACKS[:4]} | {ATTACKS[6]: np.linspace(0, 1, n)}
    return view(spiral(n), columns=columns, labels=list(ATTACKS), title=title, color=ATTACKS[1])


@pytest.mark.parametrize("title", ATTACKS[:2])
def test_names_that_are_markup_do_nothing(title: str, open_map: Open) -> None:
    opened = open_map(attacked(title))
    elements = "document.querySelectorAll('*').length"
    assert opened.get("document.querySelectorAll('script').length") == 2  # a third, the numbers, is removed once read
    assert opened.page.inner_text("#title") == title
    for row in range(len(ATTACKS)):
        opened.page.mouse.move(*opened.pixel(row))
    opened.page.mouse.click(*opened.pixel(0))
    opened.page.fill("#search", "alert")
    opened.until("horoball.view.found > 3")
    opened.page.press("#search", "Enter")
    for name in ATTACKS[:4]:
        opened.page.select_option("#color", label=name)
        assert ATTACKS[1] in opened.page.locator("#legend").inner_text()
    opened.page.click("#keys")
    opened.page.click("#close")
    opened.shot("attacked")
    assert opened.dialogs == []
    assert opened.get("document.querySelectorAll('img, iframe, object, embed, link, [onerror], [onload]').length") == 0
    assert opened.get("document.querySelectorAll('script').length") == 2
    assert opened.get(elements) < 400


def test_saved_files_are_escaped_too(open_map: Open) -> None:
    opened = open_map(attacked())
    with opened.page.expect_download() as download:
        opened.page.click("#svg")
    root = ET.fromstring(download.value.path().read_text(encoding="utf-8"))  # noqa: S314
    known = {"svg", "title", "rect", "circle", "defs", "clipPath", "g", "path", "text"}
    assert {element.tag.partition("}")[2] for element in root.iter()} == known
    x, y = opened.pixel(0)
    opened.page.keyboard.down("Shift")
    opened.drag((x - 300, y - 275), (x + 300, y - 275), (x + 300, y + 290), (x - 300, y + 290))
    opened.page.keyboard.up("Shift")
    with opened.page.expect_download() as download:
        opened.page.click("#csv")
    rows = list(csv.reader(io.StringIO(download.value.path().read_text(encoding="utf-8"), newline="")))
    assert len(rows) == 1 + len(ATTACKS)
    assert rows[1][1] == ATTACKS[0]
    assert rows[9][1] == "'" + ATTACKS[8]  # a spreadsheet would run it


FORMULAS = ("=1+1", "+1+cmd|x", "-2+3", "@SUM(1)", "\tx", "\r=1", "＝1", "+/+", "-a")
UNTOUCHED = ("-1.5", "+3", "1e-3", "-.5", "2026", "a=b", "x-y")
QUOTED = ("a;b", "a\tb", "a,b", 'a"b', "a\nb")


def test_cells_that_a_spreadsheet_would_run_or_split_are_guarded(open_map: Open) -> None:
    labels = [*FORMULAS, *UNTOUCHED, *QUOTED]
    size = np.linspace(-1.5, 1.5, len(labels))
    opened = open_map(view(spiral(len(labels)), labels=labels, columns={"=size": size}))
    x, y = opened.pixel(0)
    opened.page.keyboard.down("Shift")
    opened.drag((x - 300, y - 275), (x + 300, y - 275), (x + 300, y + 290), (x - 300, y + 290))
    opened.page.keyboard.up("Shift")
    with opened.page.expect_download() as download:
        opened.page.click("#csv")
    text = download.value.path().read_bytes().decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert [row[1] for row in rows[1:]] == [*(f"'{label}" for label in FORMULAS), *UNTOUCHED, *QUOTED]
    assert all(f'"{label}"' in text for label in QUOTED if '"' not in label)
    assert rows[0][4] == "'=size"
    np.testing.assert_allclose([float(row[4]) for row in rows[1:]], size, rtol=1e-6)  # numbers stay numbers


def test_nothing_is_fetched(open_map: Open) -> None:
    images = np.zeros((12, 8, 8), np.uint8)
    opened = open_map(view(spiral(12), images=images, labels=list(ATTACKS)))
    opened.page.mouse.move(*opened.pixel(3))
    opened.page.click("#reset")
    opened.rest()
    kinds = {url.partition(":")[0] for url in opened.requests}
    assert kinds <= {"file", "data"}
    assert sum(url.startswith("file:") for url in opened.requests) == 1


def test_the_policy_refuses_other_scripts_and_requests(open_map: Open) -> None:
    opened = open_map(attacked())
    refused = opened.get(
        """async () => {
          const found = [];
          document.addEventListener('securitypolicyviolation', (e) => found.push(e.effectiveDirective));
          const script = document.createElement('script');
          script.textContent = 'window.ran = 1';
          document.body.append(script);
          document.body.setAttribute('onclick', 'window.ran = 1');
          document.body.click();
          await fetch('https://example.org/').catch(() => 0);
          await new Promise((done) => setTimeout(done, 200));
          return [window.ran === undefined, found.includes('script-src-elem'), found.includes('connect-src')];
        }"""
    )
    assert refused == [True, True, True]
    opened.errors.clear()  # the refusals, which the console reports


def test_the_page_never_makes_markup_from_text() -> None:
    source = view(np.zeros((1, 2))).html
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "DOMParser",
        "://",
    ):
        allowed = source.count("http://www.w3.org/2000/svg") if way == "://" else 0
        assert source.count(way) == allowed, way
    assert re.search(r"<(img|link|iframe|object)\b", source) is None


def test_no_two_parts_of_the_script_have_the_same_name() -> None:
    """They share one scope, where the last of two functions is the only one."""
    source = "\n".join(_source(name) for name in (*SCRIPTS, *TREE_SCRIPTS))  # indented, so that ^ is the shared scope
    names = re.findall(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", source, re.MULTILINE)
    assert len(names) > 100
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("n", [1, 1000, 50_000])
def test_a_page_takes_no_more_than_125_kb_and_18_bytes_a_point(n: int) -> None:
    rng = np.random.default_rng(0)
    z = rng.uniform(-0.7, 0.7, (n, 2))
    columns = {"type": rng.integers(0, 9, n), "size": rng.normal(size=n)}
    page = view(z, columns=columns, scale=rng.uniform(0.1, 1, n)).html
    assert len(page.encode()) <= 125_000 + 18 * n
