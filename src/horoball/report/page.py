"""The report as one HTML file: no network, no script but the map's in its frame, everything from the data escaped."""

from __future__ import annotations

import json
import math
from collections import Counter
from html import escape
from pathlib import Path

import numpy as np
import torch

from horoball.geometry.ball import PoincareBall
from horoball.geometry.coordinates import project
from horoball.plotting.marks import COLORS, color_of
from horoball.report.analysis import CALLED, Candidate, Candidates, Report
from horoball.storage.outputs import is_sealed, sealed
from horoball.storage.whole import write_whole
from horoball.trees.tree import Tree
from horoball.trees.verdict import Verdict
from horoball.viewer.disc import frame_policy, view_points

_POINTS = 3000  # of a map at most: a page stays some hundred kB
_CATEGORIES = 100  # in the key at most, the most frequent
_OTHER, _PLAIN = "#8793a1", COLORS[0]  # rows of other labels, and of a table without labels


def maps(candidates: Candidates, labels: np.ndarray | None) -> str:
    """Both maps of the first seed, side by side, and the key.

    More labels than colors that can be told apart are numbered, on the maps and in the key. Of more than a hundred
    labels the rest is gray.
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
    """The hyperbolic map of the first seed in the viewer, all rows, in a frame."""
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


_WIDTH, _NAMES, _LINE = 600, 150, 16  # of the drawing, of the names, of a leaf


def tree_figure(tree: Tree, *, of_labels: bool) -> str:
    """A drawing of the tree, if its leaves are labels, and what to believe of it.

    Args:
        tree: The tree, with support.
        of_labels: Whether its leaves are labels; rows are too many to draw.
    """
    above, inner = int(tree.supported[tree.leaves : -1].sum()), tree.nodes - tree.leaves - 1
    words = (
        f"{above} of {inner} branches have a support above chance: more replicates have them, up to a few rows, than "
        f"in flat data. "
        f"{escape('' if tree.verdict is None else f'{tree.verdict.sentence} ')}"
        f"Made from {escape(tree.source)}, method {escape(tree.method)}."
    )
    how = "Branches that are not above chance are dashed. " if of_labels else ""
    more = "<code>horoball tree</code> writes the tree to look at, or for other programs."
    return f"{_drawing(tree) if of_labels else ''}<p class='note'>{words} {how}{more}</p>"


def _drawing(tree: Tree) -> str:
    order = tree.spans[0]
    place = np.empty(tree.leaves)
    place[order] = np.arange(tree.leaves)
    low, high = float(tree.depth[-1]), float(tree.depth.max())
    x = 8 + (_WIDTH - _NAMES - 16) * (tree.depth - low) / max(high - low, 1e-12)
    y = np.empty(tree.nodes)
    y[: tree.leaves] = 12 + _LINE * place
    for node in range(tree.leaves, tree.nodes):
        y[node] = y[tree.children[node]].mean()
    parts = []
    for node in range(tree.nodes - 1):
        up = tree.parent[node]
        dash = "" if tree.supported[node] else " stroke-dasharray='3 3'"
        parts.append(f"<path d='M{x[up]:.1f} {y[up]:.1f}V{y[node]:.1f}H{x[node]:.1f}'{dash}/>")
    lines = f"<g fill='none' stroke='#0072b2' stroke-width='1.5'>{''.join(parts)}</g>"
    names = "".join(
        f"<text x='{x[leaf] + 5:.1f}' y='{y[leaf] + 4:.1f}'>{escape(tree.names[leaf][:24])}</text>"
        for leaf in range(tree.leaves)
    )
    numbers = "".join(
        f"<text x='{x[node] - 3:.1f}' y='{y[node] - 3:.1f}' text-anchor='end' font-size='10'>"
        f"{tree.support[node]:.2f}</text>"
        for node in range(tree.leaves, tree.nodes - 1)
        if tree.support is not None and tree.supported[node]
    )
    height = 24 + _LINE * tree.leaves
    return (
        f"<svg viewBox='0 0 {_WIDTH} {height}' role='img' aria-label='Tree of the labels' font-size='12' "
        f"fill='currentColor'>{lines}{names}{numbers}</svg>"
    )


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;color:#1d2733;background:#fff;max-width:60rem;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid #d8dee6}
.answer{font-size:1.1rem;background:#f2f6fa;border-left:4px solid #0072b2;padding:.7rem 1rem;margin:.6rem 0}
table{border-collapse:collapse;width:100%;font-size:.93rem}td,th{padding:.3rem .6rem;border-bottom:1px solid #e3e8ee}
th{text-align:left}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.maps{display:flex;gap:1.5rem}
.maps figure{flex:1;margin:0}figcaption,.note{color:#5a6878;font-size:.87rem}
.key{display:inline-block;margin-right:1rem}.columns{columns:9rem auto;font-size:.87rem}.columns .key{display:block}
.numbers{font:bold 4.5px system-ui,sans-serif;text-anchor:middle;fill:#111;stroke:#fff;stroke-width:1.2px;
paint-order:stroke}
.key i{display:inline-block;width:.7em;height:.7em;border-radius:50%;margin-right:.35em}
.hyperbolic{color:#0a6b4f;font-weight:600}.euclidean{color:#a04400;font-weight:600}
@media(prefers-color-scheme:dark){body{color:#e4e9ef;background:#151a20}.answer{background:#1e2730}
td,th{border-color:#2c3641}h2{border-color:#2c3641}figcaption,.note{color:#9aa7b5}.hyperbolic{color:#4fd0a5}
.euclidean{color:#f0a060}}
"""


