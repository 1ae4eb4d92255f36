"""How large a page is, how soon it shows its picture, and how soon a lasso is explained: `python -m benchmarks.page`.

A page of 10,000 points with 60 columns to compare by beside the same page without, or with `--against COMMIT` beside
that of an earlier commit, which held none; and a lasso on one of 100,000 points with names. In Chromium with WebGL in
software, by the page's own clock.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.table import markdown
from horoball.viewer import View, view

FLAGS = ("--headless", "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
LARGER, FIRST, LASSO = 1.2, 2.0, 1.0  # times the size; seconds to the first picture, and to a lasso's card
COLUMNS = 60
WORDS = ["red", "blue", "green", "fast", "slow", "old", "new", "large", "small", "round"]
ROOT = Path(__file__).parents[1]
# From the start of loading to the second frame after the page is ready: the first is then on the screen.
WATCH = """(() => {
  const look = () => requestAnimationFrame(() =>
    window.horoball ? requestAnimationFrame(() => { window.shown = performance.now(); }) : look());
  look();
})()"""
TOOK = """() => document.getElementById('stage').addEventListener('pointerup', () => {
  const began = performance.now();
  window.took = 0;
  requestAnimationFrame(() => requestAnimationFrame(() => { window.took = performance.now() - began; }));
}, { once: true, capture: true })"""


def points(rows: int) -> tuple[np.ndarray, dict[str, Any]]:
    """A disc of points, and what is shown of each."""
    rng = np.random.default_rng(0)
    r, t = np.abs(rng.normal(2.5, 1.2, rows)), rng.uniform(0, 2 * np.pi, rows)
    z = np.tanh(r / 2)[:, None] * np.stack((np.cos(t), np.sin(t)), 1)
    return z, {"columns": {"type": (t * 7 / (2 * np.pi)).astype(int), "size": r}, "scale": np.full(rows, 0.1)}


def made(rows: int, *, compared: bool = True, named: bool = False) -> View:
    """A page of points whose further columns, a sixth of them categories, follow their angle, with gaps."""
    rng = np.random.default_rng(1)
    z, shown = points(rows)
    t = np.arctan2(z[:, 1], z[:, 0])
    x = rng.normal(size=(rows, COLUMNS)) + np.outer(np.cos(t), rng.normal(size=COLUMNS))
    frame = pd.DataFrame(np.where(rng.random(x.shape) < 0.02, np.nan, x), columns=[f"x{k}" for k in range(COLUMNS)])
    for name in frame.columns[::6]:
        frame[name] = np.digitize(frame[name], [-1.0, 0.0, 1.0]).astype(str)
    labels = [" ".join(rng.choice(WORDS, 3)) + f" {k}" for k in range(rows)] if named else None
    details: int | str = COLUMNS if named else "auto" if compared else 0
    return view(z, rows=frame, details=details, labels=labels, **shown)


def earlier(commit: str, rows: int) -> int:
    """Bytes of the page of the same points that an earlier commit writes."""
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "src.tar"
        archive = ["git", "-C", str(ROOT), "archive", "-o", str(packed), commit, "src"]
        subprocess.run(archive, check=True)  # noqa: S603 - the commit is what the user of this command names
        shutil.unpack_archive(packed, folder, filter="data")
        code = f"from benchmarks.page import *; z, shown = points({rows}); print(len(view(z, **shown).html.encode()))"
        paths = {"PYTHONPATH": os.pathsep.join((str(Path(folder) / "src"), str(ROOT)))}
        command = [sys.executable, "-c", code]
        return int(subprocess.run(command, env=os.environ | paths, check=True, capture_output=True).stdout)  # noqa: S603


def opened(browser: Any, page: View, folder: Path) -> tuple[Any, float]:
    """The page in a window, and the seconds to its first picture."""
    window = browser.new_page(viewport={"width": 1280, "height": 800})
    window.add_init_script(WATCH)
    window.goto(page.save(folder / "page.html").as_uri())
    return window, awaited(window, "window.shown") / 1000


def awaited(window: Any, expression: str) -> float:
    """A number of the page, once it is there and not 0."""
    for _ in range(6000):
        if found := window.evaluate(expression):
            return float(found)
        time.sleep(0.01)
    raise TimeoutError(f"Waited for {expression} for a minute.")


def lasso(window: Any) -> float:
    """Seconds from the end of a lasso around the middle to the picture with its card."""
    (x, y), mouse = (495.0, 400.0), window.mouse
    window.evaluate(TOOK)
    window.keyboard.down("Shift")
    mouse.move(x - 150, y - 150)
    mouse.down()
    for across, down in ((150, -150), (150, 150), (-150, 150)):
        mouse.move(x + across, y + down, steps=3)
    mouse.up()
    window.keyboard.up("Shift")
    return awaited(window, "window.took") / 1000


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--many", type=int, default=100_000, help="rows of the page with the lasso")
    parser.add_argument("--against", metavar="COMMIT", help="an earlier commit to compare the size with")
    asked = parser.parse_args(arguments)
    from playwright.sync_api import sync_playwright

    found = os.environ.get("HOROBALL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        raise SystemExit("No Chromium was found. Install one, or name it in HOROBALL_CHROMIUM.")
    page = made(asked.rows)
    size, plain = (len(each.html.encode()) for each in (page, made(asked.rows, compared=False)))
    lines = [[f"{asked.rows:,}", "size, times that without columns to compare by", f"{size / plain:.2f}", ""]]
    if asked.against is not None:
        ratio = size / earlier(asked.against, asked.rows)
        lines.append([f"{asked.rows:,}", f"size, times that of {asked.against}", f"{ratio:.2f}", f"{LARGER:g}"])
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=list(FLAGS))
        blank, _ = opened(browser, made(20), Path(folder))  # the browser's own start counts for nobody
        blank.close()
        window, first = opened(browser, page, Path(folder))
        window.close()
        lines.append([f"{asked.rows:,}", "first picture, s", f"{first:.2f}", f"{FIRST:g}"])
        window, first = opened(browser, made(asked.many, named=True), Path(folder))
        lines.append([f"{asked.many:,}", "first picture, s", f"{first:.2f}", ""])
        window.wait_for_timeout(3000)  # until somebody has looked at it
        card = window.evaluate("horoball.apart([...Array(horoball.n >> 1).keys()]).time") / 1000
        lines.append(
            [f"{asked.many:,}", "what sets half of them apart, the first time, s", f"{card:.2f}", f"{LASSO:g}"]
        )
        lines += [
            [f"{asked.many:,}", f"lasso to its card, {which}, s", f"{lasso(window):.2f}", f"{LASSO:g}"]
            for which in ("first", "second")
        ]
        browser.close()
    print(markdown(["points", "", "measured", "at most"], lines))


if __name__ == "__main__":
    main()
