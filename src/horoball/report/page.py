"""The report as one HTML file: no network, no script but the map's in its frame, everything from the data escaped."""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path

import numpy as np

from horoball.hierarchy.trees import Verdict
from horoball.report.analysis import CALLED, Report
from horoball.report.maps import maps, moving_map
from horoball.report.tree_figure import tree_figure
from horoball.storage.atomic import write_whole
from horoball.storage.outputs import is_sealed, sealed
from horoball.viewer.document import frame_policy

__all__ = ["is_report", "numbers_of", "report_page", "write_report"]

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
    """Write the page, and its numbers as JSON beside it; returns the path of the latter.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from horoball.data import ArrayTable
        >>> from horoball.report.analysis import make_report
        >>> from horoball.training import TrainConfig
        >>> report = make_report(ArrayTable(torch.randn(60, 3)), TrainConfig(max_epochs=1), seeds=2)
        >>> write_report(report, Path(tempfile.mkdtemp()) / "report.html").name
        'report.json'
    """
    numbers = numbers_of(path)
    figures = json.dumps(_finite(report.as_dict()), indent=1, ensure_ascii=False)
    write_whole(path, sealed(report_page(report), "report", figures))
    write_whole(numbers, figures)
    return numbers


def numbers_of(path: Path) -> Path:
    """The file with a report's numbers, beside its page.

    Example:
        >>> numbers_of(Path("report.html")).name
        'report.json'
    """
    return path.with_suffix(".json")


def is_report(path: Path) -> bool:
    """Whether a page and its numbers are those of a report, as it was written.

    Example:
        >>> is_report(Path("no such page.html"))
        False
    """
    return is_sealed(path, "report", numbers_of(path))


def report_page(report: Report) -> str:
    """The page.

    Example:
        >>> import torch
        >>> from horoball.data import ArrayTable
        >>> from horoball.report.analysis import make_report
        >>> from horoball.training import TrainConfig
        >>> page = report_page(make_report(ArrayTable(torch.randn(60, 3)), TrainConfig(max_epochs=1), seeds=2))
        >>> "<h2>Did geometry help?</h2>" in page
        True
    """
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
        _tests(report.verdict),
        _references(report),
        "<h2>Did geometry help?</h2>",
        _comparison(report),
        "<h2>The two maps</h2>",
        maps(report.candidates, report.labels),
        "<h3>The hyperbolic map, to move about in</h3>",
        moving_map(report.candidates, report.labels),
        f"<h2>The tree of the {'labels' if report.labeled else 'rows'}</h2>",
        tree_figure(report.tree, of_labels=report.labeled),
        "</body></html>",
    ]
    return "\n".join(parts)


def _tests(found: Verdict) -> str:
    """The three questions, and what came out."""
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
            f"{found.branches} branches above chance, {found.flat:.1f} in flat data of the same covariance, "
            f"p = {found.p:.2g}; 0.05 is needed",
        ),
        ("Is it nested?", nested, centers),
        ("Where do rows lie?", where, "what predicts distances in unseen columns better"),
    ]
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><tr><th>question</th><th>answer</th><th>evidence</th></tr>{rows}</table>"


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
        "<p class='note'>Paired by seed: the same rows, split, widths, epochs and early stopping. A side is better if "
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
