"""HTML for notebooks: small tables. All values are escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def facts(title: str, known: Mapping[str, object]) -> str:
    """A table of fields of one object; empty ones are left out."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in known.items()
        if value not in {"", None}
    )
    return f"<div><strong>{escape(title)}</strong><table>{rows}</table></div>"


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of several objects."""
    heads = "".join(f"<th style='text-align:left'>{escape(one)}</th>" for one in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div><strong>{escape(title)}</strong><table><tr>{heads}</tr>{body}</table></div>"