def write_report(report: Report, path: Path) -> Path:
    """Write the page, and its numbers as JSON beside it; returns the path of the latter."""
    numbers = numbers_of(path)
    figures = json.dumps(_finite(report.as_dict()), indent=1, ensure_ascii=False)
    write_whole(path, sealed(report_page(report), "report", figures))
    write_whole(numbers, figures)
    return numbers


def numbers_of(path: Path) -> Path:
    """The file with a report's numbers, beside its page."""
    return path.with_suffix(".json")


def is_report(path: Path) -> bool:
    """Whether a page and its numbers are those of a report, as it was written."""
    return is_sealed(path, "report", numbers_of(path))


def report_page(report: Report) -> str:
    """The page."""
    title = escape(report.name or "Report")
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<meta http-equiv='Content-Security-Policy' content=\"{_POLICY}; {frame_policy()}\">",
        f"<meta name='viewport' content='width=device-width'><title>{title}</title><style>{_STYLE}</style></head>",
        "<body>",
        f"<h1>{title}</h1><p class='note'>{report.rows:,} rows, {report.columns:,} columns. Hyperbolic model with "
        f"c = {report.c:g} and its Euclidean baseline, {len(report.candidates.hyperbolic)} seeds.</p>",
        *(f"<p class='answer'>{escape(sentence)}</p>" for sentence in report.words),
        "<h2>Is it hierarchical?</h2>",
        _tests(report.verdict, report.judged),
        _references(report),
        "<h2>Did geometry help?</h2>",
        _comparison(report),
        "<h2>The two maps</h2>",
        maps(report.candidates, report.labels),
        "<h3>The hyperbolic map, interactive</h3>",
        moving_map(report.candidates, report.labels),
        f"<h2>The tree of the {'labels' if report.labeled else 'rows'}</h2>",
        tree_figure(report.tree, of_labels=report.labeled),
        "</body></html>",
    ]
    return "\n".join(parts)


def _tests(found: Verdict, judged: tuple[int, int]) -> str:
    """The three questions, and what came out, of so many rows and columns."""
    structure = "yes" if found.answer != "not detected" else "not detected"
    nested = "yes" if found.hierarchical else "not detected"
    centers = "fewer than four groups: nothing to compare"
    if not math.isnan(found.nesting):
        centers = f"{found.groups} groups lie as {found.nesting:.2g} of independent centers do; 0.02 is needed"
    where = "along the branches too" if found.along else "at the tips"
    lines = [
        (
            "Is there structure?",
            structure,
            f"{found.evidence}; 0.05 is needed",
        ),
        ("Is it nested?", nested, centers),
        ("Where do rows lie?", where, "what predicts distances in unseen columns better"),
    ]
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return (
        f"<table><tr><th>question</th><th>answer</th><th>evidence</th></tr>{rows}</table>"
        f"<p class='note'>Of {judged[0]:,} rows and {judged[1]:,} columns.</p>"
    )


def _references(report: Report) -> str:
    rows = [("this table", report.measured)]
    rows += [(f"reference: {name}", known) for name, known in report.references.items()]
    lines = "".join(
        f"<tr><td>{escape(name)}</td><td class='n'>{known.relative:.3f}</td>"
        f"<td class='n'>{known.conflict.value:.3f}</td>"
        f"<td class='n'>{known.conflict.low:.3f} … {known.conflict.high:.3f}</td></tr>"
        for name, known in rows
    )
    return (
        "<table><tr><th>space</th><th class='n'>2δ/diameter</th><th class='n'>conflict</th><th class='n'>95 %</th></tr>"
        f"{lines}</table><p class='note'>δ is Gromov's, from geodesics of the graph of 20 nearest neighbors. Conflict "
        "is 0 on a tree.</p>"
    )


def _comparison(report: Report) -> str:
    lines = []
    for line in report.comparison():
        gap, better = line["difference"], line["better"]
        means = [float(np.mean(line[side])) for side in ("hyperbolic", "euclidean")]
        lines.append(
            f"<tr><td>{escape(line['called'])}</td><td class='n'>{means[0]:.3f}</td><td class='n'>{means[1]:.3f}</td>"
            f"<td class='n'>{gap['mean']:+.3f} [{gap['low']:+.3f}, {gap['high']:+.3f}]</td>"
            f"<td class='{better}'>{CALLED[better]}</td></tr>"
        )
    weight = f"a distance term of weight {report.distance_weight:g}" if report.distance_weight else "no distance term"
    return (
        "<table><tr><th>figure</th><th class='n'>hyperbolic</th><th class='n'>Euclidean</th>"
        "<th class='n'>difference, 95 %</th><th>better</th></tr>" + "".join(lines) + "</table>"
        f"<p class='note'>Paired by seed, each of {report.trained:,} rows, a fifth of them held out: the same rows, "
        "split, widths, epochs and early stopping. A side is better if "
        "the interval of the difference leaves out 0; of that many figures one may do so by chance. "
        f"Labels were used to judge, not to fit. Both models have {weight} in their objective.</p>"
    )


def _finite(value: object) -> object:
    """JSON has no infinity and no NaN; they become null."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
