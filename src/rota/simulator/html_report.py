"""A report as one HTML page: tables, and plots as SVG inside it. Needs no network, no script and no font of its own.

Equal reports give equal bytes. Every text from a trace or a configuration is escaped.
"""

import html
import math
from collections.abc import Sequence
from typing import Final

from rota.simulator.experiment import Report
from rota.simulator.results import Series, Summary, deviation, mean

_COLOURS: Final = ("#1b6ca8", "#c8553d", "#3a7d44", "#8e5aa8", "#b8860b", "#4a4a4a", "#007f7f", "#a83279")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 720, 320, 70, 46, 14, 16
_TICKS: Final = 5
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } .noise { color: #888; }
.key { display: inline-block; width: 1.2rem; height: .6rem; }
figure { margin: 1rem 0; } figcaption { font-size: .9rem; color: #555; } .wide { overflow-x: auto; }
@media (prefers-color-scheme: dark) {
  body { background: #16181b; color: #ddd; } th, td { border-color: #333; } svg text { fill: #bbb; }
}
"""


def page(report: Report, *, title: str = "Simulation") -> str:
    """The whole page."""
    parts = [f"<h1>{_text(title)}</h1>"]
    if report.interrupted:
        done = "the part of the run that was done" if report.partial else "the runs that were done"
        parts.append(f"<p><b>Interrupted.</b> This is about {done}.</p>")
    parts.append(_conditions(report))
    found = report.summaries
    for trace in dict.fromkeys(each.trace for each in found):
        there = [each for each in found if each.trace == trace]
        parts.append(f"<h2>{_text(trace)}, {len(there[0].seeds)} seeds</h2>")
        parts.append(_figures(there))
        parts += [_plot(name, there) for name in there[0].runs[0].series]
    parts.append(_differences(report))
    body = "\n".join(part for part in parts if part)
    head = (
        f'<meta charset="utf-8"><title>{_text(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _conditions(report: Report) -> str:
    rows = "".join(
        f'<tr><td>{_text(name)}</td><td style="text-align:left">{_text(_flat(value))}</td></tr>'
        for name, value in report.conditions.items()
    )
    return f"<h2>Rules and models</h2><table>{rows}</table>" if rows else ""


def _flat(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_flat(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_flat, value))
    return str(value)


def _figures(found: Sequence[Summary]) -> str:
    heads = "".join(f"<th>{_text(each.policy)}</th>" for each in found)
    rows = []
    for name in found[0].figures:
        cells = "".join(f"<td>{_spread(each.values(name))}</td>" for each in found)
        rows.append(f"<tr><td>{_text(name.replace('_', ' '))}</td>{cells}</tr>")
    return f'<div class="wide"><table><tr><th>figure</th>{heads}</tr>{"".join(rows)}</table></div>'


def _spread(values: Sequence[float]) -> str:
    middle = _number(mean(values))
    return middle if len(values) < 2 else f"{middle} ± {_number(deviation(values))}"


def _differences(report: Report) -> str:
    rows = []
    for each in report.differences:
        interval = (
            "one seed"
            if math.isinf(each.margin)
            else f"{each.mean - each.margin:+.3g} … {each.mean + each.margin:+.3g}"
        )
        style = ' class="noise"' if each.noise else ""
        told = "noise" if each.noise else "differs"
        rows.append(
            f"<tr{style}><td>{_text(each.trace)}: {_text(each.policy)} against {_text(each.baseline)}</td>"
            f"<td>{_text(each.figure.replace('_', ' '))}</td><td>{each.mean:+.4g}</td>"
            f"<td>{interval}</td><td>{told}</td></tr>"
        )
    if not rows:
        return ""
    heads = "<tr><th>policies</th><th>figure</th><th>difference</th><th>95 % interval</th><th></th></tr>"
    about = "<p>On the same seeds. A difference whose interval includes zero is noise.</p>"
    return f'<h2>Differences</h2>{about}<div class="wide"><table>{heads}{"".join(rows)}</table></div>'


def _plot(name: str, found: Sequence[Summary]) -> str:
    """The curves of the first seed of every policy."""
    curves = [(each.policy, each.runs[0].series[name]) for each in found if name in each.runs[0].series]
    curves = [(policy, series) for policy, series in curves if series.x]
    if not curves:
        return ""
    first = curves[0][1]
    low_x, high_x = _bounds([value for _, each in curves for value in each.x])
    low_y, high_y = _bounds([value for _, each in curves for value in each.y])
    drawn = [_axes(low_x, high_x, low_y, high_y, first)]
    keys = []
    for number, (policy, series) in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(
            f"{_across(x, low_x, high_x):.1f},{_up(y, low_y, high_y):.1f}"
            for x, y in zip(series.x, series.y, strict=True)
            if math.isfinite(x) and math.isfinite(y)
        )
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        keys.append(f'<span class="key" style="background:{colour}"></span> {_text(policy)}')
    seed = found[0].runs[0].seed
    caption = f"{_text(first.up)} over {_text(first.across)}, seed {seed}: {' &nbsp; '.join(keys)}"
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{_text(first.up)}">{"".join(drawn)}</svg>'
    return f"<figure><h3>{_text(name.replace('_', ' '))}</h3>{svg}<figcaption>{caption}</figcaption></figure>"


def _axes(low_x: float, high_x: float, low_y: float, high_y: float, series: Series) -> str:
    parts = []
    for step in range(_TICKS + 1):
        x = low_x + (high_x - low_x) * step / _TICKS
        y = low_y + (high_y - low_y) * step / _TICKS
        at, high = _across(x, low_x, high_x), _up(y, low_y, high_y)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{high:.1f}" y2="{high:.1f}" stroke="#8884"/>'
            f'<text x="{_LEFT - 8}" y="{high + 4:.1f}" font-size="12" text-anchor="end">{_number(y)}</text>'
            f'<text x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 18}" font-size="12" text-anchor="middle">{_number(x)}</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 6}" font-size="13" text-anchor="middle">{_text(series.across)}</text>'
    )
    return "".join(parts)


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    low = min(low, 0.0) if low < high * 0.5 else low
    return (low, high) if high > low else (low, low + 1.0)


def _across(x: float, low: float, high: float) -> float:
    return _LEFT + (x - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)


def _up(y: float, low: float, high: float) -> float:
    return _HEIGHT - _BOTTOM - (y - low) / (high - low) * (_HEIGHT - _BOTTOM - _TOP)


def _number(value: float) -> str:
    if math.isnan(value):
        return "none"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def _text(value: object) -> str:
    return html.escape(str(value))
