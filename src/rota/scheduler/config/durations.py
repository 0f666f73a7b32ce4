"""Durations as Go writes them ("15s", "1m30s", "250ms"), which is how component configuration has them.

A `Duration` is a `timedelta`, so it compares and adds as one. Plugin authors may use it in their own argument
structs.
"""

import re
from datetime import timedelta

UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}

_PART = r"(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h)"
_WHOLE = re.compile(rf"[-+]?(?:0|(?:{_PART})+)")
_EACH = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


class Duration(timedelta):
    """A span of time that is read from Go's notation; resolution one microsecond."""

    __slots__ = ()


def parse(text: str) -> Duration:
    """Read a Go duration; `ValueError` says what one looks like."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f'"{text}" is not a duration; write numbers with units, such as "15s" or "1m30s"')
    seconds = sum(float(number) * UNIT_SECONDS[unit] for number, unit in _EACH.findall(text))
    return Duration(seconds=-seconds if text.startswith("-") else seconds)


def written(duration: timedelta) -> str:
    """Write a duration as Go does: 1m30s, 250ms, 0s."""
    left = abs(duration) // timedelta(microseconds=1)
    sign = "-" if duration < timedelta() else ""
    if left < 1_000:
        return f"{sign}{left}µs" if left else "0s"
    if left < 1_000_000:
        return f"{sign}{left / 1_000:g}ms"
    minutes, left = divmod(left, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{left / 1_000_000:.6f}".rstrip("0").rstrip(".")
    ahead = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{ahead}{seconds}s"
