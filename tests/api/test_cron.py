"""Schedules: what they mean is checked against a model that asks every minute."""

import datetime as dt
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import cron
from rota.api.cron import CronError

UTC = dt.UTC
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def at(text: str, zone: dt.tzinfo = UTC, *, fold: int = 0) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp()


def shown(moment: float | None, zone: dt.tzinfo = UTC) -> str:
    assert moment is not None
    return dt.datetime.fromtimestamp(moment, zone).isoformat()


@pytest.mark.parametrize(
    ("schedule", "now", "following"),
    [
        ("* * * * *", "2026-03-01T10:00:00", "2026-03-01T10:01:00+00:00"),
        ("* * * * *", "2026-03-01T10:00:59", "2026-03-01T10:01:00+00:00"),
        ("*/15 * * * *", "2026-03-01T10:46:00", "2026-03-01T11:00:00+00:00"),
        ("30 6-16/4 * * 1-5", "2026-03-06T15:00:00", "2026-03-09T06:30:00+00:00"),
        ("0 12 * feb mon", "2026-03-06T15:00:00", "2027-02-01T12:00:00+00:00"),
        ("5/20 * * * *", "2026-03-06T15:26:00", "2026-03-06T15:45:00+00:00"),
        ("@yearly", "2026-03-06T15:26:00", "2027-01-01T00:00:00+00:00"),
        ("@monthly", "2026-03-06T15:26:00", "2026-04-01T00:00:00+00:00"),
        ("@weekly", "2026-03-06T15:26:00", "2026-03-08T00:00:00+00:00"),
        ("@midnight", "2026-03-06T15:26:00", "2026-03-07T00:00:00+00:00"),
        ("@hourly", "2026-03-06T15:26:00", "2026-03-06T16:00:00+00:00"),
        ("@every 1h30m", "2026-03-06T15:26:07", "2026-03-06T16:56:07+00:00"),
        ("0 0 29 2 *", "2026-03-06T15:26:00", "2028-02-29T00:00:00+00:00"),
        # Both days restricted: either will do. One with a star: both have to match.
        ("0 0 13 * fri", "2026-03-07T00:00:00", "2026-03-13T00:00:00+00:00"),
        ("0 0 14 * fri", "2026-03-13T00:00:00", "2026-03-14T00:00:00+00:00"),
        ("0 0 */2 * fri", "2026-03-07T00:00:00", "2026-03-09T00:00:00+00:00"),
        ("0 0 ? * fri", "2026-03-07T00:00:00", "2026-03-13T00:00:00+00:00"),
    ],
)
def test_the_next_time(schedule: str, now: str, following: str) -> None:
    assert shown(cron.parse(schedule).after(at(now), UTC)) == following


def test_a_time_that_a_clock_change_leaves_out_does_not_come_and_one_that_it_brings_twice_comes_twice() -> None:
    daily = cron.parse("30 2 * * *")
    assert shown(daily.after(at("2026-03-28T12:00:00", BERLIN), BERLIN), BERLIN) == "2026-03-30T02:30:00+02:00"
    first = daily.after(at("2026-10-24T12:00:00", BERLIN), BERLIN)
    assert shown(first, BERLIN) == "2026-10-25T02:30:00+02:00"
    assert first is not None
    assert shown(daily.after(first, BERLIN), BERLIN) == "2026-10-25T02:30:00+01:00"


def test_a_schedule_that_never_comes_has_no_next_time() -> None:
    assert cron.parse("0 0 31 2 *").after(at("2026-01-01T00:00:00"), UTC) is None


@pytest.mark.parametrize(
    ("schedule", "complaint"),
    [
        ("", "empty spec string"),
        ("TZ=UTC * * * * *", "cannot use TZ or CRON_TZ in schedule"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("@reboot", "unrecognized descriptor: @reboot"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("9-5 * * * *", "beginning of range (9) beyond end of range (5): 9-5"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_reason(schedule: str, complaint: str) -> None:
    with pytest.raises(CronError) as refused:
        cron.parse(schedule)
    assert str(refused.value) == complaint


def _slowly(schedule: cron.Calendar, moment: float, zone: dt.tzinfo, *, days: int) -> float | None:
    """The model: ask every minute."""
    start = int(moment // 60 + 1) * 60
    for minute in range(start, start + days * 86400, 60):
        if schedule.matches(dt.datetime.fromtimestamp(minute, zone)):
            return float(minute)
    return None


def _field(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, most)
    piece = st.one_of(
        st.just("*"), number.map(str), span, st.builds("{}/{}".format, st.one_of(st.just("*"), span), step)
    )
    return st.lists(piece, min_size=1, max_size=2).map(",".join)


_SCHEDULES = st.tuples(_field(0, 59), _field(0, 23), _field(1, 31), _field(1, 12), _field(0, 6)).map(" ".join)
#: Shifts of an hour, of half an hour, at midnight, of a day (Apia skipped 2011-12-30), and none.
_ZONES = st.sampled_from(
    ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kolkata"]
).map(zoneinfo.ZoneInfo)
_DAYS = 6


@pytest.mark.slow
@given(
    schedule=_SCHEDULES,
    zone=_ZONES,
    # Around changes of clocks, and anywhere.
    moment=st.one_of(
        st.integers(1_300_000_000, 1_800_000_000),
        st.sampled_from([1774746000, 1792890000, 1775316600, 1540695600, 1325239200, 1762063200]).flatmap(
            lambda change: st.integers(change - 2 * 86400, change + 7200)
        ),
    ),
)
def test_the_next_time_is_the_one_that_asking_every_minute_finds(
    schedule: str, zone: zoneinfo.ZoneInfo, moment: int
) -> None:
    parsed = cron.parse(schedule)
    assert isinstance(parsed, cron.Calendar)
    found, expected = parsed.after(moment, zone), _slowly(parsed, moment, zone, days=_DAYS)
    if expected is None:
        assert found is None or found >= moment + _DAYS * 86400
    else:
        assert found == expected
