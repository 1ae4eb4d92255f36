"""On the window of a phone nothing overflows, and nothing but names and cards of points lies over the disc."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from horoball.viewer import view
from tests.viewer.conftest import Open, Opened, spiral
from tests.viewer.test_tree import grown

# Parts that reach past the window, other than inside what scrolls by itself.
WIDE = """() => {
  const seen = [...document.querySelectorAll('body *')].filter((e) => e.getClientRects().length);
  const past = seen.filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll'));
  return [document.documentElement.scrollWidth - innerWidth, past.map((e) => e.id || e.className || e.tagName)];
}"""
# Of the boxes over the map, how far each is from the disc's middle, over its radius.
NEAR = """([x, y, radius]) => [...document.querySelectorAll('#stage > :not(canvas)')]
  .filter((e) => e.getClientRects().length)
  .map((e) => e.getBoundingClientRect())
  .map((b) => [x - Math.max(b.left, Math.min(x, b.right)), y - Math.max(b.top, Math.min(y, b.bottom))])
  .map(([across, down]) => Math.hypot(across, down) / radius)"""


def check(opened: Opened) -> None:
    assert opened.page.evaluate(WIDE) == [0, []]


@pytest.mark.parametrize("kind", ["map", "tree", "plane"])
def test_a_phone_shows_everything_within_its_width(kind: str, open_map: Open) -> None:
    n = 300
    x, tree = grown(n)
    columns: dict[str, Any] = {"a column with a very long name " * 4: [f"category {k % 3} " * 12 for k in range(n)]}
    columns |= {"pneumonoultramicroscopicsilicovolcanoconiosis" * 3: np.linspace(0, 1e9, n)}
    more: dict[str, Any] = {"tree": tree} if kind == "tree" else {"c": 0} if kind == "plane" else {}
    opened = open_map(view(x, columns=columns, labels=["long" * 60] * n, title="W" * 90, **more), 390, 844)
    check(opened)
    box = opened.get(
        "(({x, y, width, height}) => [x, y, width, height])(document.getElementById('stage').getBoundingClientRect())"
    )
    opened.page.keyboard.down("Shift")
    mid = box[1] + box[3] / 2
    opened.drag((20, mid - 60), (200, mid - 60), (200, mid + 90), (20, mid + 90))
    opened.page.keyboard.up("Shift")
    assert "What sets these rows apart" in opened.page.inner_text("#apart")
    check(opened)
    opened.shot(kind)
    opened.page.keyboard.press("?")
    check(opened)
    opened.shot(f"{kind}-help")


@pytest.mark.parametrize("size", [(390, 844), (900, 640), (1280, 800)])
def test_no_hint_covers_the_disc(size: tuple[int, int], open_map: Open) -> None:
    opened = open_map(view(spiral(50)), *size)
    assert opened.page.locator("#welcome").is_visible()
    (x, y), (right, _) = opened.get("horoball.pixels([0])")[0], opened.get("horoball.pixels([49])")[0]
    radius = abs(complex(*opened.pixel(49)) - complex(x, y)) / np.tanh(1.5)
    assert right > 0
    distances = opened.page.evaluate(NEAR, [x, y, radius])
    assert len(distances) == 1  # the tools
    assert distances[0] >= 1
