"""Durations as Go writes them ("1h2m3s"), in seconds."""

import re
from typing import Final

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def duration(text: str) -> float | None:
    """Give the seconds that a text stands for; None if it is no duration."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0.0
    if not rest:
        return None
    place, seconds = 0, 0.0
    while place < len(rest):
        part = _PART.match(rest, place)
        if part is None:
            return None
        seconds += float(part[1]) * _UNITS[part[2]]
        place = part.end()
    return -seconds if text.startswith("-") else seconds


def text(seconds: float) -> str:
    """Write a duration as Go does, to the millisecond: `1h0m2.5s`."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 0:
        return f"-{text(-seconds)}"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    if not (hours or minutes) and rest < 1000:
        return f"{rest}ms" if rest else "0s"
    last = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + last
