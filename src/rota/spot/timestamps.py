"""Parses timestamps of clouds: RFC 3339, and the dates of mail and HTTP; alone or inside a sentence. Pure.

An unreadable time counts as missing: None, never an error.
"""

import re
from datetime import UTC, datetime
from typing import Final

from rota.api import times

_RFC3339: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII)
#: `Wed, 26 Feb 2025 10:13:13 GMT`; the day of the week and a leading zero may be missing.
_HTTP_DATE: Final = re.compile(r"\b(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) (?:GMT|UTC)\b", re.ASCII)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def find(text: str) -> float | None:
    """The first time in a text, in seconds since 1970."""
    exact = _RFC3339.search(text)
    if exact is not None:
        try:
            return times.parse(exact[0])
        except times.TimeError:
            return None
    dated = _HTTP_DATE.search(text)
    if dated is None or dated[2] not in _MONTHS:
        return None
    day, month, year, hour, minute, second = dated.groups()
    try:
        parts = (int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second))
        return datetime(*parts, tzinfo=UTC).timestamp()
    except ValueError:
        return None
