"""A real browser for the page: Debian's Chromium, headless, with WebGL in software."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from horoball.viewer import View, view

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
)
KINDS = ("root", "stem", "leaf")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = os.environ.get("HOROBALL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("No Chromium was found. Install one, or name it in HOROBALL_CHROMIUM.")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=list(FLAGS))
        yield started
        started.close()


class Opened:
    """A page with a map in it, and all that went wrong in it."""

    def __init__(self, page: Any, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self._listeners: dict[str, Callable[[Any], None]] = {
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": lambda line: self.errors.append(line.text) if line.type == "error" else None,
            "request": lambda request: self.requests.append(request.url),
            "dialog": lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()),
        }
        for event, listener in self._listeners.items():
            page.on(event, listener)

    def leave(self) -> None:
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        self.page.goto("about:blank")

    def get(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    def coordinates(self, count: int = 10) -> np.ndarray:
        """Where points are shown, in the disc."""
        return np.array(self.get(f"horoball.positions([...Array({count}).keys()])"))

    def pixel(self, row: int) -> tuple[float, float]:
        """Where a point is on the window."""
        x, y = self.get(f"horoball.pixels([{row}])")[0]
        return x, y

    def drag(self, *pixels: tuple[float, float]) -> None:
        mouse = self.page.mouse
        mouse.move(*pixels[0])
        mouse.down()
        for x, y in pixels[1:]:
            mouse.move(x, y, steps=4)
        mouse.up()

    def until(self, expression: str, frame: Any = None) -> None:
        """Wait until an expression is true. Playwright's own way runs text in the page, which the policy forbids."""
        for _ in range(500):
            if (frame or self.page).evaluate(expression):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"Waited in vain for {expression}")

    def rest(self) -> None:
        """Wait until the address says where the view is: a moment after the last change, by the page's own clock."""
        self.get("new Promise((done) => setTimeout(done, 350))")
        self.drawn()

    def drawn(self) -> None:
        """Wait until the page has drawn what it knows: the second frame from now begins when the first is done."""
        self.get("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def shot(self, name: str) -> Path:
        path = self.folder / f"{name}.png"
        self.page.screenshot(path=path)
        assert path.stat().st_size > 10_000  # an empty window takes less
        return path


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def new_page(browser: Any) -> Callable[..., Any]:
    """Pages with the network off; one for each set of options, which tests use one after the other."""
    pages: dict[str, Any] = {}

    def make(number: int, **options: Any) -> Any:
        key = f"{number} {sorted(options.items())}"
        if key not in pages:
            context = browser.new_context(**options)
            context.set_offline(True)
            pages[key] = context.new_page()
        return pages[key]

    return make


@pytest.fixture
def open_map(new_page: Callable[..., Any], tmp_path: Path) -> Iterator[Open]:
    """Opens a map from its file; fails the test if the page had an error."""
    opened: list[Opened] = []

    def run(made: View | str, width: int = 900, height: int = 640, **options: Any) -> Opened:
        # Without reduced motion every move is a flight.
        page = new_page(len(opened), **({"reduced_motion": "reduce"} | options))
        page.set_viewport_size({"width": width, "height": height})
        one = Opened(page, tmp_path)
        opened.append(one)
        page.goto(made if isinstance(made, str) else made.save(tmp_path / "map.html").as_uri())
        one.until("Boolean(window.horoball)")
        return one

    yield run
    for one in opened:
        one.leave()
    assert not [error for one in opened for error in one.errors]


def spiral(n: int, farthest: float = 3.0) -> np.ndarray:
    """Points of a sunflower, in ball coordinates; the first is the origin, later ones are farther out."""
    k = np.arange(n)
    r, t = farthest * np.sqrt(k / max(1, n - 1)), 2.399963 * k
    return np.tanh(r / 2)[:, None] * np.stack((np.cos(t), np.sin(t)), 1)


def distances(w: np.ndarray) -> np.ndarray:
    """Hyperbolic distances between all pairs of ball coordinates, c = 1."""
    gap = np.square(w[:, None] - w[None]).sum(-1)
    rest = 1 - np.square(w).sum(-1)
    return 2 * np.arcsinh(np.sqrt(gap / np.outer(rest, rest)))


def middle(opened: Opened) -> tuple[float, float]:
    """Where the origin is on the window, before anything was moved."""
    return opened.pixel(0)


@pytest.fixture(scope="session")
def small() -> View:
    """Two hundred points with everything that a page can hold, but pictures."""
    n = 200
    z = spiral(n)
    kinds = np.array(KINDS)[np.minimum(2, np.arange(n) // 60)]
    return view(
        z,
        columns={
            "kind": kinds,
            "height": np.linspace(-1, 1, n),
            "remark": [f"remark {k}" for k in range(n - 1)] + [None],
        },
        labels=[f"point {k}" for k in range(n)],
        color="kind",
        scale=np.linspace(0.1, 0.4, n),
        edges=np.stack((np.arange(1, n), np.arange(1, n) // 2), 1),
        title="Two hundred points",
    )
