"""Points in time on the wire: `Time` with whole seconds, `MicroTime` with microseconds, both in UTC.

Inside, a time is a float of seconds since 1970, as `rota.kit.clock.Clock.now` gives it. Nothing here reads a clock.
Upstream accepts any RFC 3339 time and writes its own form back, cutting off what is finer.
"""

import functools
import re
from datetime import UTC, datetime, timedelta
from typing import Final

_RFC3339: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d+))?(Z|[+-]\d{2}:\d{2})",
    re.ASCII,
)
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_MICRO_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND: Final = timedelta(seconds=1)


class TimeError(ValueError):
    """The text is no RFC 3339 time; write it like 2006-01-02T15:04:05Z."""


def format_time(seconds: float) -> str:
    """A `Time`: `2006-01-02T15:04:05Z`."""
    return _format_second(round(seconds * 1_000_000) // 1_000_000)


@functools.lru_cache(maxsize=64)  # whatever happens within a second happens at one time
def _format_second(second: int) -> str:
    return (_EPOCH + second * _SECOND).strftime(_TIME)


def format_micro_time(seconds: float) -> str:
    """A `MicroTime`: `2006-01-02T15:04:05.000000Z`."""
    return _from_seconds(seconds).strftime(_MICRO_TIME)


def parse(text: str) -> float:
    """Seconds since 1970 of a `Time` or `MicroTime`, to the microsecond."""
    return (_parse(text) - _EPOCH) / timedelta(seconds=1)


def normalise(text: str) -> str:
    """Any RFC 3339 time as a `Time`."""
    moment = _parse(text)
    return text if len(text) == 20 else moment.strftime(_TIME)  # 20 characters: it is one already


def normalise_micro(text: str) -> str:
    """Any RFC 3339 time as a `MicroTime`."""
    moment = _parse(text)
    return text if len(text) == 27 and text[-1] == "Z" else moment.strftime(_MICRO_TIME)


def _from_seconds(seconds: float) -> datetime:
    # by way of whole microseconds: adding a float to a datetime rounds half to even, and twice
    return _EPOCH + round(seconds * 1_000_000) * _MICROSECOND


def _parse(text: str) -> datetime:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise TimeError(_refusal(text))
    whole, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(whole + zone)
    except ValueError:
        raise TimeError(_refusal(text)) from None
    if fraction:
        moment += int(f"{fraction:0<6.6}") * _MICROSECOND
    return moment.astimezone(UTC)


def _refusal(text: str) -> str:
    return f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
