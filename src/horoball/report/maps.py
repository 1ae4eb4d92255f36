"""The two maps of the report: side by side as SVG, with a key of the labels, and the hyperbolic one in the viewer."""

from __future__ import annotations

import math
from collections import Counter
from html import escape

import numpy as np
import torch

from horoball.manifolds import PoincareBall
from horoball.manifolds.projection import project
from horoball.plotting.palette import COLORS, color_of
from horoball.report.baseline import Candidate, Candidates
from horoball.viewer.disc import view_points

__all__ = ["maps", "moving_map"]

_POINTS = 3000  # of a map at most: a page stays some hundred kB
_CATEGORIES = 100  # in the key at most, the most frequent
_OTHER, _PLAIN = "#8793a1", COLORS[0]  # rows of other labels, and of a table without labels


def maps(candidates: Candidates, labels: np.ndarray | None) -> str:
    """Both maps of the first seed, side by side, and the key.

    More labels than colors that can be told apart are numbered, on the maps and in the key. Of more than a hundred
    labels the rest is gray.

    Example:
        >>> from horoball.hierarchy import metrics
        >>> z = torch.randn(40, 2, dtype=torch.float64)
        >>> flat = Candidate(0.0, 0, 0.0, metrics(z, z, PoincareBall(0.0)), 1, z)
        >>> page = maps(Candidates([flat], [flat], z), np.arange(40) % 20)
        >>> page.count("class='key'"), page.count("<text")
        (20, 40)
    """
    names = None if labels is None else np.asarray(labels).astype(str)
    frequent = [] if names is None else sorted(name for name, _ in Counter(names.tolist()).most_common(_CATEGORIES))
    number = {name: position for position, name in enumerate(frequent)}
    code = None if names is None else np.array([number.get(name, -1) for name in names.tolist()])
    numbered = len(frequent) > len(COLORS)
    pair = ((candidates.hyperbolic[0], "Hyperbolic"), (candidates.euclidean[0], "Euclidean"))
    figures = "".join(_map(candidate, title, code, numbered) for candidate, title in pair)
    keys = "".join(
        f"<span class='key'><i style='background:{color_of(at)}'></i>{f'{at + 1} · ' if numbered else ''}"
        f"{escape(name)}</span>"
        for name, at in number.items()
    )
    left_out = 0 if names is None else len(np.unique(names)) - len(frequent)
    more = f"<p class='note'>{left_out} rarer labels are gray.</p>" if left_out else ""
    kind = "keys columns" if numbered else "keys"
    return f"<div class='maps'>{figures}</div><p class='{kind}'>{keys}</p>{more}"


def moving_map(candidates: Candidates, labels: np.ndarray | None) -> str:
    """The hyperbolic map of the first seed in the viewer, all rows, in a frame.

    Example:
        >>> from horoball.hierarchy import metrics
        >>> z = torch.randn(40, 2, dtype=torch.float64)
        >>> curved = Candidate(1.0, 0, 0.0, metrics(z, z, PoincareBall(1.0)), 1, z)
        >>> moving_map(Candidates([curved], [curved], z), None)[:7]
        '<iframe'
    """
    first = candidates.hyperbolic[0]
    names = [f"row {row}" for row in range(len(first.embedding))]
    columns = None if labels is None else {"label": np.asarray(labels).astype(str)}
    return view_points(
        first.embedding, PoincareBall(first.c), columns=columns, labels=names, color=None, scale=None
    ).frame()


def _map(candidate: Candidate, title: str, code: np.ndarray | None, numbered: bool) -> str:
    ball = PoincareBall(candidate.c)
    shown = project(candidate.embedding, ball)
    x = ball.to_ball(torch.from_numpy(shown.points)).numpy()
    x = x * (math.sqrt(candidate.c) if candidate.c > 0 else 0.97 / max(float(np.linalg.norm(x, axis=1).max()), 1e-30))
    at = np.stack((100 + 98 * x[:, 0], 100 - 98 * x[:, 1]), 1)
    index = np.sort(np.random.default_rng(0).permutation(len(x))[:_POINTS])
    radius = 1.6 if len(index) < 1000 else 1.1
    dots = "".join(
        f"<circle cx='{at[i, 0]:.1f}' cy='{at[i, 1]:.1f}' r='{radius}' "
        f"fill='{_PLAIN if code is None else _OTHER if code[i] < 0 else color_of(int(code[i]))}'/>"
        for i in index
    )
    rim = "<circle cx='100' cy='100' r='98' fill='none' stroke='#8793a1'/>" if candidate.c > 0 else ""
    caption = f"{title} model, seed {candidate.seed}. {shown.note}"
    return (
        f"<figure><svg viewBox='0 0 200 200' role='img' aria-label='{escape(caption)}'>{rim}<g fill-opacity='.8'>{dots}"
        f"</g>{_numbers(at, code) if numbered and code is not None else ''}</svg>"
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _numbers(at: np.ndarray, code: np.ndarray) -> str:
    """The number of each label, at the row that is nearest to the middle of its rows."""
    written = []
    for label in range(int(code.max()) + 1):
        rows = at[code == label]
        x, y = rows[np.square(rows - np.median(rows, 0)).sum(1).argmin()]
        written.append(f"<text x='{x:.1f}' y='{y + 1.6:.1f}'>{label + 1}</text>")
    return f"<g class='numbers'>{''.join(written)}</g>"
