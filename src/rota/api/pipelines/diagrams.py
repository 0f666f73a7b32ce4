"""Steps as text and as a picture. Pure: a graph and states in, lines or SVG out.

A column for each layer: steps wait for steps further left.
"""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Final

from rota.api.pipelines import graphs
from rota.api.pipelines.graphs import Graph

#: How states look in a terminal and in a picture.
MARKS: Final[Mapping[str, str]] = {
    "Succeeded": "✔",
    "Cached": "✔",
    "Running": "●",
    "Failed": "✖",
    "Cancelled": "✖",
    "Skipped": "○",
    "Waiting": "◌",
}
_FILLS: Final[Mapping[str, str]] = {
    "Succeeded": "#c8e6c9",
    "Cached": "#dcedc8",
    "Running": "#bbdefb",
    "Failed": "#ffcdd2",
    "Cancelled": "#ffe0b2",
    "Skipped": "#eeeeee",
}
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 160, 36, 60, 16, 12
_LONGEST: Final = 20


def text(known: Graph, states: Mapping[str, str], *, last: Collection[str] = ()) -> list[str]:
    """One line per step, by layers, with those it waits for; those at the end of a run (`last`) are marked."""
    lines = []
    for level, names in enumerate(graphs.layers(known)):
        for name in names:
            mark = f"{MARKS.get(states[name], '?')} " if name in states else ""
            waits = f"  <- {', '.join(sorted(known[name]))}" if known[name] else ""
            end = "  (at the end)" if name in last else ""
            lines.append(f"{'  ' * level}{mark}{name}{waits}{end}")
    return lines


def svg(known: Graph, states: Mapping[str, str], *, last: Collection[str] = ()) -> str:
    """A picture: boxes in the colours of their states, arrows from dependencies; `last` ones are dashed."""
    layers = graphs.layers(known)
    places = {name: (column, row) for column, names in enumerate(layers) for row, name in enumerate(names)}
    width = 2 * _MARGIN + len(layers) * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + max((len(names) for names in layers), default=0) * (_HEIGHT + _GAP_Y) - _GAP_Y
    arrows = [_arrow(places[other], places[name]) for name in known for other in sorted(known[name]) if other in known]
    boxes = [_box(name, places[name], states.get(name, ""), last=name in last) for name in known]
    marker = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#666"/></marker></defs>'
    )
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">'
    return "\n".join([head, marker, *arrows, *boxes, "</svg>"])


def bar(done: int, total: int, *, width: int = 10) -> str:
    """How far something has come."""
    filled = round(width * done / total) if total else width
    return "█" * filled + "·" * (width - filled)


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    column, row = place
    return _MARGIN + column * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y)


def _box(name: str, place: tuple[int, int], state: str, *, last: bool) -> str:
    x, y = _corner(place)
    shown = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    fill = _FILLS.get(state, "#ffffff")
    end = " (at the end)" if last else ""
    title = f"<title>{escape(name)}{end}{f': {escape(state)}' if state else ''}</title>"
    stroke = 'stroke="#666" stroke-dasharray="4 3"' if last else 'stroke="#666"'
    box = f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{fill}" {stroke}/>'
    label = f'<text x="{x + _WIDTH // 2}" y="{y + _HEIGHT // 2 + 5}" text-anchor="middle">{escape(shown)}</text>'
    return f"<g>{title}{box}{label}</g>"


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    (left, top), (right, bottom) = _corner(start), _corner(end)
    x, y = left + _WIDTH, top + _HEIGHT // 2
    other_x, other_y = right, bottom + _HEIGHT // 2
    middle = (x + other_x) // 2
    way = f"M{x} {y} C{middle} {y} {middle} {other_y} {other_x} {other_y}"
    return f'<path d="{way}" fill="none" stroke="#666" marker-end="url(#tip)"/>'


def outcome(phases: Sequence[str]) -> str:
    """The state of a step with several runs, in one word."""
    for word in ("Failed", "Cancelled", "Running", "Waiting"):
        if word in phases:
            return word
    if phases and all(phase == "Skipped" for phase in phases):
        return "Skipped"
    return "Cached" if phases and all(phase == "Cached" for phase in phases) else "Succeeded"
