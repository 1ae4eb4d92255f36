"""The report as one HTML file: no script, no network, everything from the data escaped."""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path

import numpy as np
import torch

from horoball.hierarchy.report import CALLED, Report
from horoball.hierarchy.twins import Twin
from horoball.manifolds import PoincareBall
from horoball.palette import colour_of
from horoball.projection import project
from horoball.training.whole import whole_file

__all__ = ["report_page", "write_report"]

_POINTS = 3000  # of a map at most: a page stays some hundred kB
_CATEGORIES = 24  # in a legend at most

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;color:#1d2733;background:#fff;max-width:60rem;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid #d8dee6}
.answer{font-size:1.1rem;background:#f2f6fa;border-left:4px solid #0072b2;padding:.7rem 1rem;margin:.6rem 0}
table{border-collapse:collapse;width:100%;font-size:.93rem}td,th{padding:.3rem .6rem;border-bottom:1px solid #e3e8ee}
th{text-align:left}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.maps{display:flex;gap:1.5rem}
.maps figure{flex:1;margin:0}figcaption,.note{color:#5a6878;font-size:.87rem}
.key{display:inline-block;margin-right:1rem}
.key i{display:inline-block;width:.7em;height:.7em;border-radius:50%;margin-right:.35em}
.hyperbolic{color:#0a6b4f;font-weight:600}.euclidean{color:#a04400;font-weight:600}
@media(prefers-color-scheme:dark){body{color:#e4e9ef;background:#151a20}.answer{background:#1e2730}
td,th{border-color:#2c3641}h2{border-color:#2c3641}figcaption,.note{color:#9aa7b5}.hyperbolic{color:#4fd0a5}
.euclidean{color:#f0a060}}
"""


def write_report(report: Report, path: Path) -> Path:
    """Write the page, and its numbers as JSON beside it; returns the path of the latter.

    Example:
        >>> import tempfile
        >>> from horoball.data import ArrayTable
        >>> from horoball.hierarchy.report import make_report
        >>> from horoball.training import TrainConfig
        >>> report = make_report(ArrayTable(torch.randn(60, 3)), TrainConfig(max_epochs=1), seeds=2)
        >>> write_report(report, Path(tempfile.mkdtemp()) / "report.html").name
        'report.json'
    """
    numbers = path.with_suffix(".json")
    figures = json.dumps(_finite(report.as_dict()), indent=1, ensure_ascii=False)
    for name, text in ((path, report_page(report)), (numbers, figures)):
        with whole_file(name) as part:
            part.write_text(text, encoding="utf-8")
    return numbers


def report_page(report: Report) -> str:
    """The page.

    Example:
        >>> from horoball.data import ArrayTable
        >>> from horoball.hierarchy.report import make_report
        >>> from horoball.training import TrainConfig
        >>> page = report_page(make_report(ArrayTable(torch.randn(60, 3)), TrainConfig(max_epochs=1), seeds=2))
        >>> "<h2>Did geometry help?</h2>" in page
        True
    """
    title = escape(report.name or "Report")
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<meta name='viewport' content='width=device-width'><title>{title}</title><style>{_STYLE}</style></head>",
        "<body>",
        f"<h1>{title}</h1><p class='note'>{report.rows:,} rows, {report.columns:,} columns. Hyperbolic model with "
        f"c = {report.c:g} beside its Euclidean twin, {len(report.twins.hyperbolic)} seeds.</p>",
        *(f"<p class='answer'>{escape(sentence)}</p>" for sentence in report.words),
        "<h2>Is it hierarchical?</h2>",
        _scale(report),
        _references(report),
        "<h2>Did geometry help?</h2>",
        _comparison(report),
        "<h2>The two maps</h2>",
        _maps(report),
        "</body></html>",
    ]
    return "\n".join(parts)


def _scale(report: Report) -> str:
    """The position between tree and cloud, drawn."""
    where = report.verdict.position
    if not math.isfinite(where.value):
        return "<p>The data have no branches to speak of: a line, or a star. There is no position to show.</p>"

    def at(value: float) -> float:
        return 40 + 520 * min(max(value, 0.0), 1.2) / 1.2

    marks = "".join(
        f"<line x1='{at(v):.1f}' x2='{at(v):.1f}' y1='34' y2='46' stroke='#8793a1'/>"
        f"<text x='{at(v):.1f}' y='62' text-anchor='middle' font-size='12' fill='currentColor'>{word}</text>"
        for v, word in ((0.0, "tree"), (0.5, "½"), (0.75, "¾"), (1.0, "cloud"))
    )
    return (
        "<svg viewBox='0 0 600 70' role='img' aria-label='Position between tree and cloud'>"
        f"<line x1='40' x2='560' y1='40' y2='40' stroke='#8793a1'/>{marks}"
        f"<line x1='{at(where.low):.1f}' x2='{at(where.high):.1f}' y1='40' y2='40' stroke='#0072b2' stroke-width='6'/>"
        f"<circle cx='{at(where.value):.1f}' cy='40' r='7' fill='#0072b2'/>"
        f"<text x='{at(where.value):.1f}' y='22' text-anchor='middle' font-size='13' fill='currentColor'>"
        f"{where.value:.2f}</text></svg>"
    )


def _references(report: Report) -> str:
    rows = [("this table", report.verdict.data), ("clouds of its spectrum, first", report.verdict.clouds[0])]
    rows += [(f"reference: {name}", known) for name, known in report.references.items()]
    lines = "".join(
        f"<tr><td>{escape(name)}</td><td class='n'>{known.relative:.3f}</td>"
        f"<td class='n'>{known.conflict.value:.3f}</td>"
        f"<td class='n'>{known.conflict.low:.3f} … {known.conflict.high:.3f}</td></tr>"
        for name, known in rows
    )
    return (
        "<table><tr><th>space</th><th class='n'>2δ/diameter</th><th class='n'>conflict</th><th class='n'>95 %</th></tr>"
        f"{lines}</table><p class='note'>δ is Gromov's, from geodesics of the graph of 20 nearest neighbours. Conflict "
        "is 0 on a tree; the position is the table's conflict over that of normal clouds with the same spectrum. "
        "Clusters that lie apart are tree-like too: look at the maps.</p>"
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
    return (
        "<table><tr><th>figure</th><th class='n'>hyperbolic</th><th class='n'>Euclidean</th>"
        "<th class='n'>difference, 95 %</th><th>better</th></tr>" + "".join(lines) + "</table>"
        "<p class='note'>Paired by seed: the same rows, split, widths, epochs and early stopping. A side is better if "
        "the interval of the difference leaves out 0; of that many figures one may do so by chance. "
        "Labels were used to judge, not to fit. Both models have the paper's objective, without a distance term.</p>"
    )


def _maps(report: Report) -> str:
    labels = None if report.labels is None else np.asarray(report.labels).astype(str)
    names = [] if labels is None else list(np.unique(labels))
    if len(names) > _CATEGORIES:
        labels, names = None, []
    colours = {name: colour_of(number) for number, name in enumerate(names)}
    pair = ((report.twins.hyperbolic[0], "Hyperbolic"), (report.twins.euclidean[0], "Euclidean"))
    figures = "".join(_map(twin, title, labels, colours) for twin, title in pair)
    keys = "".join(
        f"<span class='key'><i style='background:{colour}'></i>{escape(name)}</span>"
        for name, colour in colours.items()
    )
    return f"<div class='maps'>{figures}</div><p>{keys}</p>"


def _map(twin: Twin, title: str, labels: np.ndarray | None, colours: dict[str, str]) -> str:
    ball = PoincareBall(twin.c)
    shown = project(twin.embedding, ball)
    x = ball.to_ball(torch.from_numpy(shown.points)).numpy()
    x = x * (math.sqrt(twin.c) if twin.c > 0 else 0.97 / max(float(np.linalg.norm(x, axis=1).max()), 1e-30))
    index = np.sort(np.random.default_rng(0).permutation(len(x))[:_POINTS])
    radius = 1.6 if len(index) < 1000 else 1.1
    dots = "".join(
        f"<circle cx='{100 + 98 * x[i, 0]:.1f}' cy='{100 - 98 * x[i, 1]:.1f}' r='{radius}' "
        f"fill='{colours[str(labels[i])] if labels is not None else '#0072b2'}'/>"
        for i in index
    )
    rim = "<circle cx='100' cy='100' r='98' fill='none' stroke='#8793a1'/>" if twin.c > 0 else ""
    caption = f"{title} model, seed {twin.seed}. {shown.note}"
    return (
        f"<figure><svg viewBox='0 0 200 200' role='img' aria-label='{escape(caption)}'>{rim}<g fill-opacity='.8'>{dots}"
        f"</g></svg><figcaption>{escape(caption)}</figcaption></figure>"
    )


def _finite(value: object) -> object:
    """JSON has no infinity and no NaN; they become null."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
