"""Schedules as crontab writes them: five fields, a name such as `@daily`, or `@every 1h30m`. Pure: times are arguments.

    parse("30 6-16/4 * * mon-fri").after(now, zone)

A schedule names the minutes whose wall time in a zone matches: one that a clock change leaves out does not come that
day, one that it brings twice comes twice. Days are those that match both the day of the month and the day of the week,
unless both are given without a star, when either will do. Grammar and messages are those that upstream's CronJobs have
(`robfig/cron` 3).
"""

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86400
#: How far ahead a time is looked for; a schedule that never comes, such as the 31st of February, has to end somewhere.
_YEARS: Final = 5
_MONTHS: Final = {
    name: number
    for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)  # noqa: SIM905
}
_WEEKDAYS: Final = {name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())}  # noqa: SIM905
_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PIECE: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)


class CronError(ValueError):
    """The schedule cannot be understood; write it like `*/15 * * * *` or `@hourly`."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What a field may hold."""

    least: int
    most: int
    names: Mapping[str, int]


_FIELDS: Final = (
    _Bounds(0, 59, {}),
    _Bounds(0, 23, {}),
    _Bounds(1, 31, {}),
    _Bounds(1, 12, _MONTHS),
    _Bounds(0, 6, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class _Field:
    """The values of a field."""

    values: frozenset[int]
    #: Whether it was written with a star (or a question mark), and so does not restrict anything.
    star: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Minutes by their wall time."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    #: Sunday is 0.
    weekdays: frozenset[int]
    #: Whether a day has to match both `days` and `weekdays`.
    both: bool

    def matches(self, local: dt.datetime) -> bool:
        """Whether a minute of wall time is one of the schedule's."""
        return self._matches_day(local) and local.hour in self.hours and local.minute in self.minutes

    def after(self, moment: float, zone: dt.tzinfo) -> float | None:
        """The first time later than a moment, in seconds since 1970; None if there is none within five years."""
        at = int(moment // _MINUTE_S + 1) * _MINUTE_S
        local = dt.datetime.fromtimestamp(at, zone)
        last_year = local.year + _YEARS
        while local.year <= last_year:
            ahead = self._ahead(local)
            if ahead == 0:
                return float(at)
            there = dt.datetime.fromtimestamp(at + ahead, zone)
            if there.utcoffset() != local.utcoffset():
                # Clocks change on the way: it is gone minute by minute, since any of them may match.
                ahead = _MINUTE_S
                there = dt.datetime.fromtimestamp(at + ahead, zone)
            at, local = at + ahead, there
        return None

    def _ahead(self, local: dt.datetime) -> int:
        """Seconds until the next minute that may match, if clocks do not change until then; 0 if this one does."""
        of_hour = local.minute * _MINUTE_S
        if not self._matches_day(local):
            return _DAY_S - local.hour * _HOUR_S - of_hour
        if local.hour not in self.hours:
            return _HOUR_S - of_hour
        if local.minute in self.minutes:
            return 0
        later = min((one for one in self.minutes if one > local.minute), default=60)
        return later * _MINUTE_S - of_hour

    def _matches_day(self, local: dt.datetime) -> bool:
        if local.month not in self.months:
            return False
        by_day, by_weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return (by_day and by_weekday) if self.both else (by_day or by_weekday)


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed distance, from whatever came before."""

    seconds: int

    def after(self, moment: float, zone: dt.tzinfo) -> float | None:
        """The moment after this one."""
        return float(moment // 1) + self.seconds


Schedule: TypeAlias = Calendar | Every


def parse(text: str) -> Schedule:
    """A schedule; `CronError` says what is wrong with it. Time zones are no part of it."""
    if not text:
        raise CronError("empty spec string")
    if text.startswith(("TZ=", "CRON_TZ=")):
        raise CronError("cannot use TZ or CRON_TZ in schedule")
    if text.startswith(_EVERY):
        return Every(max(int(_duration_s(text)), 1))
    if text.startswith("@"):
        if text not in _NAMED:
            raise CronError(f"unrecognized descriptor: {text}")
        text = _NAMED[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise CronError(f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]")
    minutes, hours, days, months, weekdays = map(_field, parts, _FIELDS)
    return Calendar(
        minutes=minutes.values,
        hours=hours.values,
        days=days.values,
        months=months.values,
        weekdays=weekdays.values,
        both=days.star or weekdays.star,
    )


def _field(text: str, bounds: _Bounds) -> _Field:
    pieces = [_piece(one, bounds) for one in text.split(",") if one]
    return _Field(
        values=frozenset(value for one in pieces for value in one.values), star=any(one.star for one in pieces)
    )


def _piece(text: str, bounds: _Bounds) -> _Field:
    """`*`, `5`, `5-10`, each perhaps with `/2`; `5/2` goes on to the end."""
    span, *steps = text.split("/")
    low, *highs = span.split("-")
    star = low in {"*", "?"}
    if star:
        start, end = bounds.least, bounds.most
    else:
        start = end = _value(low, bounds)
        if len(highs) > 1:
            raise CronError(f"too many hyphens: {text}")
        if highs:
            end = _value(highs[0], bounds)
    if len(steps) > 1:
        raise CronError(f"too many slashes: {text}")
    step = _integer(steps[0]) if steps else 1
    if steps and not highs:
        end = bounds.most
    if start < bounds.least:
        raise CronError(f"beginning of range ({start}) below minimum ({bounds.least}): {text}")
    if end > bounds.most:
        raise CronError(f"end of range ({end}) above maximum ({bounds.most}): {text}")
    if start > end:
        raise CronError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise CronError(f"step of range should be a positive number: {text}")
    return _Field(values=frozenset(range(start, end + 1, step)), star=star and step == 1)


def _value(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    return _integer(text) if named is None else named


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise CronError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise CronError(f"negative number ({number}) not allowed: {text}")
    return number


def _duration_s(text: str) -> float:
    """The seconds of `@every 1h30m`; Go's notation."""
    written = text.removeprefix(_EVERY)
    unsigned = written.removeprefix("-") if written.startswith("-") else written.removeprefix("+")
    pieces = _PIECE.findall(unsigned)
    if unsigned != "0" and (not pieces or "".join(map("".join, pieces)) != unsigned):
        raise CronError(f'failed to parse duration {text}: time: invalid duration "{written}"')
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in pieces)
    return -seconds if written.startswith("-") else seconds
